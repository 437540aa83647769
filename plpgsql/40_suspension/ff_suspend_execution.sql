-- ff_suspend_execution: pause the running attempt until signals satisfy a condition, and hand out the tokens for them.
--
-- Fence:  the whole triple of the current, unexpired lease.
-- Locks:  the ff_exec_core row, which covers its suspension, waitpoints and signals; the ff_attempt row.
-- Writes: ff_suspension_current, ff_waitpoint_pending, ff_exec_core, ff_attempt, ff_lease_event; the quota slot and the
--         open budget reservations go back; with a pending waitpoint ff_signal and ff_suspension_satisfier;
--         ff_suspend_dedup with a key.
-- Raises: invalid_input, additional_waitpoint_binding_malformed, invalid_resume_condition,
--         use_pending_with_extras_unsupported, invalid_lease_for_suspend, already_suspended, waitpoint_not_found,
--         waitpoint_not_pending, invalid_waitpoint_for_execution, pending_waitpoint_expired,
--         waitpoint_already_exists, hmac_secret_not_initialized, invalid_secret and the codes of _ff_check_fence.
-- Retry:  safe with an idempotency key: the repeat gets the first answer, tokens included. Without one it answers
--         execution_not_active, with phase suspended in its detail.
--
-- One row per waitpoint. If signals that a pending waitpoint has buffered satisfy the condition already, nothing is
-- suspended: the answer is `already_satisfied`, the lease stays and the worker goes on; the suspension is recorded
-- closed, so that ff_observe_signals shows the signals. The repeat is recognised before the fence is checked, because
-- the first call gave the lease away.
create or replace function flowfabric.ff_suspend_execution(
    p_execution_id text,
    p_lease_id uuid,
    p_lease_epoch bigint,
    p_attempt_id uuid,
    p_resume_condition jsonb,
    p_reason_code text,
    p_requested_by text default 'worker',
    p_waitpoint_ids uuid[] default null,
    p_waitpoint_keys text[] default null,
    p_use_pending boolean default false,
    p_timeout_at_ms bigint default null,
    p_timeout_in_ms bigint default null,
    p_timeout_behavior text default 'fail',
    p_resume_delay_ms bigint default 0,
    p_consume_matched_signals boolean default true,
    p_retain_signal_buffer_until_closed boolean default false,
    p_close_waitpoint_on_resume boolean default true,
    p_resume_target text default 'runnable',
    p_continuation_metadata_pointer text default null,
    p_idempotency_key text default null,
    p_suspension_id uuid default null,
    p_attempt_index integer default null
)
returns setof flowfabric.ff_suspended_waitpoint
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    c_fn constant text := 'ff_suspend_execution';
    c_skew_ms constant bigint := 600000::bigint;
    c_longest_dedup_ms constant bigint := 604800000::bigint;
    v_key flowfabric.ff_execution_key := flowfabric._ff_parse_execution_id(p_execution_id, c_fn);
    v_use_pending boolean := coalesce(p_use_pending, false);
    v_idempotency_key text := nullif(p_idempotency_key, '');
    v_ids uuid[];
    v_keys text[];
    v_suspension flowfabric.ff_suspension_current;
    v_exec flowfabric.ff_exec_core;
    v_known record;
    v_hmac flowfabric.ff_waitpoint_hmac;
    v_waitpoint flowfabric.ff_waitpoint_pending;
    v_closer_id uuid;
    v_outcome text := 'suspended';
    v_now_ms bigint;
