-- The scanners as an operator sees them.
begin;
\ir ../helpers.sql
select plan(10);

select ff_tap.freeze_time(1000000);
select results_eq(
    'select l.scanner, l.run_order from flowfabric.ff_list_scanners() as l',
    'select s.scanner collate "default", s.run_order from flowfabric.ff_scanner as s order by s.run_order',
    'all scanners are listed, in their order');
select results_eq(
    $$select l.function_name, l.enabled, l.interval_ms, l.batch_limit, l.next_due_at_ms, l.last_run_at_ms,
          l.last_duration_ms, l.last_processed, l.last_skipped, l.last_errors, l.total_processed,
          l.consecutive_failures, l.last_error
      from flowfabric.ff_list_scanners() as l where l.scanner = 'delayed'$$,
    $$values ('ff_promote_due', true, 750::bigint, 50, 0::bigint, null::bigint, null::integer, null::integer,
          null::integer, null::integer, 0::bigint, 0, null::text)$$,
    'one that never ran has no figures');
select is(
    (select max(l.overdue_ms) from flowfabric.ff_list_scanners() as l), 0::bigint,
    'by a clock before the installation none is late');
select ff_tap.freeze_time((select min(a.applied_at_ms) + 5000 from flowfabric.ff_migration_annotation as a));
select is(
    (select array[min(l.overdue_ms), max(l.overdue_ms)] from flowfabric.ff_list_scanners() as l),
    '{5000,5000}', 'one that never ran is late since the installation');
select flowfabric.ff_tick(p_max_ms => 60000);
select is(
    (select max(l.overdue_ms) from flowfabric.ff_list_scanners() as l), 0::bigint, 'after a tick none is late');
select results_eq(
    $$select l.last_run_at_ms = flowfabric.ff_now_ms(), l.next_due_at_ms - l.last_run_at_ms, l.last_processed
      from flowfabric.ff_list_scanners() as l where l.scanner = 'delayed'$$,
    $$values (true, 750::bigint, 0)$$, 'and the figures of the run are there');
select ff_tap.advance_time(1000);
select is(
    (select l.overdue_ms from flowfabric.ff_list_scanners() as l where l.scanner = 'delayed'), 250::bigint,
    'a scanner is late from its time on');
select flowfabric.ff_set_scanner('delayed', p_enabled => false);
select is(
    (select l.overdue_ms from flowfabric.ff_list_scanners() as l where l.scanner = 'delayed'), 0::bigint,
    'one that is switched off is never late');
select lives_ok(
    $$select ff_tap.as_role('flowfabric_reader', 'select flowfabric.ff_list_scanners()')$$, 'a reader may look');
select throws_ok(
    $$select ff_tap.as_role('flowfabric_worker', 'select flowfabric.ff_list_scanners()')$$, '42501', null,
    'a worker may not');
select * from finish();
rollback;
