-- The moves of an execution: how a row is locked, how a fence is checked, and the one way into each state.
--
-- A move gets the row as its caller locked it, the clock's value and the name of the public function. Whatever makes
-- an execution unowned goes through _ff_set_unowned_state, whatever makes it owned through _ff_issue_lease (20_lease).
-- The hot paths (create, claim, complete, renew and their batches) may write the same columns inline; a comment there
-- names the measurement.
--
-- What finds a row of the large tables by its key does so with `enable_seqscan = off`: on tables that have a few pages
-- when a session first plans the statement, a sequential scan looks cheaper, and the plan then outlives the few pages
-- (HOTPATH 4). With it goes `jit = off`: the penalty in the estimate would start the compiler.

-- Locks

create or replace function flowfabric._ff_lock_execution(p_key flowfabric.ff_execution_key, p_fn text)
returns flowfabric.ff_exec_core
language plpgsql volatile
set enable_seqscan = off
set jit = off
as $$
declare
    v_exec flowfabric.ff_exec_core;
begin
    select e.* into v_exec
    from flowfabric.ff_exec_core as e
    where e.partition_key = p_key.partition_key and e.execution_id = p_key.execution_id
    for no key update;
    if not found then
        perform flowfabric._ff_raise_not_found(p_key, p_fn);
    end if;
    return v_exec;
end;
$$;
comment on function flowfabric._ff_lock_execution(flowfabric.ff_execution_key, text) is
'Internal: locks one execution and returns its row, or raises execution_not_found.';

-- Under REPEATABLE READ and SERIALIZABLE a call reads side rows by an old snapshot, and the lock of an unchanged row
-- does not tell it so. A new version of the row does: such a call then gets serialization_failure when it locks the
-- execution. Called by what adds a side row that the end of the execution has to find; no column changes.
create or replace function flowfabric._ff_touch_execution(p_partition_key smallint, p_execution_id uuid)
returns void
language plpgsql volatile
set enable_seqscan = off
set jit = off
as $$
begin
    update flowfabric.ff_exec_core as e
    set last_mutation_at_ms = e.last_mutation_at_ms
    where e.partition_key = p_partition_key and e.execution_id = p_execution_id;
end;
$$;
comment on function flowfabric._ff_touch_execution(smallint, uuid) is
'Internal: makes calls with an older snapshot fail with serialization_failure when they lock an execution.';

-- FOR SHARE of a row that has changed since the snapshot raises serialization_failure. Under READ COMMITTED every
-- statement has a snapshot of its own, and a second execution must not be waited for.
create or replace function flowfabric._ff_require_fresh_snapshot(p_partition_key smallint, p_execution_ids uuid[])
returns void
language plpgsql volatile
set enable_seqscan = off
set jit = off
as $$
begin
    if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
        perform from flowfabric.ff_exec_core as e
        where e.partition_key = p_partition_key and e.execution_id = any (p_execution_ids)
        order by e.execution_id
        for share;
    end if;
end;
$$;
comment on function flowfabric._ff_require_fresh_snapshot(smallint, uuid[]) is
'Internal: raises serialization_failure if executions have changed since the snapshot of a stricter transaction.';

create or replace function flowfabric._ff_raise_not_found(p_key flowfabric.ff_execution_key, p_fn text)
returns void
language plpgsql stable
as $$
begin
    perform flowfabric._ff_raise(
        'execution_not_found', p_fn,
        jsonb_build_object(
            'execution_id', flowfabric.ff_format_execution_id(p_key.partition_key, p_key.execution_id)));
end;
$$;
comment on function flowfabric._ff_raise_not_found(flowfabric.ff_execution_key, text) is
'Internal: raises execution_not_found.';

create or replace function flowfabric._ff_wire_id(p_exec flowfabric.ff_exec_core)
returns text
language sql immutable parallel safe
as $$
    select flowfabric.ff_format_execution_id(p_exec.partition_key, p_exec.execution_id)
$$;
comment on function flowfabric._ff_wire_id(flowfabric.ff_exec_core) is 'Internal: the wire id of an execution row.';

