-- Replay: an ended execution gets another attempt, and waits for its dependencies again if they are open.
begin;
\ir ../helpers.sql
select plan(92);

prepare replay (text) as select r.* from flowfabric.ff_replay_execution($1) as r;

create function ff_tap.id(p_number integer)
returns text
language sql immutable
as $$ select '{fp:86}:00000000-0000-4000-8000-' || lpad(p_number::text, 12, '0') $$;

create function ff_tap.ended_execution(p_number integer, p_outcome text, p_result text default null)
returns text
language plpgsql volatile
as $$
declare
    v_id text := ff_tap.id(p_number);
begin
    perform ff_tap.leased_execution(v_id);
    case p_outcome
        when 'success' then
            perform flowfabric.ff_complete_execution(
                v_id, ff_tap.lease_id(), 1, ff_tap.attempt_id(), convert_to(p_result, 'UTF8'),
                case when p_result is not null then 'text' end);
        when 'failed' then
            perform flowfabric.ff_fail_execution(v_id, ff_tap.lease_id(), 1, ff_tap.attempt_id(), 'broken');
        when 'cancelled' then
            perform flowfabric.ff_cancel_execution(v_id, 'unwanted', 'operator_override');
        when 'expired' then
            perform flowfabric.ff_expire_execution(v_id, 'execution_deadline');
    end case;
    return v_id;
end;
$$;

-- A standalone execution
select ff_tap.freeze_time(1000);
select ff_tap.execution(
    ff_tap.id(1), p_priority => 7, p_payload => 'input', p_namespace => 'tenant',
    p_policy => '{"stream_policy": {"retention_ttl_ms": 60000}}', p_tags => '{"ff.instance_id": "blue"}',
    p_deadline_at_ms => 90000);
select flowfabric.ff_issue_grant_and_claim(
    ff_tap.id(1), 30000, p_lease_id => ff_tap.lease_id(), p_attempt_id => ff_tap.attempt_id());
select ff_tap.freeze_time(2000);
select flowfabric.ff_complete_execution(
    ff_tap.id(1), ff_tap.lease_id(), 1, ff_tap.attempt_id(), 'output', 'text');
select to_jsonb(ff_tap.attempt(ff_tap.id(1))) as old_attempt \gset
select ff_tap.freeze_time(3000);
select throws_ok(
    format('execute replay(%L)', ff_tap.id(1)), 'ZS037', 'replay_needs_force',
    'a completed execution is not replayed by accident');
select is(
    ff_tap.error_of(format('execute replay(%L)', ff_tap.id(1))),
    jsonb_build_object(
        'code', 'replay_needs_force', 'fn', 'ff_replay_execution', 'execution_id', ff_tap.id(1),
        'terminal_outcome', 'success'),
    'the detail says how it has ended');
select throws_ok(
    format('select flowfabric.ff_replay_execution(%L, p_force => null)', ff_tap.id(1)), 'ZS037', 'replay_needs_force',
    'NULL is no force');
select is(
    (select convert_from(r.result, 'UTF8') from flowfabric.ff_get_execution_result(ff_tap.id(1)) as r), 'output',
    'a refusal leaves the result alone');
select results_eq(
    format(
        'select r.* from flowfabric.ff_replay_execution(%L, %L, %L, true) as r', ff_tap.id(1), 'wrong input', 'alice'),
    $$values ('replayed', 'waiting'::flowfabric.ff_public_state, 'normal', 1, 0, 0, true)$$,
    'by force it can be replayed, and the answer says that a result is given up');
select is(
    ff_tap.vector(ff_tap.id(1)),
    'runnable / unowned / eligible_now / waiting_for_worker / none / pending_replay_attempt -> waiting',
    'it waits for a replay');
select is(
    (select jsonb_build_array(
        e.replay_count, e.terminal_at_ms, e.purge_after_ms, e.deadline_at_ms, e.delay_until_ms,
        e.last_transition_at_ms, e.last_mutation_at_ms)
     from ff_tap.core(ff_tap.id(1)) as e),
    '[1, null, null, null, null, 3000, 3000]'::jsonb, 'nothing of its end is left, and no deadline');
select is(
    (select jsonb_build_array(
        e.priority, e.total_attempt_count, e.current_lease_epoch, e.retry_count, e.lease_reclaim_count,
        e.started_at_ms, e.created_at_ms, e.current_attempt_id)
     from ff_tap.core(ff_tap.id(1)) as e),
    jsonb_build_array(7, 1, 1, 0, 0, 1000, 1000, ff_tap.attempt_id()), 'its history stays');
