-- Items that keep failing, as an operator sees them.
begin;
\ir ../helpers.sql
select plan(11);

prepare failing (integer) as
select l.item_key, l.has_more from flowfabric.ff_list_scanner_failures($1) as l;

select ff_tap.freeze_time(1000);
select is_empty('execute failing(100)', 'where nothing fails there is nothing to list');
select flowfabric._ff_scanner_item_failed('delayed', 'twice', 'XX000 broken', 1000) from generate_series(1, 2);
select flowfabric._ff_scanner_item_failed('delayed', 'often', 'XX000 broken', 1000) from generate_series(1, 4);
select flowfabric._ff_scanner_item_failed('retention', 'once', 'XX000 old', 1000);
select flowfabric._ff_scanner_item_failed('retention', 'late', 'XX000 new', 2000);
select results_eq(
    'execute failing(100)', $$values ('often', false), ('twice', false), ('late', false), ('once', false)$$,
    'what failed most often comes first, then what failed last');
select results_eq(
    'execute failing(2)', $$values ('often', true), ('twice', true)$$, 'a page says that there is more');
select results_eq(
    'execute failing(4)', $$values ('often', false), ('twice', false), ('late', false), ('once', false)$$,
    'a page that is just full has no more');
select results_eq(
    $$select l.scanner, l.failures, l.skip_until_ms, l.last_error, l.last_failed_at_ms
      from flowfabric.ff_list_scanner_failures(1) as l$$,
    $$values ('delayed', 4, 8500::bigint, 'XX000 broken', 1000::bigint)$$,
    'it says of each what went wrong and until when it is left out');
select is(
    (select l.skip_until_ms from flowfabric.ff_list_scanner_failures() as l where l.item_key = 'twice'), null,
    'before the third failure nothing is left out');
select is_empty('execute failing(0)', 'a limit of 0 is an empty page');
select throws_ok('execute failing(-1)', 'ZV001', 'invalid_input', 'a negative limit is refused');
select throws_ok('execute failing(null)', 'ZV001', 'invalid_input', 'so is NULL');
select lives_ok('execute failing(2147483647)', 'a limit above the cap is the cap');
select throws_ok(
    $$select ff_tap.as_role('flowfabric_worker', 'select flowfabric.ff_list_scanner_failures()')$$, '42501', null,
    'a worker may not look');
select * from finish();
rollback;