create or replace function flowfabric._ff_current_attempt_index(p_exec flowfabric.ff_exec_core)
returns integer
language sql immutable parallel safe
as $$
    select nullif(p_exec.total_attempt_count, 0) - 1
$$;
comment on function flowfabric._ff_current_attempt_index(flowfabric.ff_exec_core) is
'Internal: the index of the current attempt, NULL before the first claim.';

-- The one label for users, derived wherever it is shown. Stored beside the state, it would cost every statement that
-- writes an execution 60 thousand instructions and every row 12 thousand (docs/performance.md). Written so that the
-- planner inlines it.
create or replace function flowfabric._ff_public_state(
    p_phase flowfabric.ff_lifecycle_phase,
    p_outcome flowfabric.ff_terminal_outcome,
    p_eligibility flowfabric.ff_eligibility_state
)
returns flowfabric.ff_public_state
language sql immutable parallel safe
as $$
    select case p_phase
        when 'runnable' then
            case p_eligibility
                when 'not_eligible_until_time' then 'delayed'::flowfabric.ff_public_state
                when 'blocked_by_dependencies' then 'waiting_children'
                when 'blocked_by_budget' then 'rate_limited'
                when 'blocked_by_quota' then 'rate_limited'
                else 'waiting'
            end
        when 'active' then 'active'
        when 'suspended' then 'suspended'
        else
            case p_outcome
                when 'success' then 'completed'::flowfabric.ff_public_state
                when 'failed' then 'failed'
                when 'cancelled' then 'cancelled'
                when 'expired' then 'expired'
                when 'skipped' then 'skipped'
            end
    end
$$;
comment on function flowfabric._ff_public_state(
    flowfabric.ff_lifecycle_phase, flowfabric.ff_terminal_outcome, flowfabric.ff_eligibility_state) is
'Internal: the one label for users, from the state of an execution; NULL without one.';

-- The fence

create or replace function flowfabric._ff_not_active_detail(p_exec flowfabric.ff_exec_core)
returns jsonb
language sql stable
as $$
    select jsonb_build_object(
        'execution_id', flowfabric._ff_wire_id(p_exec),
        'lifecycle_phase', p_exec.lifecycle_phase,
        'terminal_outcome', p_exec.terminal_outcome,
        'lease_epoch', p_exec.current_lease_epoch,
        'attempt_id', p_exec.current_attempt_id,
        'attempt_state', p_exec.attempt_state,
        'delay_until_ms', p_exec.delay_until_ms)
$$;
comment on function flowfabric._ff_not_active_detail(flowfabric.ff_exec_core) is
'Internal: the detail of execution_not_active, from which a client tells whether its own earlier call won.';

-- Checks F2 to F7 of spec 10 section 3.2, in their order. The fence is the heart of the product: every worker write
-- asks here, singly through _ff_check_fence, in batches for each item that its quick comparison did not pass.
create or replace function flowfabric._ff_fence_refusal(
    p_exec flowfabric.ff_exec_core,
    p_lease_id uuid,
    p_lease_epoch bigint,
    p_attempt_id uuid,
    p_attempt_index integer,
    p_override boolean,
    p_now_ms bigint
)
returns flowfabric.ff_refusal
language plpgsql stable
as $$
declare
    v_execution_id text := flowfabric._ff_wire_id(p_exec);
    v_note text;
    v_names text[];