select is(
    (select row(p.payload, p.result, p.result_encoding) from flowfabric.ff_exec_payload as p
     where p.execution_id = right(ff_tap.id(1), 36)::uuid),
    row('input'::bytea, null::bytea, null::text), 'its payload stays and its result goes');
select is(to_jsonb(ff_tap.attempt(ff_tap.id(1))), :'old_attempt'::jsonb, 'the finished attempt does not change');
select is(
    (select row(
        n.pending_replay_reason, n.pending_replay_requested_by, n.pending_previous_attempt_index)
     from ff_tap.note(ff_tap.id(1)) as n),
    row('wrong input'::text, 'alice'::text, 0), 'what the next attempt follows is noted');
select is(
    (select to_jsonb(v) - array['event_id', 'xact_id', 'epoch'] from flowfabric.ff_operator_event as v),
    jsonb_build_object(
        'occurred_at_ms', 3000, 'partition_key', 86, 'execution_id', right(ff_tap.id(1), 36), 'flow_id', null,
        'namespace', 'tenant', 'instance_tag', 'blue', 'event_type', 'replayed',
        'details', jsonb_build_object(
            'branch', 'normal', 'replay_count', 1, 'unsatisfied', 0, 'previous_outcome', 'success',
            'result_given_up', true, 'reason', 'wrong input', 'requested_by', 'alice', 'login', session_user)),
    'an operator event tells of it: who, in whose name, and why');
select is(
    ff_tap.lease_events(ff_tap.id(1)), array['acquired:issue_grant_and_claim', 'released:completed'],
    'no lease changes hands');
select throws_ok(
    format('execute replay(%L)', ff_tap.id(1)), 'ZS013', 'execution_not_terminal',
    'a repeat is refused: it runs already');

select flowfabric.ff_issue_grant_and_claim(ff_tap.id(1), 30000);
select is(
    (select jsonb_build_array(
        a.attempt_type, a.lease_epoch, a.replay_reason, a.replay_requested_by, a.replayed_from_attempt_index,
        a.previous_attempt_index)
     from ff_tap.attempt(ff_tap.id(1), 1) as a),
    '["replay", 2, "wrong input", "alice", 0, null]'::jsonb,
    'the next claim starts attempt 1 of type replay under a higher epoch');
select is(
    (select row(
        n.pending_replay_reason, n.pending_replay_requested_by, n.pending_previous_attempt_index)
     from ff_tap.note(ff_tap.id(1)) as n),
    row(null::text, null::text, null::integer), 'and consumes what was noted');
select is(
    ff_tap.error_of(format('execute replay(%L)', ff_tap.id(1))),
    jsonb_build_object(
        'code', 'execution_not_terminal', 'fn', 'ff_replay_execution', 'execution_id', ff_tap.id(1),
        'lifecycle_phase', 'active'),
    'an active execution is refused with its phase');

-- However it ended
delete from flowfabric.ff_lane_floor;
insert into flowfabric.ff_lane_floor (
    lane_id, capability_set_id, priority, side, floor_ms, checked_at_ms, raised_at_ms)
values ('default', 1, 0, 1, 9000, 9000, 9000);
select ff_tap.ended_execution(2, 'failed');
select ff_tap.ended_execution(3, 'cancelled');
select ff_tap.ended_execution(4, 'expired');
select ff_tap.freeze_time(9500);
select results_eq(
    format('execute replay(%L)', ff_tap.id(n)),
    $$values ('replayed', 'waiting'::flowfabric.ff_public_state, 'normal', 1, 0, 0, false)$$,
    'a ' || o.outcome || ' execution can be replayed')
from (values (2, 'failed'), (3, 'cancelled'), (4, 'expired')) as o (n, outcome);
select is(
    (select jsonb_build_array(t.failure_reason, t.cancellation_reason, t.cancelled_by)
     from ff_tap.note(ff_tap.id(n)) as t),
    '[null, null, null]'::jsonb, 'how ' || n::text || ' had ended is forgotten')
from generate_series(2, 4) as n;
select is(
    (select l.floor_ms from flowfabric.ff_lane_floor as l where l.side = 1),
    (select min((ff_tap.core(ff_tap.id(n))).created_at_ms) from generate_series(2, 4) as n),
    'the floor comes down to them');
select ff_tap.execution(ff_tap.id(5));
select throws_ok(
    format('execute replay(%L)', ff_tap.id(5)), 'ZS013', 'execution_not_terminal', 'a waiting execution is refused');
