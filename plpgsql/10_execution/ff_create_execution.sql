-- ff_create_execution: create an execution, at most once per id and per idempotency key.
--
-- Fence:  none.
-- Locks:  the idempotency row, then the new execution row.
-- Writes: ff_exec_core; ff_exec_payload but for a small payload alone; ff_execution_idempotency with a key;
--         ff_lane_registry and ff_capability_set at the first use of a lane or of a set of capabilities.
-- Raises: invalid_input, payload_too_large, lane_not_accepting, invalid_policy_json, invalid_capabilities,
--         invalid_tag_key.
-- Retry:  safe with an id or an idempotency key: the repeat answers `duplicate`.
--
-- A duplicate is reported even if the repeated call carries a malformed policy or its lane no longer accepts work:
-- the caller asks whether its execution exists, and it does.
--
-- Fast path: a payload for a known lane, without id, key, policy, tags and delay. Only a namespace, a deadline or a
-- size can be refused there; each of them is looked at where it is given. A condition costs by what is written in it:
-- a function or an operator takes 1.7 thousand instructions per transaction, whether or not it is evaluated.
create or replace function flowfabric.ff_create_execution(
    p_execution_kind text,
    p_payload bytea default null,
    p_lane_id text default 'default',
    p_namespace text default 'default',
    p_execution_id text default null,
    p_payload_encoding text default null,
    p_priority integer default 0,
    p_policy jsonb default null,
    p_tags jsonb default '{}',
    p_delay_until_ms bigint default null,
    p_execution_deadline_at_ms bigint default null,
    p_idempotency_key text default null,
    p_dedup_ttl_ms bigint default null,
    p_creator_identity text default null
)
returns flowfabric.ff_execution_outcome
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    c_fn constant text := 'ff_create_execution';
    v_lane_id text := coalesce(p_lane_id, 'default');
    v_namespace text := coalesce(p_namespace, 'default');
    v_key flowfabric.ff_execution_key;
    v_known_key flowfabric.ff_execution_key;
    v_idempotency_key text;
    v_partitions integer;
    v_instance_tag_key text;
    v_lane_state text;
    v_partition_key smallint;
    v_policy jsonb;
    v_facts flowfabric.ff_policy_facts;
    v_tags jsonb;
    v_small_payload bytea;
    v_capability_set_id integer := 1;
    v_dedup_ttl_ms bigint;
    v_reserves boolean;
    v_may_be_awaited boolean;
    v_now_ms bigint;
    v_delayed boolean;