begin
    case num_nulls(p_lease_id, p_lease_epoch, p_attempt_id)
        when 0 then null;
        when 3 then
            if not p_override then
                return row('fence_required', jsonb_build_object('execution_id', v_execution_id))::flowfabric.ff_refusal;
            end if;
        else
            v_names := array_remove(array[
                case when p_lease_id is null then 'lease_id' end,
                case when p_lease_epoch is null then 'lease_epoch' end,
                case when p_attempt_id is null then 'attempt_id' end], null);
            return row(
                'partial_fence_triple',
                jsonb_build_object('execution_id', v_execution_id, 'missing', v_names))::flowfabric.ff_refusal;
    end case;

    if p_exec.lifecycle_phase <> 'active' then
        return row('execution_not_active', flowfabric._ff_not_active_detail(p_exec))::flowfabric.ff_refusal;
    end if;
    if p_exec.ownership_state = 'lease_revoked' then
        select n.lease_revoke_reason into v_note
        from flowfabric.ff_exec_note as n
        where n.partition_key = p_exec.partition_key and n.execution_id = p_exec.execution_id;
        return row(
            'lease_revoked',
            jsonb_build_object(
                'execution_id', v_execution_id, 'lease_epoch', p_exec.current_lease_epoch,
                'lease_revoked_at_ms', p_exec.lease_revoked_at_ms, 'lease_revoke_reason', v_note)
        )::flowfabric.ff_refusal;
    end if;
    -- A lease that was marked stays expired, even if the clock was set back since.
    if p_exec.lease_expires_at_ms <= p_now_ms or p_exec.ownership_state = 'lease_expired_reclaimable' then
        return row(
            'lease_expired',
            jsonb_build_object(
                'execution_id', v_execution_id, 'lease_epoch', p_exec.current_lease_epoch,
                'lease_expires_at_ms', p_exec.lease_expires_at_ms, 'now_ms', p_now_ms))::flowfabric.ff_refusal;
    end if;
    -- An override has no triple to compare. A given one must equal what is stored: `<>` would let a NULL pass.
    v_names := array_remove(array[
        case when p_lease_id is distinct from p_exec.current_lease_id then 'lease_id' end,
        case when p_lease_epoch is distinct from p_exec.current_lease_epoch then 'lease_epoch' end,
        case when p_attempt_id is distinct from p_exec.current_attempt_id then 'attempt_id' end,
        case when p_attempt_index <> p_exec.total_attempt_count - 1 then 'attempt_index' end], null);
    if p_lease_id is not null and cardinality(v_names) > 0 then
        return row(
            'stale_lease',
            jsonb_build_object(
                'execution_id', v_execution_id, 'mismatch', v_names, 'lease_epoch', p_exec.current_lease_epoch)
        )::flowfabric.ff_refusal;
    end if;
    return null;
end;
$$;
comment on function flowfabric._ff_fence_refusal(
    flowfabric.ff_exec_core, uuid, bigint, uuid, integer, boolean, bigint) is
'Internal: why a fence does not hold the lease of a locked execution: code and detail, or NULL when it does.';

-- An override is judged by the caller's role only after the execution was found and a partial triple was refused
-- (F1, F2), and replaces the triple, not the lease: an expired or revoked one cannot be finished by anybody.
create or replace function flowfabric._ff_check_fence(
    p_exec flowfabric.ff_exec_core,
    p_lease_id uuid,
    p_lease_epoch bigint,
    p_attempt_id uuid,
    p_override boolean,
    p_now_ms bigint,
    p_fn text,
    p_attempt_index integer default null
)
returns void
language plpgsql stable
as $$
declare
    v_refusal flowfabric.ff_refusal;
begin
    if p_override and num_nulls(p_lease_id, p_lease_epoch, p_attempt_id) in (0, 3) then
        perform flowfabric._ff_require_role('flowfabric_operator', p_fn);
    end if;
    v_refusal := flowfabric._ff_fence_refusal(
        p_exec, p_lease_id, p_lease_epoch, p_attempt_id, p_attempt_index, p_override, p_now_ms);
    if v_refusal.code is not null then
        perform flowfabric._ff_raise(v_refusal.code, p_fn, v_refusal.detail);
    end if;
end;
$$;
comment on function flowfabric._ff_check_fence(
    flowfabric.ff_exec_core, uuid, bigint, uuid, boolean, bigint, text, integer) is
'Internal: raises unless the fence holds the current, unexpired lease of a locked execution.';