begin
    if p_resume_condition is null then
        perform flowfabric._ff_raise_invalid(c_fn, 'resume_condition', 'null');
    end if;
    perform flowfabric._ff_check_bindings(p_waitpoint_ids, p_waitpoint_keys, v_use_pending, c_fn);
    perform flowfabric._ff_check_condition_shape(p_resume_condition, c_fn);
    -- Through unnest, because a caller may send arrays that do not begin at 1.
    v_ids := array(select b.id from unnest(p_waitpoint_ids) with ordinality as b (id, number) order by b.number);
    v_keys := array(select b.key from unnest(p_waitpoint_keys) with ordinality as b (key, number) order by b.number);
    if v_use_pending then
        if cardinality(v_ids) > 1 then
            perform flowfabric._ff_raise('use_pending_with_extras_unsupported', c_fn);
        end if;
    else
        if v_keys = '{}'::text[] then
            v_keys := flowfabric._ff_condition_keys(p_resume_condition);
        end if;
        if v_ids = '{}'::uuid[] then
            v_ids := array(select gen_random_uuid() from generate_series(1, greatest(cardinality(v_keys), 1)));
        end if;
        if v_keys = '{}'::text[] then
            v_keys := array['wpk:' || v_ids[1]::text];
        end if;
        perform flowfabric._ff_check_bindings(v_ids, v_keys, false, c_fn);
        perform flowfabric._ff_check_condition_keys(p_resume_condition, v_keys, c_fn);
    end if;
    perform flowfabric._ff_validate_condition(
        p_resume_condition, num_nonnulls(p_timeout_at_ms, p_timeout_in_ms) > 0, c_fn);
    v_suspension := flowfabric._ff_read_suspension(
        p_resume_condition, p_reason_code, p_requested_by, p_timeout_at_ms, p_timeout_in_ms, p_timeout_behavior,
        p_resume_delay_ms, p_consume_matched_signals, p_retain_signal_buffer_until_closed,
        p_close_waitpoint_on_resume, p_resume_target, p_continuation_metadata_pointer, c_fn);
    perform flowfabric._ff_check_length(v_idempotency_key, 1, 512, 'idempotency_key', c_fn);

    v_exec := flowfabric._ff_lock_execution(v_key, c_fn);
    v_now_ms := flowfabric.ff_now_ms();
    if v_idempotency_key is not null then
        select d.outcome, d.suspension_id into v_known
        from flowfabric.ff_suspend_dedup as d
        where d.partition_key = v_exec.partition_key and d.execution_id = v_exec.execution_id
            and d.idempotency_key = v_idempotency_key and d.expires_at_ms > v_now_ms;
        if found then
            return query
            select w.*
            from flowfabric._ff_suspended_waitpoints(
                v_exec.partition_key, v_known.suspension_id, v_known.outcome, true, v_now_ms, c_fn) as w;
            return;
        end if;
    end if;
    if p_timeout_at_ms < v_now_ms - c_skew_ms then
        perform flowfabric._ff_raise_invalid(
            c_fn, 'timeout_at_ms', 'timeout_at_in_past', p_timeout_at_ms::text);
    end if;
    perform flowfabric._ff_check_fence(v_exec, p_lease_id, p_lease_epoch, p_attempt_id, false, v_now_ms, c_fn);
    if p_attempt_index <> v_exec.total_attempt_count - 1 then
        perform flowfabric._ff_raise(
            'invalid_lease_for_suspend', c_fn,
            jsonb_build_object(
                'execution_id', flowfabric._ff_wire_id(v_exec),
                'expected_attempt_index', v_exec.total_attempt_count - 1, 'attempt_index', p_attempt_index));
    end if;
    perform flowfabric._ff_check_not_suspended(v_exec, c_fn);

    v_suspension.partition_key := v_exec.partition_key;
    v_suspension.execution_id := v_exec.execution_id;
    v_suspension.suspension_id := coalesce(p_suspension_id, gen_random_uuid());
    v_suspension.attempt_index := v_exec.total_attempt_count - 1;
    v_suspension.suspended_at_ms := v_now_ms;
    v_suspension.timeout_at_ms := case
        when p_timeout_in_ms is null then p_timeout_at_ms
        else v_now_ms + p_timeout_in_ms
    end;
    delete from flowfabric.ff_suspension_current as u
    where u.partition_key = v_exec.partition_key and u.execution_id = v_exec.execution_id;
    if v_use_pending then
        v_waitpoint := flowfabric._ff_pending_waitpoint(
            v_exec, v_ids[1], v_keys[1], p_resume_condition, v_now_ms, c_fn);
        insert into flowfabric.ff_suspension_current values (v_suspension.*);
        perform flowfabric._ff_activate_waitpoint(v_waitpoint, v_suspension, v_now_ms, c_fn);
        v_closer_id := flowfabric._ff_apply_buffered_signals(v_suspension, v_waitpoint);
    else
        v_hmac := flowfabric._ff_current_hmac(c_fn);
        insert into flowfabric.ff_suspension_current values (v_suspension.*);
        for i in 1 .. cardinality(v_ids) loop
            perform flowfabric._ff_open_waitpoint(
                v_exec, v_hmac, v_ids[i], v_keys[i], v_suspension.suspension_id, i - 1,
                flowfabric._ff_condition_names(p_resume_condition, v_keys[i]), v_suspension.timeout_at_ms, v_now_ms,
                c_fn);
        end loop;
    end if;
    if v_closer_id is null then
        perform flowfabric._ff_become_suspended(
            v_exec, flowfabric._ff_suspension_blocking(p_reason_code),
            'suspended: waitpoint ' || v_ids[1]::text || ' awaiting ' || p_reason_code,
            v_suspension.suspension_id, v_ids[1], v_now_ms);
    else
        v_outcome := 'already_satisfied';
        -- The execution goes on and never had this suspension; the row only says which one to close.
        v_exec.current_suspension_id := v_suspension.suspension_id;
        perform flowfabric._ff_close_suspension(v_exec, 'resumed', 'signal', true, v_closer_id, v_now_ms);
    end if;
    if v_idempotency_key is not null then
        insert into flowfabric.ff_suspend_dedup (
            partition_key, execution_id, idempotency_key, outcome, suspension_id, created_at_ms, expires_at_ms)
        values (
            v_exec.partition_key, v_exec.execution_id, v_idempotency_key, v_outcome, v_suspension.suspension_id,
            v_now_ms,
            v_now_ms + case
                when v_suspension.timeout_at_ms is null then c_longest_dedup_ms
                else least(greatest(v_suspension.timeout_at_ms - v_now_ms, 0) + 60000, c_longest_dedup_ms)
            end)
        on conflict (partition_key, execution_id, idempotency_key) do update
        set outcome = excluded.outcome,
            suspension_id = excluded.suspension_id,
            created_at_ms = excluded.created_at_ms,
            expires_at_ms = excluded.expires_at_ms;
    end if;
    return query
    select w.*
    from flowfabric._ff_suspended_waitpoints(
        v_exec.partition_key, v_suspension.suspension_id, v_outcome, false, v_now_ms, c_fn) as w;