begin
    v_now_ms := flowfabric.ff_now_ms();
    select l.lane_state, l.home_partition, l.waiters_until_ms > v_now_ms
    into v_lane_state, v_partition_key, v_may_be_awaited
    from flowfabric.ff_lane_registry as l
    where l.lane_id = v_lane_id;
    if v_partition_key is not null and v_lane_state not in ('draining', 'disabled')
        and octet_length(p_execution_kind) between 1 and 256
        and num_nonnulls(p_execution_id, p_idempotency_key, p_policy, p_dedup_ttl_ms, p_delay_until_ms) = 0
        and (p_tags <> '{}'::jsonb) is not true
    then
        if v_namespace <> 'default' then
            if not flowfabric._ff_is_name(v_namespace) then
                perform flowfabric._ff_raise_invalid_name(v_namespace, 'namespace', c_fn);
            end if;
        end if;
        if p_execution_deadline_at_ms is not null then
            perform flowfabric._ff_check_instant(p_execution_deadline_at_ms, 'execution_deadline_at_ms', c_fn);
        end if;
        v_key.partition_key := v_partition_key;
        v_key.execution_id := gen_random_uuid();
        v_small_payload := flowfabric._ff_small_payload(p_payload, p_payload_encoding, null, null, p_creator_identity);
        insert into flowfabric.ff_exec_core (
            partition_key, execution_id, namespace, lane_id, execution_kind, priority, lifecycle_phase,
            ownership_state, eligibility_state, blocking_reason, attempt_state, deadline_at_ms, created_at_ms,
            last_transition_at_ms, last_mutation_at_ms, small_payload)
        values (
            v_key.partition_key, v_key.execution_id, v_namespace, v_lane_id, p_execution_kind,
            least(greatest(coalesce(p_priority, 0), 0), 9000), 'runnable', 'unowned', 'eligible_now',
            'waiting_for_worker', 'pending_first_attempt', p_execution_deadline_at_ms, v_now_ms, v_now_ms, v_now_ms,
            v_small_payload);
        if v_small_payload is null then
            if octet_length(p_payload) > 65536 or octet_length(p_payload_encoding) > 256
                or octet_length(p_creator_identity) > 256
            then
                perform flowfabric._ff_check_creation_limits(
                    p_payload, p_payload_encoding, p_creator_identity, null, null, null, c_fn);
            end if;
            insert into flowfabric.ff_exec_payload (
                partition_key, execution_id, payload, payload_encoding, tags, creator_identity)
            values (
                v_key.partition_key, v_key.execution_id, nullif(p_payload, ''::bytea), nullif(p_payload_encoding, ''),
                '{}', nullif(p_creator_identity, ''));
        end if;
        -- _ff_wake in one statement: somebody waits for what comes after this.
        if v_may_be_awaited then
            perform pg_notify('ff_eligible', v_lane_id)
            where exists (
                select from flowfabric.ff_waiter as w
                where w.channel = 'ff_eligible' and w.key = v_lane_id and w.until_ms > v_now_ms and w.at_once);
        end if;
        return row(
            'created', flowfabric.ff_format_execution_id(v_key.partition_key, v_key.execution_id), 'waiting'
        )::flowfabric.ff_execution_outcome;
    end if;

    select c.num_flow_partitions, c.instance_tag_key into v_partitions, v_instance_tag_key
    from flowfabric.ff_partition_config as c;
    v_idempotency_key := nullif(p_idempotency_key, '');
    v_policy := nullif(p_policy, '{}'::jsonb);
    v_tags := coalesce(p_tags, '{}'::jsonb);
    if not flowfabric._ff_is_name(v_namespace) then
        perform flowfabric._ff_raise_invalid_name(v_namespace, 'namespace', c_fn);
    end if;
    v_key := flowfabric._ff_check_creation(
        p_execution_kind, v_lane_id, v_idempotency_key, nullif(p_execution_id, ''), v_partitions, c_fn);
    if num_nonnulls(p_delay_until_ms, p_execution_deadline_at_ms, p_dedup_ttl_ms) > 0
        or octet_length(p_payload) > 65536 or octet_length(p_payload_encoding) > 256
        or octet_length(p_creator_identity) > 256
    then
        perform flowfabric._ff_check_creation_limits(
            p_payload, p_payload_encoding, p_creator_identity, p_delay_until_ms, p_execution_deadline_at_ms,
            p_dedup_ttl_ms, c_fn);
    end if;
    if v_idempotency_key is not null then
        select i.partition_key, i.execution_id into v_known_key
        from flowfabric.ff_execution_idempotency as i
        where i.namespace = v_namespace and i.idempotency_key = v_idempotency_key and i.expires_at_ms > v_now_ms;
        if found then
            return flowfabric._ff_duplicate(v_known_key);
        end if;
    end if;
    -- Nested: a condition with a query in it is run as one, whatever stands before it.
    if v_key.execution_id is not null then
        if exists (
            select from flowfabric.ff_exec_core as e
            where e.partition_key = v_key.partition_key and e.execution_id = v_key.execution_id)
        then
            return flowfabric._ff_duplicate(v_key);
        end if;
    end if;

    if v_lane_state in ('draining', 'disabled') then
        perform flowfabric._ff_raise(
            'lane_not_accepting', c_fn, jsonb_build_object('lane_id', v_lane_id, 'lane_state', v_lane_state));
    end if;
    if v_policy is not null then
        v_facts := flowfabric._ff_read_policy(v_policy, c_fn);
        v_capability_set_id := flowfabric._ff_intern_capabilities(v_facts.required_capabilities, v_now_ms);
    end if;
    if v_tags <> '{}'::jsonb then
        perform flowfabric._ff_check_tags_shape(v_tags, c_fn);
        perform flowfabric._ff_check_tag_keys(v_tags, c_fn);
    end if;

    if v_lane_state is null then
        perform flowfabric._ff_ensure_lane(v_lane_id, 'create_execution', v_now_ms);
    end if;
    if v_key.execution_id is null then
        v_key.partition_key := coalesce(v_partition_key, flowfabric.ff_solo_partition(v_lane_id));
        v_key.execution_id := gen_random_uuid();
    end if;
    v_dedup_ttl_ms := coalesce(p_dedup_ttl_ms, v_facts.dedup_window_ms, 86400000);
    v_reserves := v_idempotency_key is not null and v_dedup_ttl_ms > 0;
    if v_reserves then
        -- Of two calls with one key the second waits here for the first, and creates only if that rolls back.
        insert into flowfabric.ff_execution_idempotency as i (
            namespace, idempotency_key, partition_key, execution_id, created_at_ms, expires_at_ms)
        values (
            v_namespace, v_idempotency_key, v_key.partition_key, v_key.execution_id, v_now_ms,
            v_now_ms + v_dedup_ttl_ms)
        on conflict (namespace, idempotency_key) do update
        set partition_key = excluded.partition_key,
            execution_id = excluded.execution_id,
            created_at_ms = excluded.created_at_ms,
            expires_at_ms = excluded.expires_at_ms
        where i.expires_at_ms <= excluded.created_at_ms;
        if not found then
            select i.partition_key, i.execution_id into v_known_key
            from flowfabric.ff_execution_idempotency as i
            where i.namespace = v_namespace and i.idempotency_key = v_idempotency_key;
            return flowfabric._ff_duplicate(v_known_key);
        end if;
    end if;

    v_delayed := coalesce(p_delay_until_ms > v_now_ms, false);
    v_small_payload := flowfabric._ff_small_payload(
        p_payload, p_payload_encoding, v_policy, v_tags, p_creator_identity);
    insert into flowfabric.ff_exec_core (
        partition_key, execution_id, namespace, lane_id, execution_kind, priority, capability_set_id, budget_ids,
        quota_policy_id, attempt_timeout_ms, retention_ms, instance_tag, lifecycle_phase, ownership_state,
        eligibility_state, blocking_reason, blocking_detail, attempt_state, delay_until_ms, deadline_at_ms,
        created_at_ms, last_transition_at_ms, last_mutation_at_ms, small_payload)
    values (
        v_key.partition_key, v_key.execution_id, v_namespace, v_lane_id, p_execution_kind,
        least(greatest(coalesce(p_priority, 0), 0), 9000), v_capability_set_id, v_facts.budget_ids,
        v_facts.quota_policy_id, v_facts.attempt_timeout_ms, v_facts.retention_ms, v_tags ->> v_instance_tag_key,
        'runnable', 'unowned',
        case when v_delayed then 'not_eligible_until_time'::flowfabric.ff_eligibility_state else 'eligible_now' end,
        case when v_delayed then 'waiting_for_delay'::flowfabric.ff_blocking_reason else 'waiting_for_worker' end,
        case when v_delayed then 'until=' || p_delay_until_ms::text end,
        'pending_first_attempt', case when v_delayed then p_delay_until_ms end, p_execution_deadline_at_ms,
        v_now_ms, v_now_ms, v_now_ms, v_small_payload)
    on conflict do nothing;
    if not found then
        -- Another call with this id got in first; the key must not point at an execution that it did not make. A
        -- key that this call did not reserve is somebody else's.
        if v_reserves then
            delete from flowfabric.ff_execution_idempotency as i
            where i.namespace = v_namespace and i.idempotency_key = v_idempotency_key;
        end if;
        return flowfabric._ff_duplicate(v_key);
    end if;
    if v_small_payload is null then
        insert into flowfabric.ff_exec_payload (
            partition_key, execution_id, payload, payload_encoding, policy, tags, creator_identity)
        values (
            v_key.partition_key, v_key.execution_id, nullif(p_payload, ''::bytea), nullif(p_payload_encoding, ''),
            v_policy, v_tags, nullif(p_creator_identity, ''));
    end if;
    if not v_delayed then
        perform flowfabric._ff_wake('ff_eligible', v_lane_id);
    end if;
    return row(
        'created', flowfabric.ff_format_execution_id(v_key.partition_key, v_key.execution_id),
        case when v_delayed then 'delayed'::flowfabric.ff_public_state else 'waiting' end
    )::flowfabric.ff_execution_outcome;
