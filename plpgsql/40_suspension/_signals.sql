-- Signals: what may be sent, and the one way in which a signal is accepted.

create or replace function flowfabric._ff_check_length(
    p_text text,
    p_min_bytes integer,
    p_max_bytes integer,
    p_field text,
    p_fn text
)
returns void
language plpgsql stable
as $$
begin
    if octet_length(p_text) not between p_min_bytes and p_max_bytes then
        perform flowfabric._ff_raise_invalid(p_fn, p_field, 'length', p_text);
    end if;
end;
$$;
comment on function flowfabric._ff_check_length(text, integer, integer, text, text) is
'Internal: raises invalid_input for a text, if there is one, that is shorter or longer than allowed.';

create or replace function flowfabric._ff_check_signal_name(p_signal_name text, p_fn text)
returns void
language plpgsql stable
as $$
begin
    if p_signal_name is null then
        perform flowfabric._ff_raise_invalid(p_fn, 'signal_name', 'null');
    end if;
    perform flowfabric._ff_check_length(p_signal_name, 1, 256, 'signal_name', p_fn);
    if starts_with(p_signal_name, '__') then
        perform flowfabric._ff_raise_invalid(p_fn, 'signal_name', 'reserved_signal_name', p_signal_name);
    end if;
end;
$$;
comment on function flowfabric._ff_check_signal_name(text, text) is
'Internal: raises invalid_input unless a text can name a signal; two leading underscores are the engine''s.';

create or replace function flowfabric._ff_check_dedup_ttl(p_dedup_ttl_ms bigint, p_fn text)
returns void
language plpgsql stable
as $$
begin
    if p_dedup_ttl_ms not between 0 and 2592000000 then
        perform flowfabric._ff_raise_invalid(p_fn, 'dedup_ttl_ms', 'out_of_range', p_dedup_ttl_ms::text);
    end if;
end;
$$;
comment on function flowfabric._ff_check_dedup_ttl(bigint, text) is
'Internal: raises invalid_input unless a deduplication window is within 0 and 30 days.';

-- NULL means the default everywhere. The sender's own time stays NULL when it gave none: now is not known before the
-- locks are held.
create or replace function flowfabric._ff_read_signal(
    p_waitpoint_id uuid,
    p_signal_name text,
    p_signal_id uuid,
    p_signal_category text,
    p_source_type text,
    p_source_identity text,
    p_payload bytea,
    p_payload_encoding text,
    p_idempotency_key text,
    p_correlation_id text,
    p_target_scope text,
    p_created_at_ms bigint,
    p_fn text
)
returns flowfabric.ff_signal
language plpgsql stable
as $$
declare
    c_max_payload_bytes constant integer := 65536;
    v_signal flowfabric.ff_signal;
begin
    if p_waitpoint_id is null then
        perform flowfabric._ff_raise_invalid(p_fn, 'waitpoint_id', 'null');
    end if;
    v_signal.waitpoint_id := p_waitpoint_id;
    v_signal.signal_id := p_signal_id;
    v_signal.signal_name := p_signal_name;
    v_signal.signal_category := coalesce(p_signal_category, 'external');
    v_signal.source_type := coalesce(p_source_type, 'external');
    v_signal.source_identity := coalesce(p_source_identity, '');
    v_signal.payload := nullif(p_payload, ''::bytea);
    v_signal.payload_encoding := coalesce(p_payload_encoding, 'json');
    v_signal.idempotency_key := nullif(p_idempotency_key, '');
    v_signal.correlation_id := nullif(p_correlation_id, '');
    v_signal.target_scope := coalesce(p_target_scope, 'waitpoint');
    v_signal.created_at_ms := p_created_at_ms;

    perform flowfabric._ff_check_signal_name(v_signal.signal_name, p_fn);
    perform flowfabric._ff_check_length(v_signal.signal_category, 1, 64, 'signal_category', p_fn);
    perform flowfabric._ff_check_length(v_signal.source_type, 1, 64, 'source_type', p_fn);
    perform flowfabric._ff_check_length(v_signal.source_identity, 0, 256, 'source_identity', p_fn);
    perform flowfabric._ff_check_length(v_signal.payload_encoding, 1, 32, 'payload_encoding', p_fn);
    perform flowfabric._ff_check_length(v_signal.idempotency_key, 1, 512, 'idempotency_key', p_fn);
    perform flowfabric._ff_check_length(v_signal.correlation_id, 0, 256, 'correlation_id', p_fn);
    if v_signal.target_scope <> all (flowfabric._ff_legal_values('target_scope')) then
        perform flowfabric._ff_raise_unknown(
            p_fn, 'target_scope', p_target_scope, flowfabric._ff_legal_values('target_scope'));
    end if;
    perform flowfabric._ff_check_instant(p_created_at_ms, 'created_at_ms', p_fn);
    if length(v_signal.payload) > c_max_payload_bytes then
        perform flowfabric._ff_raise(
            'payload_too_large', p_fn,
            jsonb_build_object('limit_bytes', c_max_payload_bytes, 'actual_bytes', length(v_signal.payload)));
    end if;
    return v_signal;
