-- The moves of a suspension: how it opens, how it ends, and what its timeout does.
--
-- All of them run under the lock of the execution, which serialises everything about its suspension, its waitpoints and
-- its signals.

-- Opening

create or replace function flowfabric._ff_become_suspended(
    p_exec flowfabric.ff_exec_core,
    p_blocking flowfabric.ff_blocking_reason,
    p_detail text,
    p_suspension_id uuid,
    p_waitpoint_id uuid,
    p_now_ms bigint
)
returns void
language plpgsql volatile
as $$
begin
    perform flowfabric._ff_pause_attempt(p_exec, p_suspension_id::text, p_now_ms);
    perform flowfabric._ff_set_unowned_state(
        p_exec, 'suspended', 'not_applicable', p_blocking, p_detail, 'none', 'attempt_interrupted', null,
        p_suspension_id, p_waitpoint_id, 'suspend', p_now_ms);
end;
$$;
comment on function flowfabric._ff_become_suspended(
    flowfabric.ff_exec_core, flowfabric.ff_blocking_reason, text, uuid, uuid, bigint) is
'Internal: the one way into suspended; pauses the running attempt and releases the lease.';

create or replace function flowfabric._ff_suspension_blocking(p_reason_code text)
returns flowfabric.ff_blocking_reason
language sql immutable parallel safe
as $$
    select case p_reason_code
        when 'waiting_for_signal' then 'waiting_for_signal'::flowfabric.ff_blocking_reason
        when 'waiting_for_approval' then 'waiting_for_approval'
        when 'waiting_for_callback' then 'waiting_for_callback'
        when 'waiting_for_tool_result' then 'waiting_for_tool_result'
        when 'waiting_for_operator_review' then 'paused_by_operator'
        when 'paused_by_policy' then 'paused_by_policy'
        when 'paused_by_budget' then 'waiting_for_budget'
        when 'step_boundary' then 'waiting_for_signal'
        when 'manual_pause' then 'paused_by_operator'
    end
$$;
comment on function flowfabric._ff_suspension_blocking(text) is
'Internal: the blocking reason that a suspension with a reason code shows; NULL for an unknown code.';

-- In any state: an id is never used again.
create or replace function flowfabric._ff_check_waitpoint_is_new(
    p_partition_key smallint,
    p_waitpoint_id uuid,
    p_fn text
)
returns void
language plpgsql stable
as $$
declare
    v_state text;
begin
    select w.state into v_state
    from flowfabric.ff_waitpoint_pending as w
    where w.partition_key = p_partition_key and w.waitpoint_id = p_waitpoint_id;
    if found then
        perform flowfabric._ff_raise(
            'waitpoint_already_exists', p_fn,
            jsonb_build_object('waitpoint_id', p_waitpoint_id, 'state', v_state));
    end if;
end;
$$;
comment on function flowfabric._ff_check_waitpoint_is_new(smallint, uuid, text) is
'Internal: raises waitpoint_already_exists for an id that is in use or was.';

-- Pending without a suspension, else active. Another execution may be opening a waitpoint with the same id, or a
-- suspension with the same id, at this moment; the insert waits for it and then finds out.
create or replace function flowfabric._ff_open_waitpoint(
    p_exec flowfabric.ff_exec_core,
    p_hmac flowfabric.ff_waitpoint_hmac,
    p_waitpoint_id uuid,
    p_waitpoint_key text,
    p_suspension_id uuid,
    p_ordinal integer,
    p_required_signal_names text[],
    p_expires_at_ms bigint,
    p_now_ms bigint,
    p_fn text
)
returns flowfabric.ff_waitpoint_pending
language plpgsql volatile
as $$
declare
    v_waitpoint flowfabric.ff_waitpoint_pending;
    v_token text := flowfabric._ff_mint_waitpoint_token(
        p_hmac, row(p_exec.partition_key, p_exec.execution_id)::flowfabric.ff_execution_key, p_waitpoint_id, p_now_ms,
        p_waitpoint_key);