select flowfabric.ff_cancel_execution(ff_tap.id(5), 'unwanted', 'operator_override');
select flowfabric.ff_replay_execution(ff_tap.id(5), '', '');
select is(
    (select jsonb_build_array(
        n.pending_previous_attempt_index, n.pending_replay_reason, n.pending_replay_requested_by)
     from ff_tap.note(ff_tap.id(5)) as n),
    '[null, null, null]'::jsonb, 'what was never attempted follows nothing, and empty texts say nothing');
select flowfabric.ff_issue_grant_and_claim(ff_tap.id(5), 30000);
select is(
    (select row(a.attempt_type, a.attempt_index, a.lease_epoch) from ff_tap.attempt(ff_tap.id(5)) as a),
    row('replay'::flowfabric.ff_attempt_type, 0, 1::bigint), 'its first attempt is a replay');

-- A completed execution without a result, and retries that were used up
select ff_tap.ended_execution(9, 'success');
select throws_ok(
    format('execute replay(%L)', ff_tap.id(9)), 'ZS037', 'replay_needs_force', 'a completion counts without a result');
select is(
    (select r.result_given_up from flowfabric.ff_replay_execution(ff_tap.id(9), p_force => true) as r), false,
    'though there is none to give up');
select ff_tap.leased_execution(
    ff_tap.id(10), p_policy => '{"retry_policy": {"max_retries": 1, "backoff": {"type": "fixed", "delay_ms": 0}}}');
select flowfabric.ff_fail_execution(ff_tap.id(10), ff_tap.lease_id(), 1, ff_tap.attempt_id(), 'first');
create function ff_tap.fail_again(p_execution_id text)
returns text
language sql volatile
as $$
    select f.outcome
    from flowfabric.ff_promote_delayed(p_execution_id) as p
    cross join flowfabric.ff_issue_grant_and_claim(p_execution_id, 30000) as c
    cross join flowfabric.ff_fail_execution(p_execution_id, c.lease_id, c.lease_epoch, c.attempt_id, 'again') as f
$$;
select is(ff_tap.fail_again(ff_tap.id(10)), 'terminal_failed', 'an execution uses up its one retry');
update flowfabric.ff_exec_core as e set lease_reclaim_count = 4 where e.execution_id = right(ff_tap.id(10), 36)::uuid;
select flowfabric.ff_replay_execution(ff_tap.id(10));
select is(
    (select row(e.retry_count, e.lease_reclaim_count, e.total_attempt_count) from ff_tap.core(ff_tap.id(10)) as e),
    row(0, 0, 2), 'a replay counts retries and lost leases from zero, and attempts as before');
select is(ff_tap.fail_again(ff_tap.id(10)), 'retry_scheduled', 'so it is retried again');
select is(ff_tap.fail_again(ff_tap.id(10)), 'terminal_failed', 'as often as its policy says');

-- How often
create function ff_tap.replay_and_cancel(p_execution_id text, p_times integer)
returns void
language plpgsql volatile
as $$
begin
    for i in 1 .. p_times loop
        perform flowfabric.ff_replay_execution(p_execution_id);
        perform flowfabric.ff_cancel_execution(p_execution_id, 'again', 'operator_override');
    end loop;
end;
$$;
select ff_tap.ended_execution(6, 'failed');
select lives_ok(
    format('select ff_tap.replay_and_cancel(%L, 10)', ff_tap.id(6)), 'an execution can be replayed ten times');
select throws_ok(
    format('execute replay(%L)', ff_tap.id(6)), 'ZS014', 'max_replays_exhausted', 'the eleventh replay is refused');
select is(
    ff_tap.error_of(format('execute replay(%L)', ff_tap.id(6))),
    jsonb_build_object(
        'code', 'max_replays_exhausted', 'fn', 'ff_replay_execution', 'execution_id', ff_tap.id(6),
        'replay_count', 10, 'max_replay_count', 10),
    'the detail has count and limit');
select ff_tap.leased_execution(ff_tap.id(7), p_policy => '{"max_replay_count": 1}');
select flowfabric.ff_cancel_execution(ff_tap.id(7), 'again', 'operator_override');
select ff_tap.replay_and_cancel(ff_tap.id(7), 1);
select throws_ok(
    format('execute replay(%L)', ff_tap.id(7)), 'ZS014', 'max_replays_exhausted', 'a policy may allow only one');
select ff_tap.leased_execution(ff_tap.id(8), p_policy => '{"max_replay_count": 0}');
select flowfabric.ff_cancel_execution(ff_tap.id(8), 'again', 'operator_override');
select throws_ok(
    format('execute replay(%L)', ff_tap.id(8)), 'ZS014', 'max_replays_exhausted', 'a policy may allow none');