end;
$$;
comment on function flowfabric._ff_read_signal(
    uuid, text, uuid, text, text, text, bytea, text, text, text, text, bigint, text) is
'Internal: a signal as its sender describes it, with defaults; raises invalid_input or payload_too_large.';

-- Checks 2 to 4 of spec 20 section 7.3: everything that is asked before anything is locked.
create or replace function flowfabric._ff_authenticate_signal(
    p_key flowfabric.ff_execution_key,
    p_waitpoint_id uuid,
    p_token text,
    p_fn text
)
returns void
language plpgsql volatile
as $$
begin
    if not exists (
        select from flowfabric.ff_exec_core as e
        where e.partition_key = p_key.partition_key and e.execution_id = p_key.execution_id)
    then
        perform flowfabric._ff_raise_not_found(p_key, p_fn);
    end if;
    perform flowfabric._ff_verify_waitpoint_token(p_key, p_waitpoint_id, p_token, p_fn);
end;
$$;
comment on function flowfabric._ff_authenticate_signal(flowfabric.ff_execution_key, uuid, text, text) is
'Internal: raises unless the execution exists and the token is good for the waitpoint.';

create or replace function flowfabric._ff_raise_waitpoint_closed(
    p_waitpoint flowfabric.ff_waitpoint_pending,
    p_fn text
)
returns void
language plpgsql stable
as $$
begin
    perform flowfabric._ff_raise(
        'waitpoint_closed', p_fn,
        jsonb_build_object('waitpoint_id', p_waitpoint.waitpoint_id, 'close_reason', p_waitpoint.close_reason));
end;
$$;
comment on function flowfabric._ff_raise_waitpoint_closed(flowfabric.ff_waitpoint_pending, text) is
'Internal: raises waitpoint_closed.';

-- Checks 7 to 11 of spec 20 section 7.3, or their counterparts of section 7.4 for a signal that is to be buffered.
create or replace function flowfabric._ff_check_signalable(
    p_exec flowfabric.ff_exec_core,
    p_waitpoint flowfabric.ff_waitpoint_pending,
    p_suspension flowfabric.ff_suspension_current,
    p_buffers boolean,
    p_now_ms bigint,
    p_fn text
)
returns void
language plpgsql stable
as $$
declare
    v_is_closed boolean := not flowfabric._ff_is_open_waitpoint(p_waitpoint, p_now_ms);
begin
    if p_exec.lifecycle_phase = 'terminal'
        or (not p_buffers and p_waitpoint.state <> 'pending' and p_exec.lifecycle_phase <> 'suspended')
    then
        perform flowfabric._ff_raise(
            'target_not_signalable', p_fn,
            jsonb_build_object(
                'execution_id', flowfabric._ff_wire_id(p_exec), 'lifecycle_phase', p_exec.lifecycle_phase));
    end if;
    if v_is_closed then
        perform flowfabric._ff_raise_waitpoint_closed(p_waitpoint, p_fn);
    end if;
    if p_buffers and p_waitpoint.state = 'active' then
        perform flowfabric._ff_raise(
            'waitpoint_not_pending', p_fn,
            jsonb_build_object('waitpoint_id', p_waitpoint.waitpoint_id, 'state', p_waitpoint.state));
    end if;
    if not p_buffers and p_waitpoint.state = 'pending' then
        perform flowfabric._ff_raise(
            'waitpoint_pending_use_buffer_script', p_fn,
            jsonb_build_object('waitpoint_id', p_waitpoint.waitpoint_id));
    end if;
    -- The next two cannot arise: a suspension closes with all its waitpoints. An old token must never reach a new
    -- suspension, so they are asked all the same.
    if not p_buffers and p_suspension.suspension_id is null then
        perform flowfabric._ff_raise(
            'waitpoint_not_found', p_fn, jsonb_build_object('waitpoint_id', p_waitpoint.waitpoint_id));
    end if;
    if not p_buffers and p_waitpoint.suspension_id <> p_suspension.suspension_id then
        perform flowfabric._ff_raise_waitpoint_closed(p_waitpoint, p_fn);
    end if;