end;
$$;

comment on function flowfabric.ff_suspend_execution(
    text, uuid, bigint, uuid, jsonb, text, text, uuid[], text[], boolean, bigint, bigint, text, bigint, boolean,
    boolean, boolean, text, text, text, uuid, integer) is
'Pauses the running attempt until signals satisfy a condition, and hands out a token per waitpoint.';

grant execute on function flowfabric.ff_suspend_execution(
    text, uuid, bigint, uuid, jsonb, text, text, uuid[], text[], boolean, bigint, bigint, text, bigint, boolean,
    boolean, boolean, text, text, text, uuid, integer)
to flowfabric_worker;

-- Rules 1 to 3 of spec 20 section 2.3. unnest fills the shorter array up with NULLs, so arrays of different lengths are
-- found like any other missing id or key.
create or replace function flowfabric._ff_check_bindings(
    p_waitpoint_ids uuid[],
    p_waitpoint_keys text[],
    p_use_pending boolean,
    p_fn text
)
returns void
language plpgsql stable
as $$
declare
    c_max_bindings constant integer := 256;
    c_max_key_bytes constant integer := 512;
    v_position bigint;
    v_twice text;
begin
    if cardinality(p_waitpoint_ids) = 0 or cardinality(p_waitpoint_keys) = 0
        or (p_use_pending and p_waitpoint_ids is null)
    then
        perform flowfabric._ff_raise_invalid(p_fn, 'waitpoint_ids', 'waitpoints_empty');
    end if;
    select min(b.number) - 1 into v_position
    from unnest(p_waitpoint_ids, p_waitpoint_keys) with ordinality as b (id, key, number)
    where b.number > c_max_bindings
        or (b.id is null and p_waitpoint_ids is not null)
        or ((octet_length(b.key) between 1 and c_max_key_bytes) is not true
            and not (p_use_pending and p_waitpoint_keys is null));
    if v_position is not null then
        perform flowfabric._ff_raise(
            'additional_waitpoint_binding_malformed', p_fn, jsonb_build_object('position', v_position));
    end if;
    select b.name into v_twice
    from (
        select 'id' as kind, i.id::text as name, i.number
        from unnest(p_waitpoint_ids) with ordinality as i (id, number)
        union all
        select 'key', k.key, k.number from unnest(p_waitpoint_keys) with ordinality as k (key, number)
    ) as b
    group by b.kind, b.name
    having count(*) > 1
    order by min(b.number)
    limit 1;
    if found then
        perform flowfabric._ff_raise_invalid(p_fn, 'waitpoint_keys', 'duplicate_waitpoint_binding', v_twice);
    end if;
