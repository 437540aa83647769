-- Cancelling a flow: whom it takes along, at once or through the backlog, and never a skip.
begin;
\ir helpers.sql
select plan(74);

prepare cancel (text, text, bigint, text, integer) as
    select c.* from flowfabric.ff_cancel_flow(ff_tap.flow_id(), $1, $2, $3, $4, $5) as c;

-- Everybody
select ff_tap.freeze_time(1000);
select ff_tap.flow(7);
select ff_tap.connect('{1}', 2);
select ff_tap.connect('{2}', 3);
select ff_tap.claim(4);
select ff_tap.burden(ff_tap.m(4));
select ff_tap.finish(5);
select ff_tap.suspended_execution('{fp:6}:00000000-0000-4000-8000-000000000008');
select flowfabric.ff_add_execution_to_flow(ff_tap.flow_id(), ff_tap.m(8));
select ff_tap.execution(ff_tap.m(9), p_delay_until_ms => 9000);
select flowfabric.ff_add_execution_to_flow(ff_tap.flow_id(), ff_tap.m(9));
select g.grant_key from flowfabric.ff_issue_claim_grant(ff_tap.m(6), 'worker', 'worker-1', 'default') as g \gset
select ff_tap.freeze_time(2000);
savepoint open_flow;
select is(
    (select to_jsonb(c) from flowfabric.ff_cancel_flow(ff_tap.flow_id(), 'wrong order', 'cancel_all') as c),
    jsonb_build_object(
        'outcome', 'cancelled', 'cancellation_policy', 'cancel_all', 'cancel_reason', 'wrong order',
        'public_flow_state', 'cancelled',
        'member_execution_ids', (select jsonb_agg(ff_tap.m(n) order by n) from generate_series(1, 9) as n),
        'member_count', 9, 'cancelled_count', 8, 'pending_count', 0),
    'cancel_all takes along whoever has not ended; the answer has all members');
select is(
    ff_tap.states(1, 2, 3, 4, 5, 6, 7, 8, 9),
    'cancelled cancelled cancelled cancelled completed cancelled cancelled cancelled cancelled',
    'a chain is cancelled as a whole, nobody is skipped, and what had ended stays');
select is(
    (select to_jsonb(f) - array['partition_key', 'flow_id', 'flow_kind', 'namespace', 'tags']
     from flowfabric.ff_flow_core as f),
    '{"public_flow_state": "cancelled", "graph_revision": 11, "node_count": 9, "edge_count": 2, "created_at_ms": 1000,
      "last_mutation_at_ms": 2000, "cancelled_at_ms": 2000, "terminal_at_ms": 2000, "cancel_reason": "wrong order",
      "cancellation_policy": "cancel_all"}'::jsonb,
    'the flow says when, why and how');
select is(
    (select to_jsonb(v) - array['event_id', 'xact_id', 'epoch'] from flowfabric.ff_operator_event as v),
    jsonb_build_object(
        'occurred_at_ms', 2000, 'partition_key', 6, 'execution_id', null, 'flow_id', ff_tap.flow_id(),
        'namespace', 'default', 'instance_tag', null, 'event_type', 'flow_cancel_requested',
        'details',
        '{"cancellation_policy": "cancel_all", "reason": "wrong order", "member_count": 9}'::jsonb
        || jsonb_build_object('login', session_user)),
    'an operator event tells of it');
select is(
    ff_tap.completions(ff_tap.m(n)), array['cancelled'], 'member ' || n::text || ' has one completion event')
from unnest(array[1, 2, 3, 4, 8, 9]) as n;
select is(
    (select row(n.cancellation_reason, n.cancelled_by) from ff_tap.note(ff_tap.m(2)) as n),
    row('wrong order'::text, 'operator_override'::text), 'a member knows why and by whom');
select is(
    ff_tap.lease_events(ff_tap.m(4)), array['acquired:issue_grant_and_claim', 'released:cancelled'],
    'a lease that was held is released');
select is(
    (select row(a.attempt_state, a.failure_reason) from ff_tap.attempt(ff_tap.m(4)) as a),
    row('ended_cancelled'::flowfabric.ff_attempt_row_state, 'cancelled: wrong order'::text), 'its attempt ends');
select is(
    ff_tap.burden_of(ff_tap.m(4)), 'slot free, released:lease_released, 0 open, stream attempt_cancelled@2000',
    'slot, reservation and stream with it');
select is(
    (select u.reserved_value from flowfabric.ff_budget_usage as u), 0::bigint, 'the budget has its amount back');
select is(
    ff_tap.suspension_of(ff_tap.m(8)),
    'suspension cancelled@2000 by nobody, satisfied never, 2 of 2 waitpoints closed, 0 satisfiers',
    'a suspension is closed');