begin
    insert into flowfabric.ff_waitpoint_pending as w (
        partition_key, waitpoint_id, execution_id, attempt_index, waitpoint_key, state, suspension_id, ordinal,
        token_kid, token_fingerprint, created_at_ms, activated_at_ms, expires_at_ms, required_signal_names)
    values (
        p_exec.partition_key, p_waitpoint_id, p_exec.execution_id, p_exec.total_attempt_count - 1, p_waitpoint_key,
        case when p_suspension_id is null then 'pending' else 'active' end, p_suspension_id, p_ordinal, p_hmac.kid,
        flowfabric._ff_token_fingerprint(v_token), p_now_ms,
        case when p_suspension_id is not null then p_now_ms end, p_expires_at_ms, p_required_signal_names)
    on conflict do nothing
    returning w.* into v_waitpoint;
    if not found then
        perform flowfabric._ff_check_waitpoint_is_new(p_exec.partition_key, p_waitpoint_id, p_fn);
        perform flowfabric._ff_raise_used_suspension(p_suspension_id, p_fn);
    end if;
    return v_waitpoint;
end;
$$;
comment on function flowfabric._ff_open_waitpoint(
    flowfabric.ff_exec_core, flowfabric.ff_waitpoint_hmac, uuid, text, uuid, integer, text[], bigint, bigint, text) is
'Internal: opens a waitpoint under a signing key; raises waitpoint_already_exists.';

create or replace function flowfabric._ff_raise_used_suspension(p_suspension_id uuid, p_fn text)
returns void
language plpgsql stable
as $$
begin
    perform flowfabric._ff_raise_invalid(p_fn, 'suspension_id', 'already_used', p_suspension_id::text);
end;
$$;
comment on function flowfabric._ff_raise_used_suspension(uuid, text) is
'Internal: raises invalid_input for a suspension id that an earlier suspension has.';

-- Id, key, creation time and signing key stay, so the tokens that were handed out keep working.
create or replace function flowfabric._ff_activate_waitpoint(
    p_waitpoint flowfabric.ff_waitpoint_pending,
    p_suspension flowfabric.ff_suspension_current,
    p_now_ms bigint,
    p_fn text
)
returns void
language plpgsql volatile
as $$
begin
    update flowfabric.ff_waitpoint_pending as w
    set state = 'active',
        suspension_id = p_suspension.suspension_id,
        ordinal = 0,
        activated_at_ms = p_now_ms,
        expires_at_ms = p_suspension.timeout_at_ms,
        required_signal_names = flowfabric._ff_condition_names(p_suspension.condition, w.waitpoint_key)
    where w.partition_key = p_waitpoint.partition_key and w.waitpoint_id = p_waitpoint.waitpoint_id;
exception when unique_violation then
    perform flowfabric._ff_raise_used_suspension(p_suspension.suspension_id, p_fn);
end;
$$;
comment on function flowfabric._ff_activate_waitpoint(
    flowfabric.ff_waitpoint_pending, flowfabric.ff_suspension_current, bigint, text) is
'Internal: takes a pending waitpoint into use as the primary one of a suspension.';

-- Stops at the signal that makes the condition true: what came after it did not wake anybody. A signal keeps the effect
-- that it had when it arrived.
create or replace function flowfabric._ff_apply_buffered_signals(
    p_suspension flowfabric.ff_suspension_current,
    p_waitpoint flowfabric.ff_waitpoint_pending
)
returns uuid
language plpgsql volatile
as $$
declare
    v_signal flowfabric.ff_signal;
    v_effect text;
    v_matches integer := 0;
    v_closer_id uuid;
begin
    for v_signal in
        select s.*
        from flowfabric.ff_signal as s
        where s.partition_key = p_waitpoint.partition_key and s.waitpoint_id = p_waitpoint.waitpoint_id
        order by s.seq
    loop
        v_effect := flowfabric._ff_apply_signal(p_suspension, p_waitpoint.waitpoint_key, v_signal);
        v_matches := v_matches + flowfabric._ff_is_match(v_effect)::integer;
        if v_effect = 'resume_condition_satisfied' then
            v_closer_id := v_signal.signal_id;
            exit;
        end if;
    end loop;
    if v_matches > 0 then
        update flowfabric.ff_signal as s
        set is_satisfier = true
        where s.partition_key = p_waitpoint.partition_key and s.execution_id = p_waitpoint.execution_id
            and s.signal_id in (
                select t.signal_id
                from flowfabric.ff_suspension_satisfier as t
                where t.partition_key = p_suspension.partition_key and t.suspension_id = p_suspension.suspension_id);
        update flowfabric.ff_waitpoint_pending as w
        set matched_signal_count = w.matched_signal_count + v_matches
        where w.partition_key = p_waitpoint.partition_key and w.waitpoint_id = p_waitpoint.waitpoint_id;
    end if;
    return v_closer_id;
end;
$$;
comment on function flowfabric._ff_apply_buffered_signals(
    flowfabric.ff_suspension_current, flowfabric.ff_waitpoint_pending) is