create or replace function flowfabric._ff_is_override(p_source text, p_fn text)
returns boolean
language plpgsql stable
as $$
begin
    if nullif(p_source, '') is null then
        return false;
    end if;
    if p_source <> all (flowfabric._ff_legal_values('source')) then
        perform flowfabric._ff_raise_unknown(p_fn, 'source', p_source, flowfabric._ff_legal_values('source'));
    end if;
    return true;
end;
$$;
comment on function flowfabric._ff_is_override(text, text) is
'Internal: whether a source names the operator override; any other source is invalid_input.';

-- Into each state

-- The one statement that takes an execution out of ownership, or moves it while it has none. What follows from the
-- new state is decided here: only an end has an end time, only a pause by suspension keeps its ids, only a failed
-- attempt that will be retried forgets its attempt id.
create or replace function flowfabric._ff_set_unowned_state(
    p_exec flowfabric.ff_exec_core,
    p_phase flowfabric.ff_lifecycle_phase,
    p_eligibility flowfabric.ff_eligibility_state,
    p_blocking flowfabric.ff_blocking_reason,
    p_detail text,
    p_outcome flowfabric.ff_terminal_outcome,
    p_attempt_state flowfabric.ff_attempt_state,
    p_delay_until_ms bigint,
    p_suspension_id uuid,
    p_waitpoint_id uuid,
    p_release_reason text,
    p_now_ms bigint
)
returns void
language plpgsql volatile
set enable_seqscan = off
set jit = off
as $$
declare
    v_retries boolean := p_attempt_state = 'pending_retry_attempt' and p_exec.attempt_state <> 'pending_retry_attempt';
    v_replays boolean := p_exec.lifecycle_phase = 'terminal';
begin
    if v_replays and p_exec.attempt_is_deferred then
        perform flowfabric._ff_write_deferred_attempt(p_exec);
    end if;
    update flowfabric.ff_exec_core as e
    set lifecycle_phase = p_phase,
        ownership_state = 'unowned',
        eligibility_state = p_eligibility,
        blocking_reason = p_blocking,
        blocking_detail = p_detail,
        terminal_outcome = p_outcome,
        attempt_state = p_attempt_state,
        delay_until_ms = p_delay_until_ms,
        blocked_at_ms = case
            when p_eligibility in (
                'blocked_by_budget', 'blocked_by_quota', 'blocked_by_route', 'blocked_by_lane_state',
                'blocked_by_operator') then p_now_ms
        end,
        current_lease_id = null,
        current_worker_id = null,
        current_worker_instance_id = null,
        lease_acquired_at_ms = null,
        lease_expires_at_ms = null,
        lease_last_renewed_at_ms = null,
        lease_expired_at_ms = null,
        lease_revoked_at_ms = null,
        attempt_timeout_at_ms = null,
        -- An attempt that succeeds stays deferred: only a second one makes it need a row.
        attempt_is_deferred = e.attempt_is_deferred and p_outcome = 'success',
        ended_lease_id = case when p_phase = 'terminal' then p_exec.current_lease_id end,
        ended_worker_id = case when p_phase = 'terminal' then p_exec.current_worker_id end,
        ended_worker_instance_id = case when p_phase = 'terminal' then p_exec.current_worker_instance_id end,
        open_reservation_count = 0,
        current_attempt_id = case when v_retries then null else e.current_attempt_id end,
        -- Whatever its owner pauses or retries has got somewhere; an end keeps the count for readers.
        lease_reclaim_count = case when p_phase = 'terminal' then e.lease_reclaim_count else 0 end,
        retry_count = case when v_replays then 0 else e.retry_count + v_retries::integer end,
        replay_count = e.replay_count + v_replays::integer,
        current_suspension_id = p_suspension_id,
        current_waitpoint_id = p_waitpoint_id,
        deadline_at_ms = case when p_phase <> 'terminal' then e.deadline_at_ms end,
        terminal_at_ms = case when p_phase = 'terminal' then p_now_ms end,
        purge_after_ms = case when p_phase = 'terminal' then p_now_ms + e.retention_ms end,
        last_transition_at_ms = p_now_ms,
        last_mutation_at_ms = p_now_ms
    where e.partition_key = p_exec.partition_key and e.execution_id = p_exec.execution_id;
    if p_exec.lifecycle_phase = 'active' then
        perform flowfabric._ff_release_lease(p_exec, p_release_reason, p_now_ms);
    end if;