select is_empty('select from flowfabric.ff_claim_grant', 'a grant that nobody used is gone');
select is_empty(
    'select from flowfabric.ff_cancel_backlog union all select from flowfabric.ff_cancel_backlog_member',
    'there is no backlog');
select is(ff_tap.outbox(), '{}', 'and nothing for the dispatcher');
select is(ff_tap.edge(1, 2), 'impossible/cancelled@2000', 'edges are resolved with the cancel');
select is(ff_tap.edge_group(3), 'all_of of 1: 0 ok, 1 failed, 0 skipped, impossible@2000', 'and joins judged');

-- Again
select ff_tap.freeze_time(3000);
select ff_tap.everything() as before \gset
select throws_ok(
    $$execute cancel('again', 'flow_only', 0, null, 500)$$, 'ZS019', 'flow_already_terminal',
    'a second cancel is refused');
select is(
    ff_tap.error_of($$execute cancel('again', 'flow_only', 0, null, 500)$$) - 'fn',
    jsonb_build_object(
        'code', 'flow_already_terminal', 'flow_id', ff_tap.flow_id(), 'public_flow_state', 'cancelled',
        'cancellation_policy', 'cancel_all', 'cancel_reason', 'wrong order'),
    'and learns what the first one decided');
select is(ff_tap.everything(), :'before'::jsonb, 'nothing changes');

-- Whoever is not running
rollback to savepoint open_flow;
select is(
    (select to_jsonb(c) - 'member_execution_ids'
     from flowfabric.ff_cancel_flow(ff_tap.flow_id(), '', 'cancel_pending') as c),
    '{"outcome": "cancelled", "cancellation_policy": "cancel_pending", "cancel_reason": null,
      "public_flow_state": "cancelled", "member_count": 9, "cancelled_count": 6, "pending_count": 0}'::jsonb,
    'cancel_pending takes along whoever waits');
select is(
    ff_tap.states(1, 2, 3, 4, 5, 6, 7, 8, 9),
    'cancelled cancelled cancelled active completed cancelled cancelled suspended cancelled',
    'what runs or sleeps goes on');
select is(
    (select n.cancellation_reason from ff_tap.note(ff_tap.m(1)) as n), null, 'an empty reason is none');
select lives_ok('select ff_tap.finish(4)', 'a member that runs can still finish');

-- Nobody
rollback to savepoint open_flow;
select is(
    (select to_jsonb(c) - 'member_execution_ids'
     from flowfabric.ff_cancel_flow(ff_tap.flow_id(), 'stop', 'cancel_flow_only') as c),
    '{"outcome": "cancelled", "cancellation_policy": "flow_only", "cancel_reason": "stop",
      "public_flow_state": "cancelled", "member_count": 9, "cancelled_count": 0, "pending_count": 0}'::jsonb,
    'flow_only, also by its other name, takes nobody along');
select is(
    ff_tap.states(1, 2, 3, 4, 5, 6, 7, 8, 9),
    'waiting waiting_children waiting_children active completed waiting waiting suspended delayed',
    'members go on');
select ff_tap.finish(1);
select is(ff_tap.states(2), 'waiting', 'and their children too');

-- Through the backlog
rollback to savepoint open_flow;
select is(
    (select to_jsonb(c) - 'member_execution_ids'
     from flowfabric.ff_cancel_flow(ff_tap.flow_id(), 'stop', 'cancel_all', 5000, 'alice', 2) as c),
    '{"outcome": "cancellation_scheduled", "cancellation_policy": "cancel_all", "cancel_reason": "stop",
      "public_flow_state": "cancelled", "member_count": 9, "cancelled_count": 2, "pending_count": 6}'::jsonb,
    'what is above the limit is left for later');
select is(
    ff_tap.states(1, 2, 3, 4, 5, 6, 7, 8, 9),
    'cancelled cancelled cancelled active completed waiting waiting suspended waiting',
    'a child of a cancelled member that is queued itself ends as cancelled, not as skipped');
select is(
    (select row(n.cancellation_reason, n.cancelled_by) from ff_tap.note(ff_tap.m(3)) as n),
    row('stop'::text, 'operator_override'::text), 'with the reason of the flow');
select is(ff_tap.backlog(), '{4, 6, 7, 8, 9}', 'the others are in the backlog');
select is(
    (select to_jsonb(b) - array['partition_key', 'flow_id'] from flowfabric.ff_cancel_backlog as b),
    '{"requested_at_ms": 2000, "requester": "alice", "reason": "stop", "grace_until_ms": 7000,
      "cancellation_policy": "cancel_all", "status": "pending"}'::jsonb,
    'with its grace');
