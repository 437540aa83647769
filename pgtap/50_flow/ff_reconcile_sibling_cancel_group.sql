-- Checking one join whose sibling cancels are said to be pending.
begin;
\ir helpers.sql
select plan(15);

prepare reconcile (integer) as
    select r.* from flowfabric.ff_reconcile_sibling_cancel_group(ff_tap.flow_id(), ff_tap.m($1)) as r;

create function ff_tap.pend(p_number integer, p_members integer[], p_flag boolean default true)
returns void
language sql volatile
as $$
    insert into flowfabric.ff_pending_cancel_groups (partition_key, flow_id, downstream_eid, enqueued_at_ms)
    values (6, ff_tap.flow_id(), ff_tap.eid(p_number), 0);
    update flowfabric.ff_edge_group as g
    set cancel_siblings_pending_flag = p_flag, cancel_siblings_reason = 'sibling_quorum_satisfied',
        cancel_siblings_pending_members = array(select ff_tap.eid(m) from unnest(p_members) as m)
    where g.downstream_eid = ff_tap.eid(p_number);
$$;

select ff_tap.flow(4);
select ff_tap.join(4, 'any_of', 'cancel_remaining');
select ff_tap.connect('{1, 2, 3}', 4);
select results_eq('execute reconcile(4)', $$values ('no_op', 'not_in_set')$$,
    'a join that is not queued needs nothing');
select ff_tap.pend(404, '{}');
select results_eq(
    'execute reconcile(404)', $$values ('sremmed_stale', 'missing_edgegroup')$$,
    'a join that is gone leaves the queue');
select results_eq('execute reconcile(404)', $$values ('no_op', 'not_in_set')$$, 'for good');
select ff_tap.pend(4, '{}', false);
select results_eq(
    'execute reconcile(4)', $$values ('sremmed_stale', 'flag_cleared')$$, 'so does one whose flag is down');
select is_empty('select from flowfabric.ff_pending_cancel_groups', 'for good');
select ff_tap.finish(1, 'cancelled');
select ff_tap.pend(4, '{1, 2}');
select ff_tap.everything() as before \gset
select results_eq(
    'execute reconcile(4)', $$values ('no_op', 'siblings_running')$$,
    'one whose siblings run is the dispatcher''s');
select is(ff_tap.everything(), :'before'::jsonb, 'and is left as it is');
select ff_tap.finish(2, 'failed');
select results_eq(
    'execute reconcile(4)', $$values ('completed_drain', null::text)$$, 'once they have ended it is done');
select is(
    (select row(g.cancel_siblings_pending_flag, g.cancel_siblings_pending_members, g.cancel_siblings_reason)
     from flowfabric.ff_edge_group as g),
    row(false, '{}'::uuid[], 'sibling_quorum_satisfied'::text), 'flag and list are cleared, the reason stays');
select is_empty('select from flowfabric.ff_pending_cancel_groups', 'and it leaves the queue');
select ff_tap.pend(4, '{}');
select results_eq('execute reconcile(4)', $$values ('completed_drain', null::text)$$, 'an empty list is done too');
select ff_tap.pend(4, '{405}');
select results_eq('execute reconcile(4)', $$values ('completed_drain', null::text)$$,
    'and one whose siblings are gone');
select results_eq('execute reconcile(4)', $$values ('no_op', 'not_in_set')$$, 'the repeat finds nothing');
select throws_ok(
    format('select flowfabric.ff_reconcile_sibling_cancel_group(null, %L)', ff_tap.m(4)), 'ZV001', 'invalid_input',
    'a flow is required');
select throws_ok(
    format('select flowfabric.ff_reconcile_sibling_cancel_group(%L, null)', ff_tap.flow_id()), 'ZV001',
    'invalid_input', 'a child is required');

select * from finish();
rollback;