end;
$$;
comment on function flowfabric._ff_set_unowned_state(
    flowfabric.ff_exec_core, flowfabric.ff_lifecycle_phase, flowfabric.ff_eligibility_state,
    flowfabric.ff_blocking_reason, text, flowfabric.ff_terminal_outcome, flowfabric.ff_attempt_state, bigint, uuid,
    uuid, text, bigint) is
'Internal: the one statement into every state without an owner; releases the lease if there was one.';

create or replace function flowfabric._ff_become_eligible(
    p_exec flowfabric.ff_exec_core,
    p_attempt_state flowfabric.ff_attempt_state,
    p_release_reason text,
    p_now_ms bigint
)
returns void
language plpgsql volatile
as $$
begin
    perform flowfabric._ff_set_unowned_state(
        p_exec, 'runnable', 'eligible_now', 'waiting_for_worker', null, 'none', p_attempt_state, null, null, null,
        p_release_reason, p_now_ms);
    perform flowfabric._ff_announce_eligible(
        p_exec.lane_id, p_exec.capability_set_id, p_exec.priority, p_exec.namespace, p_exec.created_at_ms, p_now_ms);
    perform flowfabric._ff_wake('ff_eligible', p_exec.lane_id);
end;
$$;
comment on function flowfabric._ff_become_eligible(
    flowfabric.ff_exec_core, flowfabric.ff_attempt_state, text, bigint) is
'Internal: the one way into eligible_now for an existing execution; tells the claim floor and wakes a waiter.';

create or replace function flowfabric._ff_become_delayed(
    p_exec flowfabric.ff_exec_core,
    p_delay_until_ms bigint,
    p_blocking flowfabric.ff_blocking_reason,
    p_detail text,
    p_attempt_state flowfabric.ff_attempt_state,
    p_release_reason text,
    p_now_ms bigint
)
returns void
language plpgsql volatile
as $$
begin
    perform flowfabric._ff_set_unowned_state(
        p_exec, 'runnable', 'not_eligible_until_time', p_blocking,
        coalesce(p_detail, 'until=' || p_delay_until_ms::text), 'none', p_attempt_state, p_delay_until_ms, null, null,
        p_release_reason, p_now_ms);
    -- The delayed executions of a lane are the queue segment of capability set 0.
    perform flowfabric._ff_announce_eligible(p_exec.lane_id, 0, 0, '', p_delay_until_ms, p_now_ms);
end;
$$;
comment on function flowfabric._ff_become_delayed(
    flowfabric.ff_exec_core, bigint, flowfabric.ff_blocking_reason, text, flowfabric.ff_attempt_state, text,
    bigint) is
'Internal: the one way into not_eligible_until_time for an existing execution; tells the floor of its lane''s delays.';

-- A delay that was still running when the block came is kept: whoever lifts the block decides what becomes of it.
create or replace function flowfabric._ff_become_blocked(
    p_exec flowfabric.ff_exec_core,
    p_eligibility flowfabric.ff_eligibility_state,
    p_blocking flowfabric.ff_blocking_reason,
    p_detail text,
    p_attempt_state flowfabric.ff_attempt_state,
    p_release_reason text,
    p_now_ms bigint
)
returns void
language plpgsql volatile
as $$
begin
    perform flowfabric._ff_set_unowned_state(
        p_exec, 'runnable', p_eligibility, p_blocking, p_detail, 'none', p_attempt_state, p_exec.delay_until_ms, null,
        null, p_release_reason, p_now_ms);
end;
$$;
comment on function flowfabric._ff_become_blocked(
    flowfabric.ff_exec_core, flowfabric.ff_eligibility_state, flowfabric.ff_blocking_reason, text,
    flowfabric.ff_attempt_state, text, bigint) is