end;
$$;
comment on function flowfabric._ff_check_signalable(
    flowfabric.ff_exec_core, flowfabric.ff_waitpoint_pending, flowfabric.ff_suspension_current, boolean, bigint,
    text) is
'Internal: raises unless a waitpoint can take a signal now: an open suspension''s, or a pending one if p_buffers.';

create or replace function flowfabric._ff_signal_limit(p_exec flowfabric.ff_exec_core)
returns bigint
language plpgsql stable
as $$
declare
    v_limit bigint;
begin
    select floor((p.policy -> 'max_signals_per_execution')::numeric)::bigint into v_limit
    from flowfabric.ff_exec_payload as p
    where p.partition_key = p_exec.partition_key and p.execution_id = p_exec.execution_id;
    return coalesce(v_limit, flowfabric._ff_setting_value('max_signals_per_execution'));
end;
$$;
comment on function flowfabric._ff_signal_limit(flowfabric.ff_exec_core) is
'Internal: how many signals an execution takes in its life: by its policy, else by the setting; 0 for any number.';

-- The signal that a repeated delivery repeats, by its key or by its id. A window of 0 means that the key is not asked.
create or replace function flowfabric._ff_known_signal(
    p_key flowfabric.ff_execution_key,
    p_signal flowfabric.ff_signal,
    p_dedup_ttl_ms bigint,
    p_now_ms bigint
)
returns uuid
language plpgsql stable
as $$
declare
    v_signal_id uuid;
begin
    if p_signal.idempotency_key is not null and p_dedup_ttl_ms > 0 then
        select d.signal_id into v_signal_id
        from flowfabric.ff_signal_dedup as d
        where d.partition_key = p_key.partition_key and d.waitpoint_id = p_signal.waitpoint_id
            and d.idempotency_key = p_signal.idempotency_key and d.expires_at_ms > p_now_ms;
    end if;
    if v_signal_id is null and p_signal.signal_id is not null then
        select s.signal_id into v_signal_id
        from flowfabric.ff_signal as s
        where s.partition_key = p_key.partition_key and s.execution_id = p_key.execution_id
            and s.signal_id = p_signal.signal_id;
    end if;
    return v_signal_id;
end;
$$;
comment on function flowfabric._ff_known_signal(flowfabric.ff_execution_key, flowfabric.ff_signal, bigint, bigint) is
'Internal: the id of the accepted signal that a delivery repeats, NULL for a new one.';

-- Checks 5 to 12 of spec 20 section 7.3 and everything after them, for a sender that has been let in: by a token, or
-- as an operator (p_is_operator), who is told when the waitpoint is gone. A repeat is recognised before the state is
-- looked at: a sender whose first delivery resumed the execution, and whose answer was lost, must learn that it was
-- accepted. The execution's lock covers its suspension and its waitpoints, which are therefore read without one.
create or replace function flowfabric._ff_accept_signal(
    p_key flowfabric.ff_execution_key,
    p_signal flowfabric.ff_signal,
    p_dedup_ttl_ms bigint,
    p_buffers boolean,
    p_is_operator boolean,
    p_fn text
)
returns flowfabric.ff_signal_delivery
language plpgsql volatile
as $$
declare
    v_exec flowfabric.ff_exec_core;
    v_waitpoint flowfabric.ff_waitpoint_pending;
    v_suspension flowfabric.ff_suspension_current;
    v_signal flowfabric.ff_signal := p_signal;
    v_known_id uuid;
    v_limit bigint;
    v_seq bigint;
    v_now_ms bigint;
    v_is_satisfied boolean;