update flowfabric.ff_exec_payload as p set policy = '{"max_replay_count": "many"}'
where p.execution_id = right(ff_tap.id(8), 36)::uuid;
select lives_ok(format('execute replay(%L)', ff_tap.id(8)), 'a malformed limit counts as absent');

select throws_ok('execute replay(null)', 'ZV001', 'invalid_input', 'an id is required');
select throws_ok($$execute replay('x')$$, 'ZV001', 'invalid_input', 'a text that is no id is refused');
select throws_ok(
    format('execute replay(%L)', ff_tap.id(404)), 'ZN001', 'execution_not_found', 'an unknown execution is refused');

-- Members of a flow. Rows of edges and groups are written here as the flow functions leave them.
\set flow '00000000-0000-4000-8000-00000000f10e'
insert into flowfabric.ff_flow_core (
    partition_key, flow_id, flow_kind, namespace, public_flow_state, node_count, created_at_ms, last_mutation_at_ms)
values (86, :'flow', 'test', 'default', 'open', 50, 1000, 1000);

create function ff_tap.join_flow(p_number integer)
returns void
language sql volatile
as $$
    update flowfabric.ff_exec_core as e
    set flow_id = '00000000-0000-4000-8000-00000000f10e'
    where e.execution_id = right(ff_tap.id(p_number), 36)::uuid
$$;

create function ff_tap.edge(
    p_upstream integer,
    p_downstream integer,
    p_outcome flowfabric.ff_terminal_outcome default null,
    p_data_passing_ref text default null
)
returns void
language sql volatile
as $$
    insert into flowfabric.ff_edge (
        partition_key, flow_id, edge_id, upstream_eid, downstream_eid, data_passing_ref, dep_state, resolved_outcome,
        created_at_ms, staged_at_ms, applied_at_ms, last_resolved_at_ms)
    values (
        86, '00000000-0000-4000-8000-00000000f10e',
        ('00000000-0000-4000-8000-' || lpad((p_upstream * 1000 + p_downstream)::text, 12, '0'))::uuid,
        right(ff_tap.id(p_upstream), 36)::uuid, right(ff_tap.id(p_downstream), 36)::uuid, p_data_passing_ref,
        case
            when p_outcome is null then 'unsatisfied'
            when p_outcome = 'success' then 'satisfied'
            else 'impossible'
        end,
        p_outcome, 1000, 1000, 1000, case when p_outcome is not null then 2000 end)
$$;

create function ff_tap.edge_state(p_upstream integer, p_downstream integer)
returns text
language sql stable
as $$
    select concat_ws('/', d.dep_state, d.resolved_outcome, d.last_resolved_at_ms)
    from flowfabric.ff_edge as d
    where d.upstream_eid = right(ff_tap.id(p_upstream), 36)::uuid
        and d.downstream_eid = right(ff_tap.id(p_downstream), 36)::uuid
$$;

-- The group of a child, counted from its edges.
create function ff_tap.edge_group(
    p_child integer,
    p_state text,
    p_kind text default 'all_of',
    p_k integer default null,
    p_on_satisfied text default null
)
returns void
language sql volatile
as $$
    insert into flowfabric.ff_edge_group (
        partition_key, flow_id, downstream_eid, policy_kind, k, on_satisfied, n, success_count, fail_count,
        skip_count, group_state, satisfied_at_ms, impossible_at_ms, created_at_ms)
    select
        86, '00000000-0000-4000-8000-00000000f10e', right(ff_tap.id(p_child), 36)::uuid, p_kind, p_k, p_on_satisfied,
        count(*), count(*) filter (where d.dep_state = 'satisfied'),
        count(*) filter (where d.dep_state = 'impossible' and d.resolved_outcome <> 'skipped'),
        count(*) filter (where d.dep_state = 'impossible' and d.resolved_outcome = 'skipped'), p_state,
        case p_state when 'satisfied' then 2000 end, case p_state when 'impossible' then 2000 end, 1000
    from flowfabric.ff_edge as d
    where d.downstream_eid = right(ff_tap.id(p_child), 36)::uuid and d.dep_state <> 'staged'
$$;

create function ff_tap.group_facts(p_child integer)
returns jsonb
language sql stable
as $$
    select jsonb_build_array(
        g.group_state, g.n, g.success_count, g.fail_count, g.skip_count, g.satisfied_at_ms, g.impossible_at_ms)
    from flowfabric.ff_edge_group as g
    where g.downstream_eid = right(ff_tap.id(p_child), 36)::uuid