end;
$$;
comment on function flowfabric._ff_check_bindings(uuid[], text[], boolean, text) is
'Internal: raises unless waitpoint ids and keys, where given, make a list of distinct bindings.';

create or replace function flowfabric._ff_read_suspension(
    p_resume_condition jsonb,
    p_reason_code text,
    p_requested_by text,
    p_timeout_at_ms bigint,
    p_timeout_in_ms bigint,
    p_timeout_behavior text,
    p_resume_delay_ms bigint,
    p_consume_matched_signals boolean,
    p_retain_signal_buffer_until_closed boolean,
    p_close_waitpoint_on_resume boolean,
    p_resume_target text,
    p_continuation_metadata_pointer text,
    p_fn text
)
returns flowfabric.ff_suspension_current
language plpgsql stable
as $$
declare
    v_suspension flowfabric.ff_suspension_current;
begin
    v_suspension.condition := p_resume_condition;
    v_suspension.reason_code := p_reason_code;
    v_suspension.requested_by := coalesce(nullif(p_requested_by, ''), 'worker');
    v_suspension.timeout_behavior := coalesce(nullif(p_timeout_behavior, ''), 'fail');
    v_suspension.resume_delay_ms := coalesce(p_resume_delay_ms, 0);
    v_suspension.consume_matched_signals := coalesce(p_consume_matched_signals, true);
    v_suspension.retain_signal_buffer_until_closed := coalesce(p_retain_signal_buffer_until_closed, false);
    v_suspension.close_waitpoint_on_resume := coalesce(p_close_waitpoint_on_resume, true);
    v_suspension.resume_target := coalesce(nullif(p_resume_target, ''), 'runnable');
    v_suspension.continuation_metadata_pointer := nullif(p_continuation_metadata_pointer, '');
    v_suspension.satisfier_signal_ids := '{}'::uuid[];

    if v_suspension.timeout_behavior = 'auto_resume' then
        v_suspension.timeout_behavior := 'auto_resume_with_timeout_signal';
    elsif v_suspension.timeout_behavior <> all (flowfabric._ff_legal_values('timeout_behavior')) then
        perform flowfabric._ff_raise_unknown(
            p_fn, 'timeout_behavior', p_timeout_behavior, flowfabric._ff_legal_values('timeout_behavior'));
    end if;
    perform flowfabric._ff_check_resume_delay(v_suspension.resume_delay_ms, p_fn);
    if not v_suspension.close_waitpoint_on_resume then
        perform flowfabric._ff_raise_invalid(p_fn, 'close_waitpoint_on_resume', 'unsupported');
    end if;
    if v_suspension.resume_target <> all (flowfabric._ff_legal_values('resume_target')) then
        perform flowfabric._ff_raise_unknown(
            p_fn, 'resume_target', p_resume_target, flowfabric._ff_legal_values('resume_target'));
    end if;
    if (p_reason_code = any (flowfabric._ff_legal_values('reason_code'))) is not true then
        perform flowfabric._ff_raise_unknown(
            p_fn, 'reason_code', p_reason_code, flowfabric._ff_legal_values('reason_code'));
    end if;
    if v_suspension.requested_by <> all (flowfabric._ff_legal_values('ff_suspend_execution.requested_by')) then
        perform flowfabric._ff_raise_unknown(
            p_fn, 'requested_by', p_requested_by, flowfabric._ff_legal_values('ff_suspend_execution.requested_by'));
    end if;
    if num_nonnulls(p_timeout_at_ms, p_timeout_in_ms) > 1 then
        perform flowfabric._ff_raise_invalid(p_fn, 'timeout_at_ms', 'timeout_ambiguous');
    end if;
    if p_timeout_in_ms = 0 then
        perform flowfabric._ff_raise_invalid(p_fn, 'timeout_in_ms', 'out_of_range', p_timeout_in_ms::text);
    end if;
    perform flowfabric._ff_check_duration(p_timeout_in_ms, 'timeout_in_ms', p_fn);
    -- One that has long passed is for the caller to judge: it knows whether this is a repeat.
    perform flowfabric._ff_check_instant(greatest(p_timeout_at_ms, 0), 'timeout_at_ms', p_fn);
    perform flowfabric._ff_check_length(
        v_suspension.continuation_metadata_pointer, 1, 4096, 'continuation_metadata_pointer', p_fn);
    return v_suspension;
end;
$$;
comment on function flowfabric._ff_read_suspension(
    jsonb, text, text, bigint, bigint, text, bigint, boolean, boolean, boolean, text, text, text) is