begin
    select e.* into v_exec
    from flowfabric.ff_exec_core as e
    where e.partition_key = p_key.partition_key and e.execution_id = p_key.execution_id
    for no key update;
    select w.* into v_waitpoint
    from flowfabric.ff_waitpoint_pending as w
    where w.partition_key = v_exec.partition_key and w.waitpoint_id = v_signal.waitpoint_id
        and w.execution_id = v_exec.execution_id;
    if not found then
        if p_is_operator then
            perform flowfabric._ff_raise(
                'waitpoint_not_found', p_fn, jsonb_build_object('waitpoint_id', v_signal.waitpoint_id));
        end if;
        perform flowfabric._ff_raise('invalid_token', p_fn);
    end if;
    select u.* into v_suspension
    from flowfabric.ff_suspension_current as u
    where u.partition_key = v_exec.partition_key and u.execution_id = v_exec.execution_id and u.closed_at_ms is null;
    v_now_ms := flowfabric.ff_now_ms();

    v_known_id := flowfabric._ff_known_signal(p_key, v_signal, p_dedup_ttl_ms, v_now_ms);
    if v_known_id is not null then
        return row('duplicate', v_known_id, null)::flowfabric.ff_signal_delivery;
    end if;
    perform flowfabric._ff_check_signalable(v_exec, v_waitpoint, v_suspension, p_buffers, v_now_ms, p_fn);
    select coalesce(max(s.seq), 0) into v_seq
    from flowfabric.ff_signal as s
    where s.partition_key = v_exec.partition_key and s.execution_id = v_exec.execution_id;
    v_limit := flowfabric._ff_signal_limit(v_exec);
    if v_limit > 0 and v_seq >= v_limit then
        perform flowfabric._ff_raise(
            'signal_limit_exceeded', p_fn,
            jsonb_build_object('execution_id', flowfabric._ff_wire_id(v_exec), 'limit', v_limit, 'current', v_seq));
    end if;

    v_signal.partition_key := v_exec.partition_key;
    v_signal.execution_id := v_exec.execution_id;
    v_signal.signal_id := coalesce(v_signal.signal_id, gen_random_uuid());
    v_signal.seq := v_seq + 1;
    v_signal.created_at_ms := coalesce(v_signal.created_at_ms, v_now_ms);
    v_signal.accepted_at_ms := v_now_ms;
    v_signal.observed_effect := case
        when p_buffers then 'buffered_for_pending_waitpoint'
        else flowfabric._ff_apply_signal(v_suspension, v_waitpoint.waitpoint_key, v_signal)
    end;
    v_is_satisfied := v_signal.observed_effect = 'resume_condition_satisfied';
    v_signal.is_satisfier := v_is_satisfied or v_signal.observed_effect = 'appended_to_waitpoint';
    -- The lock keeps numbers apart; a transaction too old to see the last one gets serialization_failure by the clause.
    insert into flowfabric.ff_signal values (v_signal.*) on conflict (partition_key, execution_id, seq) do nothing;
    if v_signal.idempotency_key is not null and p_dedup_ttl_ms > 0 then
        insert into flowfabric.ff_signal_dedup (
            partition_key, waitpoint_id, idempotency_key, signal_id, expires_at_ms)
        values (
            v_signal.partition_key, v_signal.waitpoint_id, v_signal.idempotency_key, v_signal.signal_id,
            v_now_ms + p_dedup_ttl_ms)
        on conflict (partition_key, waitpoint_id, idempotency_key) do update
        set signal_id = excluded.signal_id, expires_at_ms = excluded.expires_at_ms;
    end if;
    update flowfabric.ff_waitpoint_pending as w
    set signal_count = w.signal_count + 1,
        matched_signal_count = w.matched_signal_count
            + flowfabric._ff_is_match(v_signal.observed_effect)::integer,
        last_signal_at_ms = v_now_ms
    where w.partition_key = v_waitpoint.partition_key and w.waitpoint_id = v_waitpoint.waitpoint_id;
    if not p_buffers then
        update flowfabric.ff_suspension_current as u
        set last_signal_at_ms = v_now_ms
        where u.partition_key = v_suspension.partition_key and u.execution_id = v_suspension.execution_id;
    end if;
    perform flowfabric._ff_emit_signal(v_exec, v_signal, v_now_ms);
    if v_is_satisfied then
        perform flowfabric._ff_close_suspension(v_exec, 'resumed', 'signal', true, v_signal.signal_id, v_now_ms);
        perform flowfabric._ff_resume(
            v_exec, v_suspension.resume_delay_ms,
            'resume delay ' || v_suspension.resume_delay_ms::text || 'ms after signal ' || v_signal.signal_name,
            v_now_ms);
    end if;
    return row('accepted', v_signal.signal_id, v_signal.observed_effect)::flowfabric.ff_signal_delivery;
end;
$$;
comment on function flowfabric._ff_accept_signal(
    flowfabric.ff_execution_key, flowfabric.ff_signal, bigint, boolean, boolean, text) is
'Internal: accepts a signal of an authenticated sender, counts it, and resumes the execution if that was the last.';