$$;

create function ff_tap.skipped_member(p_number integer, p_payload bytea default null)
returns void
language plpgsql volatile
as $$
begin
    perform ff_tap.execution(ff_tap.id(p_number), p_payload => p_payload);
    perform ff_tap.join_flow(p_number);
    perform flowfabric._ff_become_terminal(
        ff_tap.core(ff_tap.id(p_number)), 'skipped', null, flowfabric.ff_now_ms(), 'none');
end;
$$;

create function ff_tap.ended_member(p_number integer, p_outcome text, p_result text default null)
returns void
language plpgsql volatile
as $$
begin
    perform ff_tap.ended_execution(p_number, p_outcome, p_result);
    perform ff_tap.join_flow(p_number);
end;
$$;

create function ff_tap.payload(p_number integer)
returns text
language sql stable
as $$ select ff_tap.input(ff_tap.id(p_number)) $$;

-- A failed, B was skipped: B waits for a new end of A.
select ff_tap.freeze_time(20000);
select ff_tap.ended_member(101, 'failed');
select ff_tap.ended_member(102, 'success');
select ff_tap.skipped_member(103);
select ff_tap.edge(101, 103, 'failed');
select ff_tap.edge(102, 103, 'success');
select ff_tap.edge_group(103, 'impossible');
select ff_tap.freeze_time(21000);
select results_eq(
    format('execute replay(%L)', ff_tap.id(103)),
    $$values ('replayed', 'waiting_children'::flowfabric.ff_public_state, 'skipped_flow_member', 1, 1, 1, false)$$,
    'a skipped member waits again for what has not succeeded, and the answer warns of an upstream that has ended');
select is(
    ff_tap.vector(ff_tap.id(103)),
    'runnable / unowned / blocked_by_dependencies / waiting_for_children / none / pending_replay_attempt'
    ' -> waiting_children',
    'it is blocked by its dependencies');
select is(
    (select row(e.blocking_detail, e.replay_count, e.terminal_at_ms, e.blocked_at_ms)
     from ff_tap.core(ff_tap.id(103)) as e),
    row('1 dep(s) unsatisfied after replay'::text, 1, null::bigint, null::bigint), 'the detail says for how many');
select is(ff_tap.edge_state(101, 103), 'unsatisfied', 'the edge that was impossible is open again');
select is(ff_tap.edge_state(102, 103), 'satisfied/success/2000', 'the edge that had succeeded stays so');
select is(
    ff_tap.group_facts(103), '["pending", 2, 1, 0, 0, null, null]'::jsonb, 'the group starts over with its successes');
select is(
    (select f.last_mutation_at_ms from flowfabric.ff_flow_core as f), 21000::bigint,
    'the flow has changed, so that its summary is made anew');
select is(
    (select v.details from flowfabric.ff_operator_event as v
     where v.execution_id = right(ff_tap.id(103), 36)::uuid),
    jsonb_build_object(
        'branch', 'skipped_flow_member', 'replay_count', 1, 'unsatisfied', 1, 'previous_outcome', 'skipped',
        'result_given_up', false, 'login', session_user),
    'the event tells which way it went');
select is(
    (select to_jsonb(r) from flowfabric.ff_replay_execution(ff_tap.id(101)) as r),
    '{"outcome": "replayed", "public_state": "waiting", "branch": "normal", "replay_count": 1,
      "unsatisfied_count": 0, "stale_upstream_count": 0, "result_given_up": false}'::jsonb,
    'the upstream is replayed after its child: the order does not matter');
select is(ff_tap.edge_state(101, 103), 'unsatisfied', 'the edge waits for its new end');

-- A was replayed and succeeded before B is replayed.
select ff_tap.ended_member(111, 'success', 'result of 111');
select ff_tap.skipped_member(112, 'own');
select ff_tap.edge(111, 112, 'failed', 'ref');
select ff_tap.edge_group(112, 'impossible');
select ff_tap.freeze_time(22000);
select results_eq(
    format('execute replay(%L)', ff_tap.id(112)),
    $$values ('replayed', 'waiting'::flowfabric.ff_public_state, 'skipped_flow_member', 1, 0, 0, false)$$,
    'a child whose upstream has succeeded meanwhile is eligible at once');
select is(
    ff_tap.vector(ff_tap.id(112)),
    'runnable / unowned / eligible_now / waiting_for_worker / none / pending_replay_attempt -> waiting',
    'as if it had no dependencies');