'Internal: the one way into a blocked eligibility.';

-- The caller holds the flow lock of a member, has ended the attempt and closed what was open.
create or replace function flowfabric._ff_become_terminal(
    p_exec flowfabric.ff_exec_core,
    p_outcome flowfabric.ff_terminal_outcome,
    p_release_reason text,
    p_now_ms bigint,
    p_attempt_state flowfabric.ff_attempt_state default null
)
returns void
language plpgsql volatile
as $$
declare
    v_exec flowfabric.ff_exec_core := p_exec;
begin
    -- The hook returns a member's reservations after its cascade has locked the last execution: budgets come last.
    if p_exec.flow_id is not null then
        v_exec.open_reservation_count := 0;
    end if;
    perform flowfabric._ff_set_unowned_state(
        v_exec, 'terminal', 'not_applicable', 'none', null, p_outcome,
        coalesce(
            p_attempt_state,
            case when p_exec.total_attempt_count > 0 then 'attempt_terminal' else p_exec.attempt_state end),
        null, null, null, p_release_reason, p_now_ms);
    delete from flowfabric.ff_claim_grant as g
    where g.partition_key = p_exec.partition_key and g.execution_id = p_exec.execution_id;
    perform flowfabric._ff_on_execution_terminal(p_exec, p_outcome, p_now_ms);
end;
$$;
comment on function flowfabric._ff_become_terminal(
    flowfabric.ff_exec_core, flowfabric.ff_terminal_outcome, text, bigint, flowfabric.ff_attempt_state) is
'Internal: the one way into the terminal phase; ends in the terminal hook.';

-- The attempt

-- A first attempt has no row of its own while it runs and after it has succeeded: the execution's row has all that
-- could stand in it. Most executions then never write ff_attempt. Whatever pauses the attempt, ends it otherwise or
-- replays the execution writes the row first; readers see it through _ff_all_attempts.
create or replace function flowfabric._ff_deferred_attempt_state(p_phase flowfabric.ff_lifecycle_phase)
returns flowfabric.ff_attempt_row_state
language sql immutable parallel safe
as $$
    select case p_phase when 'terminal' then 'ended_success'::flowfabric.ff_attempt_row_state else 'started' end
$$;
comment on function flowfabric._ff_deferred_attempt_state(flowfabric.ff_lifecycle_phase) is
'Internal: how a deferred attempt stands, from the phase of its execution.';

create or replace function flowfabric._ff_write_deferred_attempt(p_exec flowfabric.ff_exec_core)
returns void
language sql volatile
as $$
    insert into flowfabric.ff_attempt (
        partition_key, execution_id, attempt_index, attempt_type, attempt_state, attempt_id, lease_id, lease_epoch,
        worker_id, worker_instance_id, created_at_ms, started_at_ms, ended_at_ms)
    values (
        p_exec.partition_key, p_exec.execution_id, p_exec.total_attempt_count - 1, 'initial',
        flowfabric._ff_deferred_attempt_state(p_exec.lifecycle_phase), p_exec.current_attempt_id,
        coalesce(p_exec.current_lease_id, p_exec.ended_lease_id), p_exec.current_lease_epoch,
        coalesce(p_exec.current_worker_id, p_exec.ended_worker_id),
        coalesce(p_exec.current_worker_instance_id, p_exec.ended_worker_instance_id), p_exec.started_at_ms,
        p_exec.started_at_ms, p_exec.terminal_at_ms)
$$;
comment on function flowfabric._ff_write_deferred_attempt(flowfabric.ff_exec_core) is
'Internal: gives the first attempt of an execution, which runs or has succeeded, its row.';