'Internal: counts the signals that a waitpoint received before its suspension; the id of the one that satisfies it.';

-- A waitpoint that is pending past its time counts as closed before any scanner has closed it.
create or replace function flowfabric._ff_is_open_waitpoint(
    p_waitpoint flowfabric.ff_waitpoint_pending,
    p_now_ms bigint
)
returns boolean
language sql immutable parallel safe
as $$
    select case p_waitpoint.state
        when 'active' then true
        when 'pending' then p_waitpoint.expires_at_ms > p_now_ms
        else false
    end
$$;
comment on function flowfabric._ff_is_open_waitpoint(flowfabric.ff_waitpoint_pending, bigint) is
'Internal: whether a waitpoint takes signals at an instant.';

-- Ending

create or replace function flowfabric._ff_close_waitpoint(
    p_waitpoint flowfabric.ff_waitpoint_pending,
    p_reason text,
    p_now_ms bigint
)
returns void
language sql volatile
as $$
    update flowfabric.ff_waitpoint_pending as w
    set state = 'closed', closed_at_ms = p_now_ms, close_reason = p_reason
    where w.partition_key = p_waitpoint.partition_key and w.waitpoint_id = p_waitpoint.waitpoint_id
$$;
comment on function flowfabric._ff_close_waitpoint(flowfabric.ff_waitpoint_pending, text, bigint) is
'Internal: closes one waitpoint and leaves its suspension as it is.';

-- p_trigger: signal, operator, auto_resume, timeout, or NULL when the execution ended instead of resuming. Only a
-- satisfied condition stamps satisfied_at_ms and names its signals.
create or replace function flowfabric._ff_close_suspension(
    p_exec flowfabric.ff_exec_core,
    p_reason text,
    p_trigger text,
    p_satisfied boolean,
    p_closer_signal_id uuid,
    p_now_ms bigint
)
returns void
language plpgsql volatile
as $$
declare
    v_satisfiers uuid[] := '{}'::uuid[];
begin
    if p_satisfied then
        v_satisfiers := array(
            select s.signal_id
            from (
                select distinct t.signal_id
                from flowfabric.ff_suspension_satisfier as t
                where t.partition_key = p_exec.partition_key and t.suspension_id = p_exec.current_suspension_id
            ) as t
            join flowfabric.ff_signal as s
                on s.partition_key = p_exec.partition_key and s.execution_id = p_exec.execution_id
                and s.signal_id = t.signal_id
            order by s.seq);
    end if;
    update flowfabric.ff_suspension_current as u
    set closed_at_ms = p_now_ms,
        close_reason = p_reason,
        resume_trigger = p_trigger,
        satisfied_at_ms = case when p_satisfied then p_now_ms end,
        closer_signal_id = case when p_satisfied then p_closer_signal_id end,
        satisfier_signal_ids = v_satisfiers
    where u.partition_key = p_exec.partition_key and u.execution_id = p_exec.execution_id
        and u.suspension_id = p_exec.current_suspension_id and u.closed_at_ms is null;
    update flowfabric.ff_waitpoint_pending as w
    set state = 'closed',
        closed_at_ms = p_now_ms,
        close_reason = p_reason,
        satisfied_at_ms = case when p_satisfied then p_now_ms end
    where w.partition_key = p_exec.partition_key and w.suspension_id = p_exec.current_suspension_id
        and w.state <> 'closed';
    delete from flowfabric.ff_suspension_satisfier as t
    where t.partition_key = p_exec.partition_key and t.suspension_id = p_exec.current_suspension_id;
end;
$$;
comment on function flowfabric._ff_close_suspension(flowfabric.ff_exec_core, text, text, boolean, uuid, bigint) is
'Internal: closes the open suspension of an execution with all its waitpoints.';

create or replace function flowfabric._ff_resume(
    p_exec flowfabric.ff_exec_core,
    p_delay_ms bigint,
    p_detail text,
    p_now_ms bigint
)
returns flowfabric.ff_resumption
language plpgsql volatile
as $$
begin
    if p_delay_ms > 0 then
        perform flowfabric._ff_become_delayed(
            p_exec, p_now_ms + p_delay_ms, 'waiting_for_resume_delay', p_detail, 'attempt_interrupted', null, p_now_ms);
        return row('delayed', p_now_ms + p_delay_ms)::flowfabric.ff_resumption;
    end if;
    perform flowfabric._ff_become_eligible(p_exec, 'attempt_interrupted', null, p_now_ms);
    return row('waiting', null)::flowfabric.ff_resumption;