select is(
    ff_tap.vector(ff_tap.m(6)),
    'runnable / unowned / blocked_by_operator / paused_by_flow_cancel / none / pending_first_attempt -> waiting',
    'one that waits cannot be claimed any more');
select is(
    (select row(e.blocking_detail, e.blocked_at_ms, e.last_transition_at_ms, e.last_mutation_at_ms)
     from ff_tap.core(ff_tap.m(6)) as e),
    row('stop'::text, 2000::bigint, 2000::bigint, 2000::bigint), 'and says why and since when');
select is((ff_tap.core(ff_tap.m(9))).delay_until_ms, 9000::bigint, 'a delay is kept');
select throws_ok('select ff_tap.claim(7)', 'ZC013', 'execution_not_in_eligible_set', 'a claim is refused');
select throws_ok(
    format(
        'select flowfabric.ff_claim_execution(%L, %L, %L, p_grant_key => %L)', ff_tap.m(6), 'worker', 'worker-1',
        :'grant_key'),
    'ZC003', 'execution_not_leaseable', 'even one with a grant from before');
select throws_ok(
    format('select flowfabric.ff_unblock_execution(%L)', ff_tap.m(6)), 'ZC012', 'execution_not_eligible',
    'and nobody lifts the block');
select ff_tap.freeze_time(3000);
select ff_tap.finish(4);
select is(ff_tap.backlog(), '{6, 7, 8, 9}', 'a member that finishes meanwhile leaves the backlog');
select is(ff_tap.states(4), 'completed', 'with its own end');
select ff_tap.finish(6, 'cancelled');
select ff_tap.finish(7, 'expired');
select ff_tap.finish(8, 'cancelled');
select is((select count(*) from flowfabric.ff_cancel_backlog), 1::bigint, 'the backlog lasts while it has a member');
select ff_tap.finish(9, 'cancelled');
select is_empty('select from flowfabric.ff_cancel_backlog', 'and goes with the last one');

-- All of them through the backlog
rollback to savepoint open_flow;
select is(
    (select row(c.outcome, c.cancelled_count, c.pending_count)
     from flowfabric.ff_cancel_flow(ff_tap.flow_id(), repeat('r', 500), 'cancel_pending', p_sync_limit => 0) as c),
    row('cancellation_scheduled'::text, 0, 6), 'a limit of 0 leaves everybody for later');
select is(ff_tap.backlog(), '{1, 2, 3, 6, 7, 9}', 'under cancel_pending only those that wait');
select is(ff_tap.vector(ff_tap.m(2)),
    'runnable / unowned / blocked_by_operator / paused_by_flow_cancel / none / pending_first_attempt -> waiting',
    'one that waits for its upstreams is blocked too');
select is(
    length((ff_tap.core(ff_tap.m(2))).blocking_detail), 200, 'a long reason is cut where it would widen every row');
select is(
    (select b.grace_until_ms from flowfabric.ff_cancel_backlog as b), 32000::bigint, 'the grace is 30 s by default');
select ff_tap.finish(4);
select is(ff_tap.states(2, 4), 'waiting completed', 'others go on');

-- The limits of a call
rollback to savepoint open_flow;
select ff_tap.setting('max_sync_edges', 0);
select flowfabric.ff_cancel_flow(ff_tap.flow_id(), 'stop', 'cancel_all');
select is(ff_tap.outbox(), '{1, 2}', 'edges that a call may not resolve are left to the dispatcher');
select is(
    ff_tap.states(1, 2, 3), 'cancelled cancelled cancelled', 'the members are cancelled all the same');
select flowfabric.ff_dispatch_dependencies();
select is(ff_tap.edge_group(3), 'all_of of 1: 0 ok, 1 failed, 0 skipped, impossible@2000', 'which resolves them');

-- An empty flow
rollback to savepoint open_flow;
select flowfabric.ff_create_flow('6ba7b810-9dad-11d1-80b4-00c04fd430c8', 'dag');
select is(
    flowfabric.ff_cancel_flow('6ba7b810-9dad-11d1-80b4-00c04fd430c8', 'stop', 'cancel_all', p_sync_limit => 0),
    row('cancelled', 'cancel_all', 'stop', 'cancelled', '{}'::text[], 0, 0, 0)::flowfabric.ff_flow_cancellation,
    'a flow without members leaves no backlog');

-- Refusals
select ff_tap.everything() as before \gset
select is(
    ff_tap.error_of(format('execute cancel(%L, %L, %L, null, %L)', b.reason, b.policy, b.grace_ms, b.sync_limit))
    - array['fn', 'value'],
    jsonb_build_object('code', b.code) || b.facts::jsonb, b.description)
