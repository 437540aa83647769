-- How an attempt or an execution ends: the moves behind fail, cancel and expire, which flow cancellation, sibling
-- cancellation, batches and scanners share. The caller holds the flow lock of a member and the execution's row.

-- p_retry_count is the number of retries before this one. Rounding to nine decimals bounds what a policy with thousands
-- of digits can cost; comparing logarithms first keeps the power from overflowing.
--
-- p_random, from 0 to 1, is how much of the jitter is taken off the delay. So no delay is longer than without jitter,
-- max_delay_ms holds, and a jitter of 1 spreads retries over the whole delay. An argument, so that tests can give it.
create or replace function flowfabric._ff_retry_delay_ms(
    p_retry_policy jsonb,
    p_retry_count integer,
    p_random double precision default 0
)
returns bigint
language plpgsql immutable parallel safe
as $$
declare
    v_backoff jsonb := p_retry_policy -> 'backoff';
    v_initial_ms numeric;
    v_max_ms numeric;
    v_multiplier numeric;
    v_delay_ms numeric := 1000.0;
begin
    if v_backoff ->> 'type' = 'fixed' then
        v_delay_ms := coalesce((v_backoff ->> 'delay_ms')::numeric, v_delay_ms);
    elsif v_backoff ->> 'type' = 'exponential' then
        v_initial_ms := round(coalesce((v_backoff ->> 'initial_delay_ms')::numeric, 1000), 9);
        v_max_ms := round(coalesce((v_backoff ->> 'max_delay_ms')::numeric, 60000), 9);
        v_multiplier := round(coalesce((v_backoff ->> 'multiplier')::numeric, 2), 9);
        v_delay_ms := case
            when p_retry_count = 0 or v_initial_ms = 0 then least(v_initial_ms, v_max_ms)
            when v_multiplier > 1 and v_initial_ms >= v_max_ms then v_max_ms
            when v_multiplier > 1 and p_retry_count * ln(v_multiplier) > ln(v_max_ms / v_initial_ms) then v_max_ms
            else least(v_initial_ms * power(v_multiplier, p_retry_count), v_max_ms)
        end;
    end if;
    if jsonb_typeof(v_backoff -> 'jitter') = 'number' then
        v_delay_ms := v_delay_ms * (1 - round((v_backoff ->> 'jitter')::numeric, 9) * p_random::numeric);
    end if;
    return floor(v_delay_ms)::bigint;
end;
$$;
comment on function flowfabric._ff_retry_delay_ms(jsonb, integer, double precision) is
'Internal: how long the next retry waits, by the back-off of a retry policy.';

create or replace function flowfabric._ff_is_retryable(
    p_retry_policy jsonb,
    p_retry_count integer,
    p_failure_category text
)
returns boolean
language plpgsql immutable parallel safe
as $$
declare
    v_categories jsonb := coalesce(p_retry_policy -> 'retryable_categories', '[]');
begin
    return p_retry_count < coalesce(floor((p_retry_policy ->> 'max_retries')::numeric), 0)
        and p_failure_category is distinct from 'permanent'
        and (v_categories = '[]' or coalesce(v_categories ? p_failure_category, false));
end;
$$;
comment on function flowfabric._ff_is_retryable(jsonb, integer, text) is
'Internal: whether a retry policy allows one more attempt after a failure of this category.';

-- p_retry_policy NULL means the one that the execution was created with.
create or replace function flowfabric._ff_fail_attempt(
    p_exec flowfabric.ff_exec_core,
    p_failure_reason text,
    p_failure_category text,
    p_retry_policy jsonb,
    p_now_ms bigint
)
returns flowfabric.ff_failure
language plpgsql volatile
set enable_seqscan = off
set jit = off
as $$
declare
    v_retry_policy jsonb := p_retry_policy;
    v_delay_until_ms bigint;
begin
    if v_retry_policy is null then
        select p.policy -> 'retry_policy' into v_retry_policy
        from flowfabric.ff_exec_payload as p
        where p.partition_key = p_exec.partition_key and p.execution_id = p_exec.execution_id;
    end if;
    perform flowfabric._ff_end_attempt(
        p_exec, 'ended_failure', p_failure_reason, p_failure_category, 'attempt_failure', p_now_ms);
    if not flowfabric._ff_is_retryable(v_retry_policy, p_exec.retry_count, p_failure_category) then
        perform flowfabric._ff_note_failure(p_exec, p_failure_reason);
        perform flowfabric._ff_become_terminal(p_exec, 'failed', 'failed_terminal', p_now_ms);
        return row('terminal_failed', flowfabric._ff_wire_id(p_exec), 'failed', null, null)::flowfabric.ff_failure;
    end if;

    v_delay_until_ms := p_now_ms + flowfabric._ff_retry_delay_ms(v_retry_policy, p_exec.retry_count, random());
    perform flowfabric._ff_note_retry(p_exec, p_failure_reason);
    perform flowfabric._ff_become_delayed(
        p_exec, v_delay_until_ms, 'waiting_for_retry_backoff',
        -- The attempt has the whole reason; here a long one would widen the row that every operation rewrites.
        'until=' || v_delay_until_ms::text || ' attempt=' || (p_exec.total_attempt_count - 1)::text
        || coalesce(' reason=' || left(p_failure_reason, 200), ''),
        'pending_retry_attempt', 'failed_retry_scheduled', p_now_ms);
    return row(
        'retry_scheduled', flowfabric._ff_wire_id(p_exec), 'delayed', v_delay_until_ms, p_exec.total_attempt_count
    )::flowfabric.ff_failure;