end;
$$;
comment on function flowfabric._ff_resume(flowfabric.ff_exec_core, bigint, text, bigint) is
'Internal: makes a suspended execution runnable again, at once or after a delay; its suspension is closed apart.';

create or replace function flowfabric._ff_escalate_suspension(
    p_exec flowfabric.ff_exec_core,
    p_suspension flowfabric.ff_suspension_current,
    p_now_ms bigint
)
returns void
language plpgsql volatile
as $$
begin
    update flowfabric.ff_suspension_current as u
    set reason_code = 'waiting_for_operator_review', timeout_at_ms = null, timeout_behavior = null
    where u.partition_key = p_suspension.partition_key and u.execution_id = p_suspension.execution_id;
    update flowfabric.ff_waitpoint_pending as w
    set expires_at_ms = null
    where w.partition_key = p_suspension.partition_key and w.suspension_id = p_suspension.suspension_id
        and w.state = 'active';
    update flowfabric.ff_exec_core as e
    set blocking_reason = 'paused_by_operator',
        blocking_detail = 'suspension escalated: timeout at ' || p_suspension.timeout_at_ms::text,
        last_mutation_at_ms = p_now_ms
    where e.partition_key = p_exec.partition_key and e.execution_id = p_exec.execution_id;
end;
$$;
comment on function flowfabric._ff_escalate_suspension(
    flowfabric.ff_exec_core, flowfabric.ff_suspension_current, bigint) is
'Internal: hands an open suspension to an operator and takes its timeout away; signals still work.';

-- The caller holds the flow lock of a member. Every situation is an outcome: a scanner and a signal that race for one
-- suspension both come here to a sound end.
create or replace function flowfabric._ff_time_out_suspension(p_exec flowfabric.ff_exec_core, p_now_ms bigint)
returns flowfabric.ff_state_outcome
language plpgsql volatile
as $$
declare
    v_exec flowfabric.ff_exec_core := p_exec;
    v_suspension flowfabric.ff_suspension_current;
    v_reason text;
    v_outcome flowfabric.ff_terminal_outcome;
begin
    select u.* into v_suspension
    from flowfabric.ff_suspension_current as u
    where u.partition_key = p_exec.partition_key and u.execution_id = p_exec.execution_id and u.closed_at_ms is null;
    if p_exec.lifecycle_phase <> 'suspended' then
        -- An open suspension of a running execution cannot arise; left alone, it would be found due for ever.
        if v_suspension.suspension_id is not null then
            v_exec.current_suspension_id := v_suspension.suspension_id;
            perform flowfabric._ff_close_suspension(v_exec, 'orphaned', null, false, null, p_now_ms);
        end if;
        return row('not_suspended_cleaned', null)::flowfabric.ff_state_outcome;
    end if;
    if v_suspension.suspension_id is null then
        return row('no_active_suspension_cleaned', null)::flowfabric.ff_state_outcome;
    end if;
    if (v_suspension.timeout_at_ms <= p_now_ms) is not true then
        return row('not_yet_due', null)::flowfabric.ff_state_outcome;
    end if;

    if v_suspension.timeout_behavior = 'auto_resume_with_timeout_signal' then
        perform flowfabric._ff_close_suspension(p_exec, 'timed_out_auto_resume', 'timeout', false, null, p_now_ms);
        perform flowfabric._ff_resume(p_exec, 0, null, p_now_ms);
        return row('auto_resume', 'waiting')::flowfabric.ff_state_outcome;
    end if;
    if v_suspension.timeout_behavior = 'escalate' then
        perform flowfabric._ff_escalate_suspension(p_exec, v_suspension, p_now_ms);
        return row('escalate', 'suspended')::flowfabric.ff_state_outcome;
    end if;
    v_reason := 'suspension_timeout:' || v_suspension.timeout_behavior;
    v_outcome := case v_suspension.timeout_behavior
        when 'fail' then 'failed'::flowfabric.ff_terminal_outcome
        when 'cancel' then 'cancelled'
        else 'expired'
    end;
    perform flowfabric._ff_end_attempt(
        p_exec,
        case v_outcome
            when 'cancelled' then 'ended_cancelled'::flowfabric.ff_attempt_row_state else 'ended_failure'
        end,
        v_reason, null, 'suspension_timeout', p_now_ms);
    perform flowfabric._ff_close_suspension(
        p_exec, 'timed_out_' || v_suspension.timeout_behavior, null, false, null, p_now_ms);
    perform flowfabric._ff_note_failure(p_exec, v_reason);
    perform flowfabric._ff_become_terminal(p_exec, v_outcome, v_reason, p_now_ms);
    return row(v_suspension.timeout_behavior, v_outcome::text)::flowfabric.ff_state_outcome;
