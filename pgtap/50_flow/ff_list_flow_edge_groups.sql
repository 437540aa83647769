-- The joins of a flow.
begin;
\ir helpers.sql
select plan(6);

create function ff_tap.groups()
returns setof jsonb
language sql stable
as $$
    select to_jsonb(g) - 'execution_id'
        || jsonb_build_object('child', ff_tap.number_of(right(g.execution_id, 36)::uuid))
    from flowfabric.ff_list_flow_edge_groups(ff_tap.flow_id()) as g
$$;

select ff_tap.freeze_time(1000);
select ff_tap.flow(9);
select is_empty('select ff_tap.groups()', 'without edges there is none');
select ff_tap.join(9, 'any_of');
select is_empty('select ff_tap.groups()', 'nor for a policy without edges');
select ff_tap.setting('max_sync_cancels', 0);
select ff_tap.connect('{1, 2}', 5);
select ff_tap.join(6, 'quorum', 'cancel_remaining', 2);
select ff_tap.connect('{1, 2, 3, 4}', 6);
select ff_tap.connect('{5}', 7);
select ff_tap.stage(1, 8);
select ff_tap.finish(1);
select ff_tap.freeze_time(2000);
select ff_tap.finish(2, 'failed');
select ff_tap.freeze_time(3000);
select ff_tap.finish(3);
select results_eq(
    'select ff_tap.groups()',
    $$values
    ('{"child": 5, "policy_kind": "all_of", "k": null, "on_satisfied": null, "total_deps": 2, "satisfied_count": 1,
       "failed_count": 1, "skipped_count": 0, "running_count": 0, "group_state": "impossible", "satisfied_at_ms": null,
       "impossible_at_ms": 2000, "cancel_siblings_pending": false}'::jsonb),
    ('{"child": 6, "policy_kind": "quorum", "k": 2, "on_satisfied": "cancel_remaining", "total_deps": 4,
       "satisfied_count": 2, "failed_count": 1, "skipped_count": 0, "running_count": 1, "group_state": "satisfied",
       "satisfied_at_ms": 3000, "impossible_at_ms": null, "cancel_siblings_pending": true}'),
    ('{"child": 7, "policy_kind": "all_of", "k": null, "on_satisfied": null, "total_deps": 1, "satisfied_count": 0,
       "failed_count": 0, "skipped_count": 1, "running_count": 0, "group_state": "impossible", "satisfied_at_ms": null,
       "impossible_at_ms": 2000, "cancel_siblings_pending": false}'),
    ('{"child": 8, "policy_kind": "all_of", "k": null, "on_satisfied": null, "total_deps": 0, "satisfied_count": 0,
       "failed_count": 0, "skipped_count": 0, "running_count": 0, "group_state": "pending", "satisfied_at_ms": null,
       "impossible_at_ms": null, "cancel_siblings_pending": false}')$$,
    'every child has its policy, its counts and its verdict, one with only staged edges too');
select is(
    (select array_agg(g.execution_id) from flowfabric.ff_list_flow_edge_groups(ff_tap.flow_id()) as g),
    array[ff_tap.m(5), ff_tap.m(6), ff_tap.m(7), ff_tap.m(8)], 'by the ids of the children');
select is_empty(
    format('select g.* from flowfabric.ff_list_flow_edge_groups(%L) as g', gen_random_uuid()),
    'an unknown flow has none');
select throws_ok(
    'select flowfabric.ff_list_flow_edge_groups(null)', 'ZV001', 'invalid_input', 'a flow is required');

select * from finish();
rollback;
