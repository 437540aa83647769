-- Reading how the members of a flow fare.
begin;
\ir helpers.sql
select plan(9);

select ff_tap.freeze_time(1000);
select ff_tap.flow(3);
select ff_tap.connect('{1}', 2);
select is_empty(
    format('select s.* from flowfabric.ff_read_flow_summary(%L) as s', ff_tap.flow_id()),
    'a flow that was not counted yet has no summary');
select is(
    (select to_jsonb(s) from flowfabric.ff_read_flow_summary(ff_tap.flow_id(), true) as s),
    jsonb_build_object(
        'flow_id', ff_tap.flow_id(), 'total_members', 3, 'sampled_members', 3, 'members_completed', 0,
        'members_failed', 0, 'members_cancelled', 0, 'members_expired', 0, 'members_skipped', 0, 'members_active', 0,
        'members_suspended', 0, 'members_waiting', 2, 'members_delayed', 0, 'members_rate_limited', 0,
        'members_waiting_children', 1, 'public_flow_state', 'blocked', 'status', 'active',
        'last_summary_update_at', 1000),
    'unless it is counted now');
select is_empty('select from flowfabric.ff_flow_summary', 'which stores nothing');
select flowfabric.ff_project_flow_summary(ff_tap.flow_id());
select ff_tap.freeze_time(2000);
select ff_tap.finish(1);
select ff_tap.finish(2);
select ff_tap.finish(3);
select is(
    (select row(s.public_flow_state, s.status, s.members_waiting, s.last_summary_update_at)
     from flowfabric.ff_read_flow_summary(ff_tap.flow_id()) as s),
    row('blocked'::text, 'active'::text, 2, 1000::bigint), 'the stored one is from when it was counted');
select is(
    (select row(s.public_flow_state, s.status, s.members_completed, s.last_summary_update_at)
     from flowfabric.ff_read_flow_summary(ff_tap.flow_id(), true) as s),
    row('completed'::text, 'completed'::text, 3, 2000::bigint), 'the live one from now');
select is_empty(
    format('select s.* from flowfabric.ff_read_flow_summary(%L, true) as s', gen_random_uuid()),
    'an unknown flow has none');
select flowfabric.ff_create_flow('22222222-2222-2222-2222-222222222222', 'dag');
select is_empty(
    $$select s.* from flowfabric.ff_read_flow_summary('22222222-2222-2222-2222-222222222222', true) as s$$,
    'nor has one without members');
select is(
    (select s.status from flowfabric.ff_read_flow_summary(ff_tap.flow_id(), null) as s), 'active',
    'NULL is not live');
select throws_ok('select flowfabric.ff_read_flow_summary(null)', 'ZV001', 'invalid_input', 'a flow is required');

select * from finish();
rollback;