end;
$$;
comment on function flowfabric._ff_time_out_suspension(flowfabric.ff_exec_core, bigint) is
'Internal: applies the timeout behaviour of a locked execution''s suspension if it is due, and says what it did.';

-- Scanning

-- As _ff_scan_executions (90_scanner) does it, for items that hang on an execution: its suspension, or one of its
-- waitpoints if p_waitpoint_ids is given, which then has one id for each key.
create or replace function flowfabric._ff_scan_suspensions(
    p_scanner text,
    p_keys flowfabric.ff_execution_key[],
    p_waitpoint_ids uuid[],
    p_limit integer
)
returns flowfabric.ff_scan
language plpgsql volatile
as $$
declare
    v_scan flowfabric.ff_scan := row(0, 0, 0, false)::flowfabric.ff_scan;
    v_item record;
    v_exec flowfabric.ff_exec_core;
    v_is_locked boolean;
    v_is_done boolean;
    v_tried integer := 0;
    v_detail text;
begin
    for v_item in
        select
            row(k.partition_key, k.execution_id)::flowfabric.ff_execution_key as key, k.waitpoint_id,
            concat_ws(
                '/', flowfabric.ff_format_execution_id(k.partition_key, k.execution_id), k.waitpoint_id::text) as name
        from rows from (unnest(p_keys), unnest(p_waitpoint_ids)) with ordinality
            as k (partition_key, execution_id, waitpoint_id, number)
        order by k.number
    loop
        exit when v_tried >= p_limit;
        v_is_locked := false;
        begin
            v_exec := flowfabric._ff_scanner_lock_execution(v_item.key, v_item.waitpoint_id is null);
            v_is_locked := true;
            v_is_done := case
                when v_item.waitpoint_id is null
                    then (flowfabric._ff_time_out_suspension(v_exec, flowfabric.ff_now_ms())).public_state is not null
                else flowfabric._ff_sweep_waitpoint(v_exec, v_item.waitpoint_id, flowfabric.ff_now_ms())
            end;
            perform flowfabric._ff_scanner_item_ok(p_scanner, v_item.name);
            v_tried := v_tried + v_is_done::integer;
            v_scan.processed := v_scan.processed + v_is_done::integer;
        exception
            when lock_not_available or deadlock_detected then
                v_tried := v_tried + v_is_locked::integer;
                v_scan.skipped := v_scan.skipped + 1;
            when others then
                get stacked diagnostics v_detail = pg_exception_detail;
                v_tried := v_tried + 1;
                v_scan.errors := v_scan.errors + 1;
                perform flowfabric._ff_scanner_item_failed(
                    p_scanner, v_item.name, concat_ws(' ', sqlstate, sqlerrm, nullif(v_detail, '')),
                    flowfabric.ff_now_ms());
        end;
    end loop;
    v_scan.more := v_scan.processed > 0 and v_tried >= p_limit;
    return v_scan;
end;
$$;
comment on function flowfabric._ff_scan_suspensions(text, flowfabric.ff_execution_key[], uuid[], integer) is
'Internal: runs a scanner over suspensions or waitpoints, each in a block of its own, until the limit is reached.';

create or replace function flowfabric._ff_sweep_waitpoint(
    p_exec flowfabric.ff_exec_core,
    p_waitpoint_id uuid,
    p_now_ms bigint
)
returns boolean
language plpgsql volatile
as $$
declare
    v_waitpoint flowfabric.ff_waitpoint_pending;
begin
    select w.* into v_waitpoint
    from flowfabric.ff_waitpoint_pending as w
    where w.partition_key = p_exec.partition_key and w.waitpoint_id = p_waitpoint_id
        and w.state = 'pending' and w.expires_at_ms <= p_now_ms;
    if not found then
        return false;
    end if;
    perform flowfabric._ff_close_waitpoint(v_waitpoint, 'never_committed', p_now_ms);
    return true;
end;
$$;
comment on function flowfabric._ff_sweep_waitpoint(flowfabric.ff_exec_core, uuid, bigint) is
'Internal: closes a pending waitpoint whose time is over; says whether it was one.';