create or replace function flowfabric._ff_all_attempts()
returns setof flowfabric.ff_attempt
language sql stable
as $$
    select a.*
    from flowfabric.ff_attempt as a
    union all
    select
        e.partition_key, e.execution_id, e.total_attempt_count - 1, 'initial',
        flowfabric._ff_deferred_attempt_state(e.lifecycle_phase), null, null, e.current_attempt_id,
        coalesce(e.current_lease_id, e.ended_lease_id), e.current_lease_epoch, e.started_at_ms, e.started_at_ms, 0,
        null, null, e.terminal_at_ms, null, coalesce(e.current_worker_id, e.ended_worker_id),
        coalesce(e.current_worker_instance_id, e.ended_worker_instance_id), null, null, null, null, null, null, null,
        null, null
    from flowfabric.ff_exec_core as e
    where e.attempt_is_deferred
$$;
comment on function flowfabric._ff_all_attempts() is
'Internal: every attempt, those included whose row is not written yet. The planner inlines it.';

create or replace function flowfabric._ff_end_attempt(
    p_exec flowfabric.ff_exec_core,
    p_state flowfabric.ff_attempt_row_state,
    p_failure_reason text,
    p_failure_category text,
    p_stream_reason text,
    p_now_ms bigint
)
returns boolean
language plpgsql volatile
set enable_seqscan = off
set jit = off
as $$
begin
    if not p_exec.attempt_is_deferred or p_state <> 'ended_success' then
        if p_exec.attempt_is_deferred then
            perform flowfabric._ff_write_deferred_attempt(p_exec);
        end if;
        update flowfabric.ff_attempt as a
        set attempt_state = p_state,
            ended_at_ms = p_now_ms,
            failure_reason = p_failure_reason,
            failure_category = p_failure_category,
            suspended_at_ms = null,
            suspension_id = null
        where a.partition_key = p_exec.partition_key and a.execution_id = p_exec.execution_id
            and a.attempt_index = p_exec.total_attempt_count - 1
            and a.attempt_state in ('started', 'suspended');
        if not found then
            return false;
        end if;
    end if;
    perform flowfabric._ff_close_stream(
        p_exec.partition_key, p_exec.execution_id, p_exec.total_attempt_count - 1, p_stream_reason, false, p_now_ms);
    return true;
end;
$$;
comment on function flowfabric._ff_end_attempt(
    flowfabric.ff_exec_core, flowfabric.ff_attempt_row_state, text, text, text, bigint) is
'Internal: ends the current attempt if it is unfinished and closes its stream; says whether there was one.';

create or replace function flowfabric._ff_pause_attempt(
    p_exec flowfabric.ff_exec_core,
    p_suspension_id text,
    p_now_ms bigint
)
returns void
language plpgsql volatile
set enable_seqscan = off
set jit = off
as $$
begin
    if p_exec.attempt_is_deferred then
        perform flowfabric._ff_write_deferred_attempt(p_exec);
    end if;
    update flowfabric.ff_attempt as a
    set attempt_state = 'suspended',
        suspended_at_ms = p_now_ms,
        suspension_id = p_suspension_id,
        -- At least 1: an attempt that was just about to time out must not come back without a timeout.
        timeout_remaining_ms = case
            when p_exec.attempt_timeout_at_ms is not null then greatest(p_exec.attempt_timeout_at_ms - p_now_ms, 1)
        end
    where a.partition_key = p_exec.partition_key and a.execution_id = p_exec.execution_id
        and a.attempt_index = p_exec.total_attempt_count - 1;
end;
$$;
comment on function flowfabric._ff_pause_attempt(flowfabric.ff_exec_core, text, bigint) is
'Internal: pauses the running attempt and saves the rest of its timeout; the same attempt goes on later.';

-- Notes: written only when there is something to note, always under the execution's lock.

create or replace function flowfabric._ff_note_failure(p_exec flowfabric.ff_exec_core, p_reason text)
returns void
language plpgsql volatile
as $$
begin
    insert into flowfabric.ff_exec_note as n (partition_key, execution_id, failure_reason)
    values (p_exec.partition_key, p_exec.execution_id, p_reason)
    on conflict (partition_key, execution_id) do update set failure_reason = excluded.failure_reason;
end;
$$;
comment on function flowfabric._ff_note_failure(flowfabric.ff_exec_core, text) is
'Internal: notes why an execution failed or expired.';