select is(ff_tap.edge_state(111, 112), 'satisfied/success/22000', 'its edge is satisfied now');
select is(ff_tap.group_facts(112), '["satisfied", 1, 1, 0, 0, 22000, null]'::jsonb, 'and its group');
select is(ff_tap.payload(112), 'result of 111/text', 'the result is passed on');

-- Cancelled while it waited: the group goes on as it is.
select ff_tap.execution(ff_tap.id(121));
select ff_tap.join_flow(121);
select ff_tap.ended_member(122, 'success');
select ff_tap.execution(ff_tap.id(123));
select ff_tap.join_flow(123);
select flowfabric.ff_cancel_execution(ff_tap.id(123), 'unwanted', 'operator_override');
select ff_tap.edge(121, 123);
select ff_tap.edge(122, 123, 'success');
select ff_tap.edge_group(123, 'pending');
select results_eq(
    format('execute replay(%L)', ff_tap.id(123)),
    $$values ('replayed', 'waiting_children'::flowfabric.ff_public_state, 'skipped_flow_member', 1, 1, 0, false)$$,
    'a member that was cancelled while it waited waits again, without a warning: its upstream still runs');
select is(ff_tap.group_facts(123), '["pending", 2, 1, 0, 0, null, null]'::jsonb, 'its group has not changed');
-- A quorum that has lost one of three and needs two
select ff_tap.ended_member(125, 'failed');
select ff_tap.ended_member(126, 'success');
select ff_tap.execution(ff_tap.id(127));
select ff_tap.join_flow(127);
select ff_tap.execution(ff_tap.id(128));
select ff_tap.join_flow(128);
select flowfabric.ff_cancel_execution(ff_tap.id(128), 'unwanted', 'operator_override');
select ff_tap.edge(125, 128, 'skipped');
select ff_tap.edge(126, 128, 'success');
select ff_tap.edge(127, 128);
select ff_tap.edge_group(128, 'pending', 'quorum', 2, 'let_run');
select results_eq(
    format('execute replay(%L)', ff_tap.id(128)),
    $$values ('replayed', 'waiting_children'::flowfabric.ff_public_state, 'skipped_flow_member', 1, 1, 0, false)$$,
    'a quorum that can still be reached is waited for');
select is(ff_tap.edge_state(125, 128), 'impossible/skipped/2000', 'what it has lost stays lost');
select is(ff_tap.group_facts(128), '["pending", 3, 1, 0, 1, null, null]'::jsonb, 'and counted');

-- A satisfied group is history, and so is one without edges.
select ff_tap.ended_member(131, 'success');
select ff_tap.ended_member(132, 'failed');
select ff_tap.edge(131, 132, 'success');
select ff_tap.edge_group(132, 'satisfied');
select results_eq(
    format('execute replay(%L)', ff_tap.id(132)),
    $$values ('replayed', 'waiting'::flowfabric.ff_public_state, 'normal', 1, 0, 0, false)$$,
    'a member whose dependencies were met is eligible at once');
select is(ff_tap.group_facts(132), '["satisfied", 1, 1, 0, 0, 2000, null]'::jsonb, 'its group does not change');
select ff_tap.ended_member(133, 'failed');
select ff_tap.edge_group(133, 'pending', 'quorum', 2, 'let_run');
select results_eq(
    format('execute replay(%L)', ff_tap.id(133)),
    $$values ('replayed', 'waiting'::flowfabric.ff_public_state, 'normal', 1, 0, 0, false)$$,
    'a group without edges keeps nobody waiting');
select ff_tap.ended_member(134, 'failed');
select results_eq(
    format('execute replay(%L)', ff_tap.id(134)),
    $$values ('replayed', 'waiting'::flowfabric.ff_public_state, 'normal', 1, 0, 0, false)$$,
    'nor does the absence of a group');

-- A quorum of two that became impossible is armed again, with its sibling cancels called off.
select ff_tap.ended_member(141, 'failed');
select ff_tap.ended_member(142, 'cancelled');
select ff_tap.ended_member(143, 'success', 'result of 143');
select ff_tap.skipped_member(144);
select ff_tap.edge(141, 144, 'failed');
select ff_tap.edge(142, 144, 'skipped');
select ff_tap.edge(143, 144, 'success', 'ref');
select ff_tap.edge_group(144, 'impossible', 'quorum', 2, 'cancel_remaining');
update flowfabric.ff_edge_group as g
set cancel_siblings_pending_flag = true, cancel_siblings_reason = 'sibling_quorum_impossible',
    cancel_siblings_pending_members = array[gen_random_uuid()]