end;
$$;

comment on function flowfabric.ff_create_execution(
    text, bytea, text, text, text, text, integer, jsonb, jsonb, bigint, bigint, text, bigint, text) is
'Creates an execution, at most once per id and per idempotency key; only its kind is required.';

grant execute on function flowfabric.ff_create_execution(
    text, bytea, text, text, text, text, integer, jsonb, jsonb, bigint, bigint, text, bigint, text)
to flowfabric_producer;

-- Where a payload stands. A small one that came alone rides along with the execution's row: a row of its own would take
-- more than the copies do (docs/performance.md). Everything else is stored beside it, so that no update carries it.
create or replace function flowfabric._ff_small_payload(
    p_payload bytea,
    p_payload_encoding text,
    p_policy jsonb,
    p_tags jsonb,
    p_creator_identity text
)
returns bytea
language sql immutable parallel safe
as $$
    select case
        when length(p_payload) > 128 or p_payload_encoding <> '' or p_policy is not null or p_tags <> '{}'::jsonb
            or p_creator_identity <> '' then null
        else coalesce(p_payload, ''::bytea)
    end
$$;
comment on function flowfabric._ff_small_payload(bytea, text, jsonb, jsonb, text) is
'Internal: the payload for the execution''s own row, empty for none; NULL if it belongs into ff_exec_payload.';

