-- ff_why: why an execution is not running, or that it is; since when, until when, and what to do.
--
-- Fence:  none.
-- Locks:  nothing.
-- Writes: nothing.
-- Raises: invalid_input.
-- Retry:  safe.
--
-- One verdict, the first that fits, from one snapshot. What admission would say is asked of the rules of admission
-- itself (_ff_exhausted_budget, _ff_measure_quota), before any claim has looked. The sentences are for people and may
-- change; verdict and detail are the contract. Neither shows a payload, a result, a token or a key.
create or replace function flowfabric.ff_why(p_execution_id text)
returns flowfabric.ff_explanation
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    c_fn constant text := 'ff_why';
    v_key flowfabric.ff_execution_key := flowfabric._ff_parse_execution_id(p_execution_id, c_fn);
    v_now_ms bigint := flowfabric.ff_now_ms();
    v_why flowfabric.ff_explanation;
begin
    -- A stable function sees the snapshot of the statement that calls it.
    select x.* into v_why from flowfabric._ff_explain(v_key, v_now_ms) as x;
    return v_why;
end;
$$;

comment on function flowfabric.ff_why(text) is
'Explains in one row why an execution is not running, or that it is, until when, and what to do about it.';

grant execute on function flowfabric.ff_why(text) to flowfabric_producer, flowfabric_reader, flowfabric_operator;

create or replace function flowfabric._ff_explain(p_key flowfabric.ff_execution_key, p_now_ms bigint)
returns flowfabric.ff_explanation
language plpgsql stable
as $$
declare
    v_exec flowfabric.ff_exec_core;
    v_why flowfabric.ff_explanation;
begin
    select e.* into v_exec
    from flowfabric.ff_exec_core as e
    where e.partition_key = p_key.partition_key and e.execution_id = p_key.execution_id;
    if not found then
        v_why.verdict := 'not_found';
        v_why.summary := 'There is no such execution.';
        v_why.what_to_do := 'Check the id; an execution is deleted some time after its end.';
        v_why.detail := '{}';
    elsif v_exec.lifecycle_phase = 'terminal' then
        v_why := flowfabric._ff_explain_end(v_exec);
    elsif v_exec.lifecycle_phase = 'active' then
        v_why := flowfabric._ff_explain_lease(v_exec, p_now_ms);
    elsif v_exec.lifecycle_phase = 'suspended' then
        v_why := flowfabric._ff_explain_suspension(v_exec);
    elsif v_exec.blocking_reason = 'paused_by_flow_cancel' then
        v_why := flowfabric._ff_explain_flow_cancel(v_exec);
    elsif v_exec.eligibility_state = 'not_eligible_until_time' then
        v_why := flowfabric._ff_explain_delay(v_exec);
    elsif v_exec.eligibility_state = 'blocked_by_dependencies' then
        v_why := flowfabric._ff_explain_dependencies(v_exec);
    elsif v_exec.eligibility_state = 'blocked_by_operator' then
        v_why.verdict := 'paused_by_operator';
        v_why.summary := 'An operator holds it back' || coalesce(': ' || v_exec.blocking_detail, '') || '.';
        v_why.what_to_do := format(
            'Let it go: `flowfabric executions unblock ''%s''`.',
            flowfabric.ff_format_execution_id(p_key.partition_key, p_key.execution_id));
        v_why.detail := jsonb_build_object(
            'blocking_detail', v_exec.blocking_detail, 'blocked_at_ms', v_exec.blocked_at_ms);
    else
        v_why := flowfabric._ff_explain_admission(v_exec, p_now_ms);
    end if;
    v_why.execution_id := flowfabric.ff_format_execution_id(p_key.partition_key, p_key.execution_id);
    v_why.public_state := flowfabric._ff_public_state(
        v_exec.lifecycle_phase, v_exec.terminal_outcome, v_exec.eligibility_state);
    v_why.since_ms := coalesce(v_why.since_ms, v_exec.last_transition_at_ms);
    return v_why;
end;
$$;
comment on function flowfabric._ff_explain(flowfabric.ff_execution_key, bigint) is
'Internal: the explanation of one execution, from the snapshot of the statement that asks.';