where g.downstream_eid = right(ff_tap.id(144), 36)::uuid;
insert into flowfabric.ff_pending_cancel_groups (partition_key, flow_id, downstream_eid, enqueued_at_ms)
values (86, :'flow', right(ff_tap.id(144), 36)::uuid, 2000);
select results_eq(
    format('execute replay(%L)', ff_tap.id(144)),
    $$values ('replayed', 'waiting_children'::flowfabric.ff_public_state, 'skipped_flow_member', 1, 2, 2, false)$$,
    'a quorum that was missed is armed again');
select is(
    ff_tap.group_facts(144), '["pending", 3, 1, 0, 0, null, null]'::jsonb, 'with one success and nothing lost');
select is(
    (select row(
        g.cancel_siblings_pending_flag, g.cancel_siblings_reason, g.cancel_siblings_pending_members)
     from flowfabric.ff_edge_group as g where g.downstream_eid = right(ff_tap.id(144), 36)::uuid),
    row(false, null::text, '{}'::uuid[]), 'its sibling cancels are called off');
select is_empty('select p.downstream_eid from flowfabric.ff_pending_cancel_groups as p', 'in the queue too');

-- What a quorum passes on: the result of the edge that makes it whole, here the second of three by time of its end.
select ff_tap.freeze_time(23000);
select ff_tap.ended_member(151, 'success', 'result of 151');
select ff_tap.freeze_time(24000);
select ff_tap.ended_member(152, 'success', 'result of 152');
select ff_tap.freeze_time(25000);
select ff_tap.ended_member(153, 'success', 'result of 153');
select ff_tap.skipped_member(154, 'own');
select ff_tap.edge(153, 154, 'failed', 'ref');
select ff_tap.edge(152, 154, 'failed', 'ref');
select ff_tap.edge(151, 154, 'failed', 'ref');
select ff_tap.edge_group(154, 'impossible', 'quorum', 2, 'let_run');
select flowfabric.ff_replay_execution(ff_tap.id(154));
select is(ff_tap.payload(154), 'result of 152/text', 'a quorum passes the result that makes it whole');
select is(ff_tap.group_facts(154), '["satisfied", 3, 3, 0, 0, 25000, null]'::jsonb, 'and counts every success');
select ff_tap.skipped_member(155, 'own');
select ff_tap.edge(151, 155, 'failed', 'ref');
select ff_tap.edge(152, 155, 'failed');
select ff_tap.edge_group(155, 'impossible', 'quorum', 2, 'let_run');
select flowfabric.ff_replay_execution(ff_tap.id(155));
select is(ff_tap.payload(155), 'own', 'and nothing if that edge passes no data');
select ff_tap.skipped_member(156, 'own');
select ff_tap.edge(151, 156, 'failed', 'ref');
select ff_tap.edge_group(156, 'impossible', 'quorum', 2, 'let_run');
select flowfabric.ff_replay_execution(ff_tap.id(156));
select is(
    (select row(e.eligibility_state, e.blocking_detail) from ff_tap.core(ff_tap.id(156)) as e),
    row('blocked_by_dependencies'::flowfabric.ff_eligibility_state, '0 dep(s) unsatisfied after replay'::text),
    'a quorum with too few edges waits for more of them');
select is(ff_tap.payload(156), 'own', 'and passes nothing before it is whole');
select ff_tap.skipped_member(157, 'own');
select ff_tap.edge(152, 157, 'failed', 'ref');
select ff_tap.edge(151, 157, 'failed', 'ref');
select ff_tap.edge_group(157, 'impossible', 'any_of', 1, 'let_run');
select flowfabric.ff_replay_execution(ff_tap.id(157));
select is(ff_tap.payload(157), 'result of 151/text', 'any_of passes the first result');

-- What an all_of passes on: the last result that there is.
select ff_tap.ended_member(161, 'success');
select ff_tap.skipped_member(162, 'own');
select ff_tap.edge(151, 162, 'failed', 'ref');
select ff_tap.edge(152, 162, 'failed', 'ref');
select ff_tap.edge(153, 162, 'failed', '');
select ff_tap.edge(161, 162, 'failed', 'ref');
select ff_tap.edge_group(162, 'impossible');
select flowfabric.ff_replay_execution(ff_tap.id(162));
select is(ff_tap.payload(162), 'result of 152/text', 'all_of passes the last result of those that pass one');
select ff_tap.skipped_member(163, 'own');
select ff_tap.edge(151, 163, 'failed', 'ref');
select ff_tap.edge(141, 163, 'failed', 'ref');
select ff_tap.edge_group(163, 'impossible');
select flowfabric.ff_replay_execution(ff_tap.id(163));
select is(ff_tap.payload(163), 'result of 151/text', 'also before it is whole');
select is(
    ff_tap.public_state(ff_tap.core(ff_tap.id(163))), 'waiting_children', 'while its child goes on waiting');

