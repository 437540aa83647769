-- Listing suspended executions, longest suspended first, without losing one between two pages.
begin;
\ir helpers.sql
select plan(16);

select ff_tap.freeze_time(1000);
select ff_tap.signing_key();
\set a '{fp:86}:00000000-0000-4000-8000-00000000000a'
\set b '{fp:86}:00000000-0000-4000-8000-00000000000b'
\set c '{fp:86}:00000000-0000-4000-8000-00000000000c'
\set d '{fp:87}:00000000-0000-4000-8000-00000000000d'
prepare listing (bigint, text, integer) as select l.execution_id, l.suspended_at_ms
from flowfabric.ff_list_suspended(86::smallint, $1, $2, $3) as l;
select is_empty('execute listing(null, null, 100)', 'at first nothing is suspended');
select ff_tap.paused_execution(:'c', p_first_waitpoint => 1, p_timeout_at_ms => 9000);
select ff_tap.freeze_time(2000);
select ff_tap.paused_execution(:'b', p_first_waitpoint => 2);
select ff_tap.paused_execution(:'a', p_first_waitpoint => 3);
select ff_tap.paused_execution(:'d', p_first_waitpoint => 4);
select results_eq(
    $$select to_jsonb(l) from flowfabric.ff_list_suspended(86::smallint) as l$$,
    format(
        $$select jsonb_build_object(
            'execution_id', e.id, 'suspended_at_ms', e.since, 'reason_code', 'waiting_for_approval',
            'timeout_at_ms', e.timeout)
          from (values (%L, 1000, 9000), (%L, 2000, null), (%L, 2000, null)) as e (id, since, timeout)$$,
        :'c', :'a', :'b'),
    'in the order of their suspension, then of their ids, with reason and timeout');
select results_eq(
    'execute listing(null, null, 2)', format('values (%L, 1000::bigint), (%L, 2000)', :'c', :'a'), 'a first page');
select results_eq(
    format('execute listing(2000, %L, 2)', :'a'), format('values (%L, 2000::bigint)', :'b'),
    'the last row is the cursor; a short page is the end');
select is_empty(format('execute listing(2000, %L, 2)', :'b'), 'after the last row comes nothing');
select flowfabric.ff_resume_execution(:'a');
select results_eq(
    format('execute listing(2000, %L, 2)', :'a'), format('values (%L, 2000::bigint)', :'b'),
    'a cursor whose execution was resumed meanwhile loses nothing');
select results_eq(
    'execute listing(null, null, 100)', format('values (%L, 1000::bigint), (%L, 2000)', :'c', :'b'),
    'a closed suspension is not listed');
select is(
    (select array_agg(l.execution_id) from flowfabric.ff_list_suspended(87::smallint) as l), array[:'d'],
    'a list is of one partition');
select is_empty('execute listing(null, null, 0)', 'a limit of 0 is an empty page');
select isnt_empty('execute listing(null, '''', 2000000)', 'a limit above 1000 is 1000; an empty cursor is none');
select is(
    ff_tap.error_of(b.statement) - array['code', 'fn', 'value'],
    jsonb_build_object('field', b.field, 'reason', b.reason), b.what)
from (values
    (1, 'select flowfabric.ff_list_suspended(null)', 'partition_key', 'null', 'a partition is required'),
    (2, 'execute listing(2000, null, 2)', 'after_execution_id', 'null', 'a cursor has both parts'),
    (3, format('execute listing(null, %L, 2)', :'a'), 'after_suspended_at_ms', 'null', 'or none'),
    (4, 'execute listing(2000, ''x'', 2)', 'after_execution_id', 'malformed', 'its id is an id'),
    (5, 'execute listing(null, null, -1)', 'limit', 'out_of_range', 'a limit is not negative'),
    (6, 'execute listing(null, null, null)', 'limit', 'null', 'a limit is required')
) as b (number, statement, field, reason, what)
order by b.number;

select * from finish();
rollback;