create or replace function flowfabric._ff_payload(p_small_payload bytea, p_stored_payload bytea)
returns bytea
language sql immutable parallel safe
as $$
    select coalesce(nullif(p_small_payload, ''::bytea), p_stored_payload)
$$;
comment on function flowfabric._ff_payload(bytea, bytea) is
'Internal: the payload of an execution, from the two places where it may stand; NULL for none.';

-- Check 1 of spec 10 section 4.1, for one creation and for each of a batch.
create or replace function flowfabric._ff_check_creation(
    p_execution_kind text,
    p_lane_id text,
    p_idempotency_key text,
    p_execution_id text,
    p_partitions integer,
    p_fn text
)
returns flowfabric.ff_execution_key
language plpgsql stable
as $$
declare
    v_key flowfabric.ff_execution_key;
begin
    if not flowfabric._ff_is_lane_id(p_lane_id) then
        perform flowfabric._ff_raise_invalid_lane(p_lane_id, p_fn);
    end if;
    if (octet_length(p_execution_kind) between 1 and 256) is not true then
        perform flowfabric._ff_raise_invalid(
            p_fn, 'execution_kind',
            case when p_execution_kind is null then 'null' when p_execution_kind = '' then 'empty' else 'too_long' end,
            p_execution_kind);
    end if;
    if octet_length(p_idempotency_key) > 512 then
        perform flowfabric._ff_raise_invalid(p_fn, 'idempotency_key', 'too_long', p_idempotency_key);
    end if;
    if p_execution_id is not null then
        v_key := flowfabric._ff_parse_execution_id(p_execution_id, p_fn);
        if v_key.partition_key >= p_partitions then
            perform flowfabric._ff_raise_invalid(p_fn, 'execution_id', 'bad_partition', p_execution_id);
        end if;
    end if;
    return v_key;
end;
$$;
comment on function flowfabric._ff_check_creation(text, text, text, text, integer, text) is
'Internal: raises invalid_input for a malformed creation; returns the key behind the given id, NULL for none.';

-- A key of a lifetime of 0 or less is looked up and not recorded.
create or replace function flowfabric._ff_check_creation_limits(
    p_payload bytea,
    p_payload_encoding text,
    p_creator_identity text,
    p_delay_until_ms bigint,
    p_deadline_at_ms bigint,
    p_dedup_ttl_ms bigint,
    p_fn text
)
returns boolean
language plpgsql stable
as $$
begin
    perform flowfabric._ff_check_payload_size(octet_length(p_payload), 'payload', p_fn);
    perform flowfabric._ff_check_label(p_payload_encoding, 'payload_encoding', p_fn);
    perform flowfabric._ff_check_label(p_creator_identity, 'creator_identity', p_fn);
    perform flowfabric._ff_check_instant(p_delay_until_ms, 'delay_until_ms', p_fn);
    perform flowfabric._ff_check_instant(p_deadline_at_ms, 'execution_deadline_at_ms', p_fn);
    perform flowfabric._ff_check_duration(greatest(p_dedup_ttl_ms, 0), 'dedup_ttl_ms', p_fn);
    return true;
end;
$$;
comment on function flowfabric._ff_check_creation_limits(bytea, text, text, bigint, bigint, bigint, text) is
'Internal: raises payload_too_large or invalid_input for a creation that is too large or ends too late; else true.';

create or replace function flowfabric._ff_duplicate(p_key flowfabric.ff_execution_key)
returns flowfabric.ff_execution_outcome
language plpgsql stable
as $$
declare
    v_state flowfabric.ff_public_state;
begin
    select flowfabric._ff_public_state(e.lifecycle_phase, e.terminal_outcome, e.eligibility_state)
    into v_state
    from flowfabric.ff_exec_core as e
    where e.partition_key = p_key.partition_key and e.execution_id = p_key.execution_id;
    return row(
        'duplicate', flowfabric.ff_format_execution_id(p_key.partition_key, p_key.execution_id), v_state
    )::flowfabric.ff_execution_outcome;
end;
$$;
comment on function flowfabric._ff_duplicate(flowfabric.ff_execution_key) is
'Internal: the answer for an execution that exists already; its state is NULL once retention has removed it.';