end;
$$;
comment on function flowfabric._ff_fail_attempt(flowfabric.ff_exec_core, text, text, jsonb, bigint) is
'Internal: ends the running attempt as failed, then schedules a retry or ends the execution.';

create or replace function flowfabric._ff_cancel(
    p_exec flowfabric.ff_exec_core,
    p_reason text,
    p_source text,
    p_now_ms bigint
)
returns void
language plpgsql volatile
as $$
begin
    perform flowfabric._ff_end_attempt(
        p_exec, 'ended_cancelled', 'cancelled: ' || p_reason, null, 'attempt_cancelled', p_now_ms);
    if p_exec.lifecycle_phase = 'suspended' then
        perform flowfabric._ff_close_suspension(p_exec, 'cancelled', null, false, null, p_now_ms);
    end if;
    perform flowfabric._ff_note_cancellation(p_exec, nullif(p_reason, ''), p_source);
    perform flowfabric._ff_become_terminal(p_exec, 'cancelled', 'cancelled', p_now_ms);
end;
$$;
comment on function flowfabric._ff_cancel(flowfabric.ff_exec_core, text, text, bigint) is
'Internal: cancels an execution in any phase but terminal, with whatever it has open.';

create or replace function flowfabric._ff_expire(
    p_exec flowfabric.ff_exec_core,
    p_reason text,
    p_now_ms bigint
)
returns void
language plpgsql volatile
as $$
begin
    perform flowfabric._ff_end_attempt(p_exec, 'ended_failure', p_reason, null, 'expired', p_now_ms);
    if p_exec.lifecycle_phase = 'suspended' then
        perform flowfabric._ff_close_suspension(p_exec, 'expired:' || p_reason, null, false, null, p_now_ms);
    end if;
    perform flowfabric._ff_note_failure(p_exec, p_reason);
    perform flowfabric._ff_become_terminal(p_exec, 'expired', 'expired:' || p_reason, p_now_ms);
end;
$$;
comment on function flowfabric._ff_expire(flowfabric.ff_exec_core, text, bigint) is
'Internal: ends an execution in any phase but terminal because a time limit passed.';

create or replace function flowfabric._ff_is_due(
    p_exec flowfabric.ff_exec_core,
    p_reason text,
    p_now_ms bigint
)
returns boolean
language sql immutable parallel safe
as $$
    select coalesce(
        case p_reason
            when 'attempt_timeout' then p_exec.lifecycle_phase = 'active' and p_exec.attempt_timeout_at_ms <= p_now_ms
            when 'execution_deadline' then p_exec.deadline_at_ms <= p_now_ms
        end, false)
$$;
comment on function flowfabric._ff_is_due(flowfabric.ff_exec_core, text, bigint) is
'Internal: whether the time limit that an expiry names has passed; no other reason has a time.';

create or replace function flowfabric._ff_store_result(
    p_key flowfabric.ff_execution_key,
    p_result bytea,
    p_result_encoding text,
    p_fn text
)
returns void
language plpgsql volatile
set enable_seqscan = off
set jit = off
as $$
begin
    if octet_length(p_result) > 65536 or octet_length(p_result_encoding) > 256 then
        perform flowfabric._ff_check_payload_size(octet_length(p_result), 'result', p_fn);
        perform flowfabric._ff_check_label(p_result_encoding, 'result_encoding', p_fn);
    end if;
    insert into flowfabric.ff_exec_payload as p (partition_key, execution_id, result, result_encoding)
    values (p_key.partition_key, p_key.execution_id, p_result, nullif(p_result_encoding, ''))
    on conflict (partition_key, execution_id) do update
    set result = excluded.result, result_encoding = excluded.result_encoding;
end;
$$;
comment on function flowfabric._ff_store_result(flowfabric.ff_execution_key, bytea, text, text) is
'Internal: stores the bytes of a successful completion; raises payload_too_large or invalid_input for their size.';
