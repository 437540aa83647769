-- The names that a driver goes through: what is due, in order, and nothing else.
begin;
\ir ../helpers.sql
select plan(11);

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
    'execute due', $$values ('event_notify'), ('delayed')$$,
    'a scanner is due at the instant itself, after those that have been due for longer');
-- Three executions to delete, one per run.
select flowfabric.ff_set_scanner('retention', p_batch_limit => 1);
select flowfabric.ff_cancel_execution(c.execution_id, 'test', 'operator_override')
from flowfabric.ff_create_executions('{test,test,test}') as c;
update flowfabric.ff_exec_core set terminal_at_ms = 1000750 - 86400000;
select is(
    (select r.more from flowfabric.ff_tick(p_scanners => '{retention}', p_force => true) as r), true,
    'a scanner that has more to do');
select results_eq(
    'execute due', $$values ('event_notify'), ('delayed'), ('retention')$$,
    'is due at once, after those that were due before its run');
select flowfabric.ff_tick(p_scanners => '{event_notify,delayed}');
select results_eq('execute due', $$values ('retention')$$, 'until nothing else is');
select flowfabric.ff_tick(p_scanners => '{retention}', p_force => true) from generate_series(1, 3);
select ff_tap.freeze_time(1001500);
select flowfabric.ff_set_scanner('delayed', p_enabled => false);
select is(
    (select count(*) from flowfabric.ff_due_scanners() as d (scanner) where d.scanner = 'delayed'), 0::bigint,
    'a scanner that is switched off is not due');
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