create or replace function flowfabric._ff_utc(p_ms bigint)
returns text
language sql stable
as $$
    select to_char(flowfabric.ff_timestamp(p_ms) at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS" UTC"')
$$;
comment on function flowfabric._ff_utc(bigint) is 'Internal: an instant for people.';

create or replace function flowfabric._ff_explain_end(p_exec flowfabric.ff_exec_core)
returns flowfabric.ff_explanation
language plpgsql stable
as $$
declare
    v_note flowfabric.ff_exec_note;
    v_why flowfabric.ff_explanation;
begin
    select n.* into v_note
    from flowfabric.ff_exec_note as n
    where n.partition_key = p_exec.partition_key and n.execution_id = p_exec.execution_id;
    v_why.verdict := 'ended';
    v_why.summary := format('It ended at %s: %s', flowfabric._ff_utc(p_exec.terminal_at_ms), p_exec.terminal_outcome)
        || coalesce(
            ', ' || case when p_exec.terminal_outcome = 'cancelled' then v_note.cancellation_reason
                else v_note.failure_reason end, '')
        || '.';
    v_why.what_to_do := case
        when p_exec.terminal_outcome <> 'success' then format(
            'Look at its attempts with `flowfabric executions show ''%s''`; run it once more with'
            ' `flowfabric replay ''%s''`.', flowfabric._ff_wire_id(p_exec), flowfabric._ff_wire_id(p_exec))
    end;
    v_why.detail := jsonb_build_object(
        'terminal_outcome', p_exec.terminal_outcome, 'failure_reason', v_note.failure_reason,
        'cancellation_reason', v_note.cancellation_reason, 'cancelled_by', v_note.cancelled_by,
        'ended_at_ms', p_exec.terminal_at_ms);
    return v_why;
end;
$$;
comment on function flowfabric._ff_explain_end(flowfabric.ff_exec_core) is 'Internal: how an execution ended.';

create or replace function flowfabric._ff_explain_lease(p_exec flowfabric.ff_exec_core, p_now_ms bigint)
returns flowfabric.ff_explanation
language plpgsql stable
as $$
declare
    v_note flowfabric.ff_exec_note;
    v_losses integer;
    v_cap integer;
    v_takeover_at_ms bigint;
    v_why flowfabric.ff_explanation;
begin
    select n.* into v_note
    from flowfabric.ff_exec_note as n
    where n.partition_key = p_exec.partition_key and n.execution_id = p_exec.execution_id;
    if p_exec.ownership_state = 'lease_revoked' then
        v_why.verdict := 'lease_revoked';
        v_why.summary := format(
            'An operator took the lease away from %s at %s', p_exec.current_worker_instance_id,
            flowfabric._ff_utc(p_exec.lease_revoked_at_ms)) || coalesce(': ' || v_note.lease_revoke_reason, '') || '.';
        v_why.since_ms := p_exec.lease_revoked_at_ms;
        v_why.what_to_do := format(
            'A worker of lane %s takes it over when it polls; `flowfabric workers list` shows whether there is one.',
            p_exec.lane_id);
        v_why.detail := jsonb_build_object(
            'lease_revoked_at_ms', p_exec.lease_revoked_at_ms, 'lease_revoke_reason', v_note.lease_revoke_reason);
    elsif flowfabric._ff_is_reclaimable(p_exec, p_now_ms) then
        v_losses := flowfabric._ff_losses_in_a_row(p_exec);
        v_cap := flowfabric._ff_reclaim_cap(p_exec, null);
        v_takeover_at_ms := flowfabric._ff_takeover_at_ms(p_exec, null);
        v_why.verdict := 'lease_expired';
        v_why.since_ms := p_exec.lease_expires_at_ms;
        v_why.what_to_do := format(
            'A worker of lane %s takes it over when it polls; `flowfabric workers list` shows whether there is one.',
            p_exec.lane_id);
        if v_losses = 1 then
            v_why.summary := format(
                'The lease of %s ran out at %s and no worker has taken the work over.',
                p_exec.current_worker_instance_id, flowfabric._ff_utc(p_exec.lease_expires_at_ms));
        else
            v_why.summary := format(
                'It lost %s leases in a row without progress, the last on %s at %s. ', v_losses,
                p_exec.current_worker_instance_id, flowfabric._ff_utc(p_exec.lease_expires_at_ms))
                || case
                    when v_losses > v_cap
                        then format('After %s takeovers in a row the next ff_reclaim_next ends it as failed.', v_cap)
                    else format(
                        'The next takeover, of at most %s in a row, is not before %s.', v_cap,
                        flowfabric._ff_utc(v_takeover_at_ms))
                end;
            v_why.until_ms := case when v_takeover_at_ms > p_now_ms then v_takeover_at_ms end;
            v_why.what_to_do := 'Its handler may kill the worker process: correct it, or cancel the execution with '
                || 'ff_cancel_execution.';
        end if;
        v_why.detail := jsonb_build_object(
            'lease_expires_at_ms', p_exec.lease_expires_at_ms, 'worker_id', p_exec.current_worker_id,
            'worker_instance_id', p_exec.current_worker_instance_id,
            'worker_live', (
                select flowfabric._ff_is_live_worker(w, p_now_ms)
                from flowfabric.ff_worker_registry as w
                where w.namespace = p_exec.namespace
                    and w.worker_instance_id = p_exec.current_worker_instance_id),
            'reclaim_grant_until_ms', (
                select g.expires_at_ms
                from flowfabric.ff_claim_grant as g
                where g.partition_key = p_exec.partition_key and g.execution_id = p_exec.execution_id
                    and g.kind = 'reclaim' and g.expires_at_ms >= p_now_ms),
            'lost_in_a_row', v_losses, 'max_reclaim_count', v_cap, 'takeover_at_ms', v_takeover_at_ms);
    else
        v_why.verdict := 'running';
        v_why.summary := format(
            'Attempt %s runs on %s since %s', flowfabric._ff_current_attempt_index(p_exec),
            p_exec.current_worker_instance_id, flowfabric._ff_utc(p_exec.lease_acquired_at_ms))
            || case when p_exec.lease_reclaim_count > 0
                then format(', after %s leases lost in a row without progress', p_exec.lease_reclaim_count) else '' end
            || '.';
        v_why.since_ms := p_exec.lease_acquired_at_ms;
        v_why.until_ms := p_exec.lease_expires_at_ms;
        v_why.detail := jsonb_build_object(
            'worker_id', p_exec.current_worker_id, 'worker_instance_id', p_exec.current_worker_instance_id,
            'attempt_index', flowfabric._ff_current_attempt_index(p_exec), 'progress_pct', v_note.progress_pct,
            'attempt_timeout_at_ms', p_exec.attempt_timeout_at_ms, 'deadline_at_ms', p_exec.deadline_at_ms,
            'lost_in_a_row', p_exec.lease_reclaim_count);
    end if;
    return v_why;
end;
$$;
comment on function flowfabric._ff_explain_lease(flowfabric.ff_exec_core, bigint) is
'Internal: who holds an active execution, or has lost it.';

create or replace function flowfabric._ff_explain_suspension(p_exec flowfabric.ff_exec_core)
returns flowfabric.ff_explanation
language plpgsql stable
as $$
declare
    v_suspension flowfabric.ff_suspension_current;
    v_waitpoints jsonb;
    v_why flowfabric.ff_explanation;
begin
    select u.* into v_suspension
    from flowfabric.ff_suspension_current as u
    where u.partition_key = p_exec.partition_key and u.execution_id = p_exec.execution_id;
    select
        coalesce(
            jsonb_agg(
                jsonb_build_object(
                    'waitpoint_id', w.waitpoint_id, 'waitpoint_key', w.waitpoint_key, 'state', w.state,
                    'required_signal_names', w.required_signal_names, 'signal_count', w.signal_count,
                    'matched_signal_count', w.matched_signal_count)
                order by w.ordinal),
            '[]')
    into v_waitpoints
    from (
        select p.*
        from flowfabric.ff_waitpoint_pending as p
        where p.partition_key = p_exec.partition_key and p.suspension_id = p_exec.current_suspension_id
        order by p.ordinal
        limit 20
    ) as w;
    v_why.verdict := 'waiting_for_signal';
    v_why.summary := format(
        'It waits for an answer (%s) since %s', v_suspension.reason_code,
        flowfabric._ff_utc(v_suspension.suspended_at_ms))
        || coalesce(
            format(
                ', until %s (then: %s)', flowfabric._ff_utc(v_suspension.timeout_at_ms),
                v_suspension.timeout_behavior), '')
        || '.';
    v_why.until_ms := v_suspension.timeout_at_ms;
    v_why.what_to_do := format(
        'Deliver the signal with the token of a waitpoint (`flowfabric signal`), or let it continue without one:'
        ' `flowfabric executions resume ''%s''`.', flowfabric._ff_wire_id(p_exec));
    v_why.detail := jsonb_build_object(
        'reason_code', v_suspension.reason_code, 'timeout_behavior', v_suspension.timeout_behavior,
        'waitpoints', v_waitpoints, 'condition', v_suspension.condition);
    return v_why;
end;
$$;
comment on function flowfabric._ff_explain_suspension(flowfabric.ff_exec_core) is
'Internal: what a suspended execution waits for.';

create or replace function flowfabric._ff_explain_flow_cancel(p_exec flowfabric.ff_exec_core)
returns flowfabric.ff_explanation
language plpgsql stable
as $$
declare
    v_reason text;
    v_why flowfabric.ff_explanation;
begin
    select f.cancel_reason, b.grace_until_ms into v_reason, v_why.until_ms
    from flowfabric.ff_flow_core as f
    left join flowfabric.ff_cancel_backlog as b on b.partition_key = f.partition_key and b.flow_id = f.flow_id
    where f.partition_key = p_exec.partition_key and f.flow_id = p_exec.flow_id;
    v_why.verdict := 'flow_cancelled';
    v_why.summary := 'Its flow was cancelled' || coalesce(': ' || v_reason, '') || '; it will be cancelled too.';
    v_why.what_to_do := 'Nothing, if a tick runs; otherwise run `flowfabric tick`.';
    v_why.detail := jsonb_build_object('flow_id', p_exec.flow_id, 'cancel_reason', v_reason);
    return v_why;
end;
$$;
comment on function flowfabric._ff_explain_flow_cancel(flowfabric.ff_exec_core) is
'Internal: when a member of a cancelled flow will be cancelled.';

create or replace function flowfabric._ff_explain_delay(p_exec flowfabric.ff_exec_core)
returns flowfabric.ff_explanation
language plpgsql stable
as $$
declare
    v_failure_reason text;
    v_why flowfabric.ff_explanation;
begin
    select n.failure_reason into v_failure_reason
    from flowfabric.ff_exec_note as n
    where n.partition_key = p_exec.partition_key and n.execution_id = p_exec.execution_id;
    v_why.verdict := 'delayed';
    v_why.summary := format(
        'It waits until %s (%s).', flowfabric._ff_utc(p_exec.delay_until_ms),
        case p_exec.blocking_reason
            when 'waiting_for_retry_backoff' then format('retry %s, after a failure', p_exec.retry_count)
            when 'waiting_for_resume_delay' then 'delay after its resume'
            else 'delay asked for'
        end);
    v_why.until_ms := p_exec.delay_until_ms;
    v_why.detail := jsonb_build_object(
        'blocking_reason', p_exec.blocking_reason, 'retry_count', p_exec.retry_count,
        'failure_reason', v_failure_reason);
    return v_why;
end;
$$;
comment on function flowfabric._ff_explain_delay(flowfabric.ff_exec_core) is
'Internal: until when an execution is delayed, and for what reason.';

create or replace function flowfabric._ff_explain_dependencies(p_exec flowfabric.ff_exec_core)
returns flowfabric.ff_explanation
language plpgsql stable
as $$
declare
    v_group jsonb;
    v_unsatisfied bigint;
    v_dependencies jsonb;
    v_undispatched boolean;
    v_why flowfabric.ff_explanation;
begin
    select jsonb_build_object(
        'policy_kind', g.policy_kind, 'k', g.k, 'on_satisfied', g.on_satisfied, 'n', g.n,
        'success_count', g.success_count, 'fail_count', g.fail_count, 'skip_count', g.skip_count,
        'running_count', g.running_count, 'group_state', g.group_state)
    into v_group
    from flowfabric.ff_edge_group as g
    where g.partition_key = p_exec.partition_key and g.flow_id = p_exec.flow_id
        and g.downstream_eid = p_exec.execution_id;
    select
        count(*),
        coalesce(
            jsonb_agg(
                jsonb_build_object(
                    'edge_id', d.edge_id,
                    'upstream_execution_id',
                    flowfabric.ff_format_execution_id(p_exec.partition_key, d.upstream_eid),
                    'upstream_public_state',
                    flowfabric._ff_public_state(e.lifecycle_phase, e.terminal_outcome, e.eligibility_state))
                order by d.edge_id)
            filter (where d.position <= 20),
            '[]'),
        coalesce(bool_or(exists (
            select from flowfabric.ff_dependency_outbox as o
            where o.partition_key = p_exec.partition_key and o.flow_id = p_exec.flow_id
                and o.upstream_eid = d.upstream_eid)), false)
    into v_unsatisfied, v_dependencies, v_undispatched
    from (
        select i.edge_id, i.upstream_eid, row_number() over (order by i.edge_id) as position
        from flowfabric.ff_edge as i
        where i.partition_key = p_exec.partition_key and i.flow_id = p_exec.flow_id
            and i.downstream_eid = p_exec.execution_id and i.dep_state = 'unsatisfied'
    ) as d
    left join flowfabric.ff_exec_core as e
        on d.position <= 20 and e.partition_key = p_exec.partition_key and e.execution_id = d.upstream_eid;
    v_why.verdict := 'waiting_for_dependencies';
    v_why.summary := case
        when v_unsatisfied = 0 then 'It waits for dependencies, and none of them is open.'
        when v_unsatisfied = 1 then format(
            'It waits for %s, which is %s.', v_dependencies #>> '{0,upstream_execution_id}',
            coalesce(v_dependencies #>> '{0,upstream_public_state}', 'gone'))
        else format('It waits for %s dependencies.', v_unsatisfied)
    end;
    v_why.what_to_do := case
        when v_undispatched
            then 'Nothing, if a tick runs (scanner dependency passes ends on); otherwise run `flowfabric tick`.'
        when v_unsatisfied = 0
            then 'Nothing, if a tick runs (scanner dependency_reconcile repairs it); otherwise run `flowfabric tick`.'
        else format(
            'Ask why the dependency is not done: `flowfabric why ''%s''`.',
            v_dependencies #>> '{0,upstream_execution_id}')
    end;
    v_why.detail := jsonb_build_object(
        'flow_id', p_exec.flow_id, 'group', v_group, 'dependencies', v_dependencies,
        'undispatched', v_undispatched);
    return v_why;
end;
$$;
comment on function flowfabric._ff_explain_dependencies(flowfabric.ff_exec_core) is
'Internal: which dependencies an execution waits for, and whether some have ended already.';

-- Eligible, or taken off the queue by admission. What blocked an execution may be over before the scanner has noticed;
-- the verdict is then still what the execution is blocked for, and ends with the scanner's next run.
create or replace function flowfabric._ff_explain_admission(p_exec flowfabric.ff_exec_core, p_now_ms bigint)
returns flowfabric.ff_explanation
language plpgsql stable
as $$
declare
    v_is_eligible boolean := p_exec.eligibility_state = 'eligible_now';
    v_lane flowfabric.ff_lane_registry;
    v_why flowfabric.ff_explanation;
begin
    if v_is_eligible or p_exec.eligibility_state = 'blocked_by_budget' then
        v_why := flowfabric._ff_explain_budget(p_exec);
    end if;
    if v_why.verdict is null and (v_is_eligible or p_exec.eligibility_state = 'blocked_by_quota') then
        v_why := flowfabric._ff_explain_quota(p_exec, p_now_ms);
    end if;
    if v_why.verdict is null and (v_is_eligible or p_exec.eligibility_state = 'blocked_by_lane_state') then
        select l.* into v_lane from flowfabric.ff_lane_registry as l where l.lane_id = p_exec.lane_id;
        if v_lane.lane_state in ('paused', 'disabled') then
            v_why.verdict := 'lane_closed';
            v_why.summary := format('Lane %s is %s', v_lane.lane_id, v_lane.lane_state)
                || coalesce(': ' || v_lane.state_reason, '') || '.';
            v_why.what_to_do := format('Open the lane: `flowfabric lanes resume %s`.', quote_literal(v_lane.lane_id));
            v_why.detail := jsonb_build_object(
                'lane_id', v_lane.lane_id, 'lane_state', v_lane.lane_state, 'state_reason', v_lane.state_reason);
        end if;
    end if;
    if v_why.verdict is null and (v_is_eligible or p_exec.eligibility_state = 'blocked_by_route') then
        v_why := flowfabric._ff_explain_route(p_exec, p_now_ms);
    end if;
    if v_why.verdict is not null then
        return v_why;
    end if;
    if v_is_eligible then
        return flowfabric._ff_explain_queue(p_exec, p_now_ms);
    end if;

    v_why.verdict := case p_exec.eligibility_state
        when 'blocked_by_budget' then 'budget_exhausted'
        when 'blocked_by_quota' then 'quota_exceeded'
        when 'blocked_by_lane_state' then 'lane_closed'
        else 'no_capable_worker'
    end;
    select greatest(s.next_due_at_ms, p_now_ms) into v_why.until_ms
    from flowfabric.ff_scanner as s
    where s.scanner = 'unblock' and s.enabled;
    v_why.summary := 'What it was blocked for' || coalesce(' (' || p_exec.blocking_detail || ')', '') || ' is over.';
    v_why.what_to_do :=
        'Nothing, if a tick runs: the scanner unblock puts it back on its queue; otherwise run `flowfabric tick`.';
    v_why.detail := jsonb_build_object(
        'blocking_reason', p_exec.blocking_reason, 'blocking_detail', p_exec.blocking_detail, 'is_over', true);
    return v_why;
end;
$$;
comment on function flowfabric._ff_explain_admission(flowfabric.ff_exec_core, bigint) is
'Internal: what keeps a runnable execution from its claim, in the order of the verdicts.';

-- A dimension that has reached its limit is one that has no room for one more.
create or replace function flowfabric._ff_explain_budget(p_exec flowfabric.ff_exec_core)
returns flowfabric.ff_explanation
language plpgsql stable
as $$
declare
    v_budget_id text := (flowfabric._ff_exhausted_budget(p_exec.budget_ids)).budget_id;
    v_limit flowfabric.ff_budget_breach;
    v_why flowfabric.ff_explanation;
begin
    if v_budget_id is null then
        return null;
    end if;
    select b.* into v_limit
    from (
        select array_agg(l.dimension order by l.dimension) as dimensions, array_agg(1::bigint) as amounts
        from flowfabric.ff_budget_limit as l
        where l.budget_id = v_budget_id
    ) as d
    cross join lateral flowfabric._ff_find_misfit(v_budget_id, d.dimensions, d.amounts) as b;
    select b.next_reset_at_ms into v_why.until_ms
    from flowfabric.ff_budget_policy as b
    where b.budget_id = v_budget_id;
    v_why.verdict := 'budget_exhausted';
    v_why.summary := format(
        'Budget %s has reached its limit of %s %s', v_budget_id, v_limit.limit_value, v_limit.dimension)
        || coalesce(format(' until its reset at %s', flowfabric._ff_utc(v_why.until_ms)), '') || '.';
    v_why.what_to_do := format(
        'Wait for the reset, or reset the budget: `flowfabric budgets reset %s`.', quote_literal(v_budget_id));
    v_why.detail := jsonb_build_object(
        'budget_id', v_budget_id, 'dimension', v_limit.dimension, 'current', v_limit.current_usage,
        'reserved', v_limit.reserved_usage, 'limit', v_limit.limit_value);
    return v_why;
end;
$$;
comment on function flowfabric._ff_explain_budget(flowfabric.ff_exec_core) is
'Internal: the budget that keeps an execution from starting; NULL if none does.';

-- The decision of _ff_admit_under_quota, without recording anything: a start that is paid for needs no token, and a
-- slot that the execution holds itself is not in its way.
create or replace function flowfabric._ff_explain_quota(p_exec flowfabric.ff_exec_core, p_now_ms bigint)
returns flowfabric.ff_explanation
language plpgsql stable
as $$
declare
    v_policy flowfabric.ff_quota_policy;
    v_load flowfabric.ff_quota_load;
    v_is_paid boolean := false;
    v_is_held boolean := false;
    v_others bigint;
    v_why flowfabric.ff_explanation;
begin
    select q.* into v_policy
    from flowfabric.ff_quota_policy as q
    where q.quota_policy_id = p_exec.quota_policy_id;
    if not found then
        return null;
    end if;
    v_load := flowfabric._ff_measure_quota(p_exec.quota_policy_id, p_now_ms);
    select a.expires_at_ms > p_now_ms and a.admitted_at_ms <= p_now_ms, a.slot_held into v_is_paid, v_is_held
    from flowfabric.ff_quota_admitted as a
    where a.quota_policy_id = p_exec.quota_policy_id
        and a.partition_key = p_exec.partition_key and a.execution_id = p_exec.execution_id;
    v_is_paid := coalesce(v_is_paid, false);
    v_is_held := coalesce(v_is_held, false);
    v_others := v_load.active_concurrency - v_is_held::integer;

    if not v_is_paid and v_load.tokens_left = 0 then
        select min(w.admitted_at_ms) + v_policy.requests_per_window_seconds * 1000 into v_why.until_ms
        from flowfabric.ff_quota_window as w
        where w.quota_policy_id = p_exec.quota_policy_id
            and w.admitted_at_ms > p_now_ms - v_policy.requests_per_window_seconds * 1000
            and w.admitted_at_ms <= p_now_ms;
        v_why.detail := jsonb_build_object(
            'kind', 'rate', 'limit', v_policy.max_requests_per_window, 'current', v_load.entries_in_window);
        v_why.summary := format(
            'Quota %s allows %s starts per %s s; the next is free at %s.', p_exec.quota_policy_id,
            v_policy.max_requests_per_window, v_policy.requests_per_window_seconds,
            flowfabric._ff_utc(v_why.until_ms));
        v_why.what_to_do := 'Wait.';
    elsif v_policy.active_concurrency_cap > 0 and not (v_is_paid and v_is_held)
        and v_others >= v_policy.active_concurrency_cap
    then
        v_why.detail := jsonb_build_object(
            'kind', 'concurrency', 'limit', v_policy.active_concurrency_cap, 'current', v_others);
        v_why.summary := format(
            'Quota %s allows %s at once, and %s are running.', p_exec.quota_policy_id,
            v_policy.active_concurrency_cap, v_others);
        v_why.what_to_do := 'Wait until one of them ends.';
    else
        return null;
    end if;
    v_why.verdict := 'quota_exceeded';
    v_why.detail := v_why.detail || jsonb_build_object('quota_policy_id', p_exec.quota_policy_id);
    return v_why;
end;
$$;
comment on function flowfabric._ff_explain_quota(flowfabric.ff_exec_core, bigint) is
'Internal: the limit of its quota that keeps an execution from starting; NULL if none does.';

-- Lapsed workers count as absent. With live workers of the lane, none of which can take the execution, another one is
-- needed; with none at all, any will do (_ff_explain_queue).
create or replace function flowfabric._ff_explain_route(p_exec flowfabric.ff_exec_core, p_now_ms bigint)
returns flowfabric.ff_explanation
language plpgsql stable
as $$
declare
    v_required text[];
    v_live_workers bigint;
    v_can_take boolean;
    v_missing text[];
    v_why flowfabric.ff_explanation;
begin
    if p_exec.eligibility_state = 'blocked_by_route'
        and flowfabric._ff_has_capable_worker(p_exec.namespace, p_exec.lane_id, p_exec.capability_set_id, p_now_ms)
    then
        return null;
    end if;
    select s.tokens into v_required
    from flowfabric.ff_capability_set as s
    where s.capability_set_id = p_exec.capability_set_id;
    select count(*), coalesce(bool_or(not w.draining and v_required <@ w.capabilities), false)
    into v_live_workers, v_can_take
    from flowfabric.ff_worker_registry as w
    where w.namespace = p_exec.namespace and p_exec.lane_id = any (w.lanes)
        and flowfabric._ff_is_live_worker(w, p_now_ms);
    if v_can_take or (v_live_workers = 0 and p_exec.eligibility_state = 'eligible_now') then
        return null;
    end if;
    select b.missing into v_missing
    from flowfabric.ff_worker_registry as w
    cross join lateral (
        select array(select r.token from unnest(v_required) as r (token) where r.token <> all (w.capabilities))
    ) as b (missing)
    where w.namespace = p_exec.namespace and p_exec.lane_id = any (w.lanes)
        and flowfabric._ff_is_live_worker(w, p_now_ms)
    order by w.draining, cardinality(b.missing), w.worker_instance_id
    limit 1;
    v_missing := coalesce(v_missing, v_required);
    v_why.verdict := 'no_capable_worker';
    v_why.summary := case
        when cardinality(v_missing) = 0
            then format('Every live worker of lane %s that could take it is draining.', p_exec.lane_id)
        else format(
            'No live worker of lane %s offers all it needs; the best lacks %s.', p_exec.lane_id,
            array_to_string(v_missing, ', '))
    end;
    v_why.what_to_do := format(
        'Start a worker for lane %s that offers: %s.', p_exec.lane_id,
        coalesce(nullif(array_to_string(v_required, ', '), ''), 'anything'));
    v_why.detail := jsonb_build_object(
        'required_capabilities', v_required, 'missing', v_missing, 'live_workers', v_live_workers);
    return v_why;
end;
$$;
comment on function flowfabric._ff_explain_route(flowfabric.ff_exec_core, bigint) is
'Internal: what the live workers of a lane lack to take an execution; NULL if one of them can.';

-- What is ahead is counted per capability set, so that each part is a range of the queue's index and the count stops
-- early in a long queue.
create or replace function flowfabric._ff_explain_queue(p_exec flowfabric.ff_exec_core, p_now_ms bigint)
returns flowfabric.ff_explanation
language plpgsql stable
as $$
declare
    v_grant flowfabric.ff_claim_grant;
    v_live_workers bigint := flowfabric._ff_live_workers(p_exec.namespace, p_exec.lane_id, p_now_ms);
    v_ahead bigint;
    v_why flowfabric.ff_explanation;
begin
    select g.* into v_grant
    from flowfabric.ff_claim_grant as g
    where g.partition_key = p_exec.partition_key and g.execution_id = p_exec.execution_id
        and g.expires_at_ms >= p_now_ms;
    if found then
        v_why.verdict := 'granted';
        v_why.summary := format(
            'Worker %s has been given it and may claim it until %s.', v_grant.worker_id,
            flowfabric._ff_utc(v_grant.expires_at_ms));
        v_why.until_ms := v_grant.expires_at_ms;
        v_why.detail := jsonb_build_object('worker_id', v_grant.worker_id, 'kind', v_grant.kind);
        return v_why;
    end if;
    if v_live_workers = 0 then
        v_why.verdict := 'no_worker';
        v_why.summary := format('No registered worker serves lane %s.', p_exec.lane_id);
        v_why.what_to_do := format(
            'Start a worker for lane %s; one that does not register may be at work unseen.', p_exec.lane_id);
        v_why.detail := jsonb_build_object(
            'lane_id', p_exec.lane_id,
            'last_claim_at_ms', (
                select max(a.lease_acquired_at_ms)
                from (
                    (
                        select e.lease_acquired_at_ms
                        from flowfabric.ff_exec_core as e
                        where e.ownership_state = 'leased' and e.lane_id = p_exec.lane_id
                        order by e.lease_expires_at_ms desc
                        limit 10000
                    )
                    union all
                    (
                        select e.lease_acquired_at_ms
                        from flowfabric.ff_exec_core as e
                        where e.ownership_state > 'leased' and e.lane_id = p_exec.lane_id
                        order by e.delay_until_ms desc
                        limit 10000
                    )
                ) as a));
        return v_why;
    end if;

    select count(*) into v_ahead
    from (
        select
        from flowfabric.ff_capability_set as s
        cross join lateral (
            (
                select
                from flowfabric.ff_exec_core as e
                where e.eligibility_state = 'eligible_now' and e.lane_id = p_exec.lane_id
                    and e.capability_set_id = s.capability_set_id and e.priority > p_exec.priority
                limit 10000
            )
            union all
            (
                select
                from flowfabric.ff_exec_core as e
                where e.eligibility_state = 'eligible_now' and e.lane_id = p_exec.lane_id
                    and e.capability_set_id = s.capability_set_id and e.priority = p_exec.priority
                    and (e.created_at_ms, e.execution_id) < (p_exec.created_at_ms, p_exec.execution_id)
                limit 10000
            )
        ) as ahead
        limit 10000
    ) as counted;
    v_why.verdict := 'queued';
    v_why.summary := format(
        'It is in the queue of lane %s, with %s ahead of it.', p_exec.lane_id,
        case when v_ahead >= 10000 then '10000 or more' else v_ahead::text end);
    v_why.detail := jsonb_build_object(
        'ahead', v_ahead, 'priority', p_exec.priority, 'eligible_since_ms', p_exec.last_transition_at_ms,
        'live_workers', v_live_workers);
    return v_why;
end;
$$;
comment on function flowfabric._ff_explain_queue(flowfabric.ff_exec_core, bigint) is
'Internal: who may take an execution that nothing keeps from its claim, and what is ahead of it.';
