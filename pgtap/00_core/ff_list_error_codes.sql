-- The catalogue as clients see it; errors.sql holds it to the contract.
begin;
\ir ../helpers.sql
select plan(6);

select results_eq(
    'select code, sqlstate, category, retry_class, hint from flowfabric.ff_list_error_codes()',
    'select code collate "default", sqlstate::text collate "default", category, retry_class, hint
     from flowfabric.ff_error_code order by ff_error_code.sqlstate collate "C"',
    'every code is listed once, by SQLSTATE');
select results_eq(
    $$ select left(sqlstate, 2), count(*) from flowfabric.ff_list_error_codes() group by 1 order by 1 $$,
    $$ values ('ZB', 3::bigint), ('ZC', 20), ('ZK', 10), ('ZN', 7), ('ZS', 37), ('ZU', 5), ('ZV', 33), ('ZX', 3) $$,
    'each category has as many codes as the specification');
select is(
    (select (c.category, c.retry_class)::text from flowfabric.ff_list_error_codes() as c where c.code = 'stale_lease'),
    '(State,terminal)', 'a code says what a client should do');
select is_empty(
    $$ select code from flowfabric.ff_list_error_codes()
       where num_nulls(code, sqlstate, category, retry_class, hint) > 0 $$,
    'no column is null');

-- A number that the catalogue lists is the number that is raised.
select throws_ok(
    $$ select flowfabric.ff_parse_execution_id('x') $$,
    (select c.sqlstate from flowfabric.ff_list_error_codes() as c where c.code = 'invalid_input'),
    'invalid_input', 'a listed SQLSTATE is the one that is raised');
set local role flowfabric_signaller;
select count(*) as listed from flowfabric.ff_list_error_codes() \gset
reset role;
select is(:listed::bigint, 118::bigint, 'the role with the fewest rights lists all of it');

select * from finish();
rollback;
