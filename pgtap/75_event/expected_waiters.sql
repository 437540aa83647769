-- Expected waiters: those who may have news learn from rows that they read anyway whether to look for somebody.
begin;
\ir ../helpers.sql
select plan(17);

create function ff_tap.expected(p_lane_id text)
returns bigint
language sql stable
as $$
    select l.waiters_until_ms from flowfabric.ff_lane_registry as l where l.lane_id = p_lane_id
$$;
create function ff_tap.expected_for_events()
returns bigint
language sql stable
as $$
    select c.event_waiters_until_ms from flowfabric.ff_partition_config as c
$$;
create function ff_tap.told_at_once(p_waiter_id text)
returns boolean[]
language sql stable
as $$
    select array_agg(distinct w.at_once) from flowfabric.ff_waiter as w where w.waiter_id = p_waiter_id
$$;

select ff_tap.freeze_time(1000);
select flowfabric.ff_register_lane('a');
select flowfabric.ff_register_lane('b');
select is(ff_tap.expected('a'), 0::bigint, 'at first nobody is expected');
select flowfabric.ff_wait_for_work('{a,unknown}', 'w-1', 2000);
select is(ff_tap.expected('a'), 603000::bigint, 'who waits is expected, and ten minutes more');
select is(ff_tap.expected('b'), 0::bigint, 'in his lanes only');
select ff_tap.freeze_time(500000);
select flowfabric.ff_wait_for_work('{a}', 'w-2', 60000);
select is(ff_tap.expected('a'), 603000::bigint, 'so those who follow soon write nothing');
select ff_tap.freeze_time(543001);
select flowfabric.ff_wait_for_work('{a}', 'w-2', 60000);
select is(ff_tap.expected('a'), 1203001::bigint, 'until it would not suffice for one');
select flowfabric.ff_wait_for_work('{a}', 'w-2', 0);
select is(ff_tap.expected('a'), 1203001::bigint, 'who stops waiting leaves it');
select flowfabric.ff_wait_for_work('{later}', 'w-3', 60000);
select flowfabric.ff_create_execution('test', p_lane_id => 'later');
select is(ff_tap.expected('later'), 603001::bigint, 'a lane that is waited for before it exists begins with that');

select is(ff_tap.expected_for_events(), 0::bigint, 'nobody is expected to want events');
select flowfabric.ff_wait_for_events('r-1', '{signal,operator,worker}', p_wait_ms => 1000);
select is(ff_tap.expected_for_events(), 0::bigint, 'those of rare streams are looked for each time');
select flowfabric.ff_wait_for_events('r-2', '{lease}', p_wait_ms => 1000);
select is(ff_tap.expected_for_events(), 1144001::bigint, 'those of leases are expected');
select ff_tap.freeze_time(1144002);
select flowfabric.ff_wait_for_events('r-2', '{completion}', p_wait_ms => 1000);
select is(ff_tap.expected_for_events(), 1745002::bigint, 'and those of completions');

select is(ff_tap.told_at_once('r-2'), '{t}'::boolean[], 'who waits is told at once');
select flowfabric.ff_set_setting('notify_completion', 2);
select is(ff_tap.told_at_once('r-2'), '{f,t}'::boolean[], 'unless it is left to the tick: a setting changes who waits');
select flowfabric.ff_set_setting('notify_lease', 0);
select is(ff_tap.told_at_once('r-2'), '{f}'::boolean[], 'or to nobody');
select flowfabric.ff_wait_for_events('r-4', '{completion,lease}', p_wait_ms => 1000);
select is(ff_tap.told_at_once('r-4'), '{f}'::boolean[], 'and who comes later');
select flowfabric.ff_set_setting('notify_completion', null);
select flowfabric.ff_set_setting('notify_lease', null);
select is(ff_tap.told_at_once('r-2'), '{t}'::boolean[], 'the default puts it back');
select is(ff_tap.told_at_once('r-4'), '{t}'::boolean[], 'for everybody');

select * from finish();
rollback;