create or replace function flowfabric._ff_note_retry(p_exec flowfabric.ff_exec_core, p_reason text)
returns void
language plpgsql volatile
as $$
begin
    insert into flowfabric.ff_exec_note as n (
        partition_key, execution_id, failure_reason, pending_retry_reason, pending_previous_attempt_index)
    values (p_exec.partition_key, p_exec.execution_id, p_reason, p_reason, p_exec.total_attempt_count - 1)
    on conflict (partition_key, execution_id) do update
    set failure_reason = excluded.failure_reason,
        pending_retry_reason = excluded.pending_retry_reason,
        pending_previous_attempt_index = excluded.pending_previous_attempt_index;
end;
$$;
comment on function flowfabric._ff_note_retry(flowfabric.ff_exec_core, text) is
'Internal: notes why an attempt failed and what its retry will follow.';

create or replace function flowfabric._ff_note_replay(
    p_exec flowfabric.ff_exec_core,
    p_reason text,
    p_requested_by text
)
returns void
language plpgsql volatile
as $$
begin
    insert into flowfabric.ff_exec_note as n (
        partition_key, execution_id, pending_replay_reason, pending_replay_requested_by,
        pending_previous_attempt_index)
    values (
        p_exec.partition_key, p_exec.execution_id, p_reason, p_requested_by,
        flowfabric._ff_current_attempt_index(p_exec))
    on conflict (partition_key, execution_id) do update
    set pending_replay_reason = excluded.pending_replay_reason,
        pending_replay_requested_by = excluded.pending_replay_requested_by,
        pending_previous_attempt_index = excluded.pending_previous_attempt_index,
        pending_retry_reason = null,
        failure_reason = null,
        cancellation_reason = null,
        cancelled_by = null;
end;
$$;
comment on function flowfabric._ff_note_replay(flowfabric.ff_exec_core, text, text) is
'Internal: notes what a replay will follow, and forgets how the execution had ended.';

create or replace function flowfabric._ff_note_cancellation(
    p_exec flowfabric.ff_exec_core,
    p_reason text,
    p_cancelled_by text
)
returns void
language plpgsql volatile
as $$
begin
    insert into flowfabric.ff_exec_note as n (partition_key, execution_id, cancellation_reason, cancelled_by)
    values (p_exec.partition_key, p_exec.execution_id, p_reason, p_cancelled_by)
    on conflict (partition_key, execution_id) do update
    set cancellation_reason = excluded.cancellation_reason, cancelled_by = excluded.cancelled_by;
end;
$$;
comment on function flowfabric._ff_note_cancellation(flowfabric.ff_exec_core, text, text) is
'Internal: notes why and by whom an execution was cancelled.';

create or replace function flowfabric._ff_note_revocation(p_exec flowfabric.ff_exec_core, p_reason text)
returns void
language plpgsql volatile
as $$
begin
    insert into flowfabric.ff_exec_note as n (partition_key, execution_id, lease_revoke_reason)
    values (p_exec.partition_key, p_exec.execution_id, p_reason)
    on conflict (partition_key, execution_id) do update set lease_revoke_reason = excluded.lease_revoke_reason;
end;
$$;
comment on function flowfabric._ff_note_revocation(flowfabric.ff_exec_core, text) is
'Internal: notes why a lease was revoked; NULL forgets it.';

create or replace function flowfabric._ff_note_capability_mismatch(
    p_exec flowfabric.ff_exec_core,
    p_now_ms bigint
)
returns void
language plpgsql volatile
as $$
begin
    insert into flowfabric.ff_exec_note as n (partition_key, execution_id, last_capability_mismatch_at_ms)
    values (p_exec.partition_key, p_exec.execution_id, p_now_ms)
    on conflict (partition_key, execution_id) do update
    set last_capability_mismatch_at_ms = excluded.last_capability_mismatch_at_ms;
end;
$$;
comment on function flowfabric._ff_note_capability_mismatch(flowfabric.ff_exec_core, bigint) is
'Internal: notes that a worker asked for an execution whose capabilities it lacks.';
