-- The names that a driver goes through: what is due, in order, and nothing else.
begin;
\ir ../helpers.sql
select plan(8);

prepare due as select d.scanner from flowfabric.ff_due_scanners() as d (scanner);

select ff_tap.freeze_time(1000000);
select results_eq(
    'execute due', 'select s.scanner collate "default" from flowfabric.ff_scanner as s order by s.run_order',
    'at first every scanner is due, in their order');
select flowfabric.ff_tick(p_max_ms => 60000);
select is_empty('execute due', 'after a tick none is');
select ff_tap.freeze_time(1000749);
select results_eq('execute due', $$values ('event_notify')$$, 'only what has reached its time is due');
select ff_tap.freeze_time(1000750);
select results_eq(
    'execute due', $$values ('delayed'), ('event_notify')$$, 'a scanner is due at the instant itself');
select flowfabric.ff_set_scanner('delayed', p_enabled => false);
select results_eq('execute due', $$values ('event_notify')$$, 'a scanner that is switched off is not due');
select ff_tap.freeze_time(999999);
select is(
    (select count(*) from flowfabric.ff_due_scanners()), 23::bigint, 'after the clock went back all that are on are due');
select lives_ok(
    $$select ff_tap.as_role('flowfabric_worker', 'select flowfabric.ff_due_scanners()')$$, 'a worker may ask');
select throws_ok(
    $$select ff_tap.as_role('flowfabric_producer', 'select flowfabric.ff_due_scanners()')$$, '42501', null,
    'a producer may not');
select * from finish();
rollback;
