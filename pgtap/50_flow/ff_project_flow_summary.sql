-- The summary of a flow: counts by state, and the one word that follows.
begin;
\ir helpers.sql
select plan(20);

create function ff_tap.project()
returns text
language plpgsql volatile
as $$
begin
    if not flowfabric.ff_project_flow_summary(ff_tap.flow_id()) then
        return 'nothing';
    end if;
    return (select s.public_flow_state from flowfabric.ff_flow_summary as s);
end;
$$;

select is(
    flowfabric.ff_project_flow_summary(gen_random_uuid()), false, 'an unknown flow has none');
select flowfabric.ff_create_flow(ff_tap.flow_id(), 'dag');
select is(ff_tap.project(), 'nothing', 'nor has one without members');
select is_empty('select from flowfabric.ff_flow_summary', 'nothing is written then');

select ff_tap.freeze_time(1000);
select ff_tap.flow(4);
select is(ff_tap.project(), 'open', 'while everybody waits for a worker the flow is open');
select ff_tap.finish(1);
select is(ff_tap.project(), 'open', 'also when some have succeeded');
select ff_tap.connect('{3}', 4);
select is(ff_tap.project(), 'blocked', 'one that waits for its upstreams makes it blocked');
select ff_tap.claim(2);
select is(ff_tap.project(), 'running', 'one that runs makes it running');
select ff_tap.finish(2, 'failed');
select ff_tap.finish(3, 'cancelled');
select is(ff_tap.project(), 'failed', 'when all have ended a single loss makes it failed');
select is(
    (select to_jsonb(s) from flowfabric.ff_flow_summary as s),
    jsonb_build_object(
        'partition_key', 6, 'flow_id', ff_tap.flow_id(), 'total_members', 4, 'sampled_members', 4,
        'members_completed', 1, 'members_failed', 1, 'members_cancelled', 1, 'members_expired', 0,
        'members_skipped', 1, 'members_active', 0, 'members_suspended', 0, 'members_waiting', 0, 'members_delayed', 0,
        'members_rate_limited', 0, 'members_waiting_children', 0, 'public_flow_state', 'failed',
        'last_summary_update_at', 1000),
    'every member is counted');
select ff_tap.freeze_time(2000);
select ff_tap.suspended_execution(ff_tap.m(5));
select ff_tap.execution(ff_tap.m(6), p_delay_until_ms => 9000);
select ff_tap.execution(ff_tap.m(7));
select flowfabric.ff_block_execution_for_admission(ff_tap.m(7), 'waiting_for_quota');
select ff_tap.execution(ff_tap.m(8));
select flowfabric.ff_add_execution_to_flow(ff_tap.flow_id(), ff_tap.m(n)) from generate_series(5, 8) as n;
select is(ff_tap.project(), 'blocked', 'members that sleep, are delayed or held back make it blocked');
select is(
    (select row(
        s.total_members, s.members_suspended, s.members_delayed, s.members_rate_limited, s.members_waiting,
        s.last_summary_update_at)
     from flowfabric.ff_flow_summary as s),
    row(8::bigint, 1, 1, 1, 1, 2000::bigint), 'and are counted by their state');
select ff_tap.finish(5, 'expired');
select is(ff_tap.project(), 'blocked', 'a delayed one alone too');
select ff_tap.finish(6, 'cancelled');
select is(ff_tap.project(), 'blocked', 'a rate-limited one alone too');
select ff_tap.finish(7, 'cancelled');
select is(ff_tap.project(), 'open', 'one that waits does not');

-- Completed
select flowfabric.ff_create_flow('22222222-2222-2222-2222-222222222222', 'dag');
delete from flowfabric.ff_exec_core as e where e.execution_id not in (ff_tap.eid(1), ff_tap.eid(4));
select is(ff_tap.project(), 'completed', 'successes and skips alone make it completed');
delete from flowfabric.ff_exec_core as e where e.execution_id = ff_tap.eid(1);
select is(ff_tap.project(), 'completed', 'skips alone too');
delete from flowfabric.ff_exec_core;
select is(
    flowfabric.ff_project_flow_summary(ff_tap.flow_id()), false, 'members that are gone count no more');
select is(
    (select s.public_flow_state from flowfabric.ff_flow_summary as s), 'completed', 'the last summary stays');
select ff_tap.flow(1, 11);
select flowfabric.ff_cancel_flow(ff_tap.flow_id(), 'over', 'cancel_all');
select is(ff_tap.project(), 'failed', 'a flow whose members were all cancelled derives to failed');
select throws_ok(
    'select flowfabric.ff_project_flow_summary(null)', 'ZV001', 'invalid_input', 'a flow is required');

select * from finish();
rollback;