-- An upstream that retention has removed
select ff_tap.skipped_member(171);
select ff_tap.edge(404, 171, 'failed');
select ff_tap.edge_group(171, 'impossible');
select results_eq(
    format('execute replay(%L)', ff_tap.id(171)),
    $$values ('replayed', 'waiting_children'::flowfabric.ff_public_state, 'skipped_flow_member', 1, 1, 1, false)$$,
    'an upstream that is gone is counted as one that will not end again');

-- An edge that is only staged is no dependency
select ff_tap.skipped_member(172);
select ff_tap.edge(151, 172, 'failed');
select ff_tap.edge_group(172, 'impossible');
select ff_tap.edge(121, 172);
update flowfabric.ff_edge as d set dep_state = 'staged' where d.edge_id::text like '%121172';
select flowfabric.ff_replay_execution(ff_tap.id(172));
select is(ff_tap.group_facts(172), '["satisfied", 1, 1, 0, 0, 25000, null]'::jsonb, 'a staged edge is not waited for');
select is(ff_tap.edge_state(121, 172), 'staged', 'and stays staged');

-- The last end is still being passed on.
select ff_tap.ended_member(181, 'failed');
insert into flowfabric.ff_dependency_outbox (partition_key, flow_id, upstream_eid, outcome, enqueued_at_ms)
values (86, :'flow', right(ff_tap.id(181), 36)::uuid, 'failed', 2000);
select throws_ok(
    format('execute replay(%L)', ff_tap.id(181)), 'ZC019', 'completion_dispatch_pending',
    'an end that has still to be passed on cannot be taken back');
select is(
    ff_tap.error_of(format('execute replay(%L)', ff_tap.id(181))),
    jsonb_build_object(
        'code', 'completion_dispatch_pending', 'fn', 'ff_replay_execution', 'execution_id', ff_tap.id(181)),
    'the detail names the execution');
update flowfabric.ff_exec_core as e set replay_count = 10 where e.execution_id = right(ff_tap.id(181), 36)::uuid;
select throws_ok(
    format('execute replay(%L)', ff_tap.id(181)), 'ZS014', 'max_replays_exhausted',
    'the limit is looked at before the queue');

-- A completed member needs force as well, and is asked for it before its dispatch is waited for.
select ff_tap.ended_member(182, 'success', 'result of 182');
insert into flowfabric.ff_dependency_outbox (partition_key, flow_id, upstream_eid, outcome, enqueued_at_ms)
values (86, :'flow', right(ff_tap.id(182), 36)::uuid, 'success', 2000);
select throws_ok(
    format('execute replay(%L)', ff_tap.id(182)), 'ZS037', 'replay_needs_force', 'a completed member needs force');
select throws_ok(
    format('select flowfabric.ff_replay_execution(%L, p_force => true)', ff_tap.id(182)), 'ZC019',
    'completion_dispatch_pending', 'which does not help before its end is passed on');
delete from flowfabric.ff_dependency_outbox as o where o.upstream_eid = right(ff_tap.id(182), 36)::uuid;
select is(
    (select r.result_given_up from flowfabric.ff_replay_execution(ff_tap.id(182), p_force => true) as r), true,
    'afterwards it does');
update flowfabric.ff_exec_core as e set replay_count = 10 where e.execution_id = right(ff_tap.id(102), 36)::uuid;
select throws_ok(
    format('execute replay(%L)', ff_tap.id(102)), 'ZS014', 'max_replays_exhausted',
    'force is not asked for where it cannot help');

-- The flow itself does not matter.
update flowfabric.ff_flow_core as f set public_flow_state = 'cancelled';
select ff_tap.ended_member(191, 'cancelled');
select lives_ok(format('execute replay(%L)', ff_tap.id(191)), 'a member of a cancelled flow can be replayed');
select ff_tap.ended_execution(192, 'failed');
update flowfabric.ff_exec_core as e
set flow_id = '00000000-0000-4000-8000-00000000dead'
where e.execution_id = right(ff_tap.id(192), 36)::uuid;
select lives_ok(format('execute replay(%L)', ff_tap.id(192)), 'and one of a flow that is gone');

select is_empty(
    'select c.check_name, c.execution_id, c.detail from flowfabric.ff_check_invariants() as c
     where c.check_name <> ''flow_counts_its_members''',
    'what replays leave behind is sound');

select * from finish();
rollback;