from (values
    ('stop', 'kill', -1, -1, 'invalid_grace_ms', '{}', 'a negative grace is refused first'),
    ('stop', 'cancel_all', 31536000000001, 500, 'invalid_grace_ms', '{}', 'one beyond a thousand years too'),
    (null, 'cancel_all', 0, 500, 'invalid_input', '{"field": "reason", "reason": "null"}', 'a reason is required'),
    (
        'stop', 'kill', 0, 500, 'invalid_input', '{"field": "cancellation_policy", "reason": "unknown"}',
        'a policy must be known'
    ),
    (
        'stop', null, 0, 500, 'invalid_input', '{"field": "cancellation_policy", "reason": "null"}',
        'and is required'
    ),
    (
        'stop', 'cancel_all', 0, -1, 'invalid_input', '{"field": "sync_limit", "reason": "out_of_range"}',
        'a negative limit is refused'
    ),
    (
        'stop', 'cancel_all', 0, null, 'invalid_input', '{"field": "sync_limit", "reason": "null"}',
        'and NULL is none'
    )
) as b (reason, policy, grace_ms, sync_limit, code, facts, description);
select throws_ok(
    $$execute cancel('stop', 'cancel_all', -1, null, 500)$$, 'ZV023', 'invalid_grace_ms', 'a grace has its own code');
select throws_ok(
    format('select flowfabric.ff_cancel_flow(%L, %L, %L)', gen_random_uuid(), 'stop', 'cancel_all'), 'ZN002',
    'flow_not_found', 'an unknown flow is refused');
select throws_ok(
    format('select flowfabric.ff_cancel_flow(null, %L, %L)', 'stop', 'cancel_all'), 'ZV001', 'invalid_input',
    'a flow is required');
select is(ff_tap.everything(), :'before'::jsonb, 'no refusal writes anything');
select lives_ok(
    $$execute cancel('stop', 'cancel_all', null, null, 2147483647)$$,
    'NULL is the usual grace, and the limit may be large');
select is_empty('select f.* from flowfabric.ff_check_invariants() as f', 'all of it is consistent');

-- Members that wait are cancelled together; each ends as a cancel of its own would leave it.
rollback to savepoint open_flow;
select ff_tap.execution(
    ff_tap.m(n), '{"retry_policy": {"max_retries": 3}, "stream_policy": {"retention_ttl_ms": 7000}}',
    p_deadline_at_ms => 90000, p_tags => '{"ff.instance_id": "blue"}')
from generate_series(101, 110) as n;
select flowfabric.ff_add_execution_to_flow(ff_tap.flow_id(), ff_tap.m(n)) from generate_series(101, 110) as n;
select ff_tap.finish(n, 'failed') from generate_series(103, 104) as n;
select ff_tap.finish(n, 'cancelled') from generate_series(105, 106) as n;
select flowfabric.ff_replay_execution(ff_tap.m(n)) from generate_series(105, 106) as n;
select flowfabric.ff_block_execution_for_admission(ff_tap.m(n), 'waiting_for_quota')
from generate_series(107, 108) as n;
select ff_tap.claim(n) from generate_series(109, 110) as n;
select flowfabric.ff_delay_execution(ff_tap.m(n), p_delay_until_ms => 60000, p_source => 'operator_override')
from generate_series(109, 110) as n;
create function ff_tap.remains(p_number integer)
returns jsonb
language sql stable
as $$
    select jsonb_build_object(
        'core', to_jsonb(ff_tap.core(ff_tap.m(p_number))) - array['execution_id', 'current_attempt_id'],
        'note', to_jsonb(ff_tap.note(ff_tap.m(p_number))) - 'execution_id',
        'attempt', to_jsonb(ff_tap.attempt(ff_tap.m(p_number))) - array['execution_id', 'attempt_id', 'lease_id'],
        'completions', (
            select jsonb_agg(to_jsonb(v) - array['event_id', 'xact_id', 'execution_id'] order by v.event_id)
            from flowfabric.ff_completion_event as v where v.execution_id = ff_tap.eid(p_number)))
$$;
select flowfabric.ff_cancel_execution(ff_tap.m(n), 'stop', 'operator_override')
from unnest('{101, 103, 105, 107, 109}'::integer[]) as n;
select flowfabric.ff_cancel_flow(ff_tap.flow_id(), 'stop', 'cancel_all');
select is(ff_tap.remains(b.number + 1), ff_tap.remains(b.number), b.description)
from (values
    (101, 'one that never ran'), (103, 'one that waits for a retry'), (105, 'one that was replayed'),
    (107, 'one that a quota holds back'), (109, 'one whose attempt is paused')
) as b (number, description);

select * from finish();
rollback;