'Internal: a suspension as the worker describes it, with defaults; raises invalid_input.';

-- Practically unreachable behind the fence, which needs an active execution.
create or replace function flowfabric._ff_check_not_suspended(p_exec flowfabric.ff_exec_core, p_fn text)
returns void
language plpgsql stable
as $$
declare
    v_suspension_id uuid;
begin
    select u.suspension_id into v_suspension_id
    from flowfabric.ff_suspension_current as u
    where u.partition_key = p_exec.partition_key and u.execution_id = p_exec.execution_id and u.closed_at_ms is null;
    if found then
        perform flowfabric._ff_raise(
            'already_suspended', p_fn,
            jsonb_build_object(
                'execution_id', flowfabric._ff_wire_id(p_exec), 'suspension_id', v_suspension_id));
    end if;
end;
$$;
comment on function flowfabric._ff_check_not_suspended(flowfabric.ff_exec_core, text) is
'Internal: raises already_suspended if the execution has an open suspension.';

-- Check 7 of spec 20 section 7.1. An expired waitpoint counts as closed everywhere else; here the worker learns the
-- precise reason. A key that the caller gives must be the one that the waitpoint has.
create or replace function flowfabric._ff_pending_waitpoint(
    p_exec flowfabric.ff_exec_core,
    p_waitpoint_id uuid,
    p_waitpoint_key text,
    p_condition jsonb,
    p_now_ms bigint,
    p_fn text
)
returns flowfabric.ff_waitpoint_pending
language plpgsql stable
as $$
declare
    v_waitpoint flowfabric.ff_waitpoint_pending;
begin
    select w.* into v_waitpoint
    from flowfabric.ff_waitpoint_pending as w
    where w.partition_key = p_exec.partition_key and w.waitpoint_id = p_waitpoint_id;
    if not found then
        perform flowfabric._ff_raise(
            'waitpoint_not_found', p_fn, jsonb_build_object('waitpoint_id', p_waitpoint_id));
    end if;
    if v_waitpoint.state <> 'pending' then
        perform flowfabric._ff_raise(
            'waitpoint_not_pending', p_fn,
            jsonb_build_object('waitpoint_id', p_waitpoint_id, 'state', v_waitpoint.state));
    end if;
    if v_waitpoint.execution_id <> p_exec.execution_id
        or v_waitpoint.attempt_index <> p_exec.total_attempt_count - 1
    then
        perform flowfabric._ff_raise_foreign_waitpoint(p_exec, p_waitpoint_id, p_fn);
    end if;
    if v_waitpoint.expires_at_ms <= p_now_ms then
        perform flowfabric._ff_raise(
            'pending_waitpoint_expired', p_fn,
            jsonb_build_object('waitpoint_id', p_waitpoint_id, 'expires_at_ms', v_waitpoint.expires_at_ms));
    end if;
    if p_waitpoint_key <> v_waitpoint.waitpoint_key then
        perform flowfabric._ff_raise_invalid(p_fn, 'waitpoint_keys', 'waitpoint_key_mismatch', p_waitpoint_key);
    end if;
    perform flowfabric._ff_check_condition_keys(p_condition, array[v_waitpoint.waitpoint_key], p_fn);
    return v_waitpoint;
end;
$$;
comment on function flowfabric._ff_pending_waitpoint(flowfabric.ff_exec_core, uuid, text, jsonb, bigint, text) is
'Internal: the pending waitpoint that a suspension is to use, or raises why it cannot.';

create or replace function flowfabric._ff_suspended_waitpoints(
    p_partition_key smallint,
    p_suspension_id uuid,
    p_outcome text,
    p_replayed boolean,
    p_now_ms bigint,
    p_fn text
)
returns setof flowfabric.ff_suspended_waitpoint
language plpgsql stable
as $$
begin
    return query
    select
        p_outcome, w.suspension_id, w.ordinal, w.waitpoint_id, w.waitpoint_key,
        (flowfabric._ff_token_again(w, p_now_ms, p_fn)).waitpoint_token, p_replayed
    from flowfabric.ff_waitpoint_pending as w
    where w.partition_key = p_partition_key and w.suspension_id = p_suspension_id
    order by w.ordinal;
end;
$$;
comment on function flowfabric._ff_suspended_waitpoints(smallint, uuid, text, boolean, bigint, text) is
'Internal: the answer of a suspend, the first time and again: the waitpoints of a suspension with their tokens.';
