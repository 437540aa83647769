-- ff_create_executions: create up to 1000 executions in one call, each exactly as ff_create_execution would.
--
-- Fence:  none.
-- Locks:  the idempotency rows ascending by (namespace, key), then the new execution rows ascending by (partition_key,
--         execution_id); in a plain batch, whose ids are nobody else's, in any order.
-- Writes: ff_exec_core; ff_exec_payload but for small payloads alone; ff_execution_idempotency for items with a key;
--         ff_lane_registry and ff_capability_set at the first use of a lane or of a set of capabilities.
-- Raises: invalid_input, for the call as a whole. An item's refusal is its row: invalid_input, payload_too_large,
--         lane_not_accepting, invalid_policy_json, invalid_capabilities, invalid_tag_key.
-- Retry:  safe for items with an id or an idempotency key: the repeat answers `duplicate`. Others are created again.
--
-- Items behave as if they had been created one after another. In a batch without repeats that needs no order: an item
-- that loses its key or id to another session at the last moment is a duplicate, and nobody else's business. Where an
-- item repeats a key or an id of the batch, the loss changes what becomes of the other one, which would then have to
-- lock out of order. So such a batch is undone to the savepoint of its block and decided again, with the winner in
-- sight. (A block costs a subtransaction; a loader with hundreds of ordinary batches in one transaction has none.)
create or replace function flowfabric.ff_create_executions(
    p_execution_kinds text[],
    p_payloads bytea[] default null,
    p_lane_ids text[] default null,
    p_namespace text default 'default',
    p_execution_ids text[] default null,
    p_payload_encodings text[] default null,
    p_priorities integer[] default null,
    p_policies jsonb[] default null,
    p_tags jsonb[] default null,
    p_delay_until_ms bigint[] default null,
    p_execution_deadlines_at_ms bigint[] default null,
    p_idempotency_keys text[] default null,
    p_dedup_ttl_ms bigint default null,
    p_creator_identity text default null
)
returns setof flowfabric.ff_execution_item
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
    c_fn constant text := 'ff_create_executions';
    v_namespace text := coalesce(p_namespace, 'default');
    v_count integer := cardinality(p_execution_kinds);
    v_lane_ids text[];
    v_execution_ids text[] := array_replace(p_execution_ids, '', null);
    v_idempotency_keys text[] := array_replace(p_idempotency_keys, '', null);
    v_has_repeats boolean;
begin
    if (v_count <= 1000
        and coalesce(cardinality(p_payloads), v_count) = v_count
        and coalesce(cardinality(p_lane_ids), v_count) = v_count
        and coalesce(cardinality(p_execution_ids), v_count) = v_count
        and coalesce(cardinality(p_payload_encodings), v_count) = v_count
        and coalesce(cardinality(p_priorities), v_count) = v_count
        and coalesce(cardinality(p_policies), v_count) = v_count
        and coalesce(cardinality(p_tags), v_count) = v_count
        and coalesce(cardinality(p_delay_until_ms), v_count) = v_count
        and coalesce(cardinality(p_execution_deadlines_at_ms), v_count) = v_count
        and coalesce(cardinality(p_idempotency_keys), v_count) = v_count
        and coalesce(greatest(
            array_ndims(p_execution_kinds), array_ndims(p_payloads), array_ndims(p_lane_ids),
            array_ndims(p_execution_ids), array_ndims(p_payload_encodings), array_ndims(p_priorities),
            array_ndims(p_policies), array_ndims(p_tags), array_ndims(p_delay_until_ms),
            array_ndims(p_execution_deadlines_at_ms), array_ndims(p_idempotency_keys)), 1) = 1) is not true
    then
        perform flowfabric._ff_raise_invalid_batch(
            array[
                'execution_kinds', 'payloads', 'lane_ids', 'execution_ids', 'payload_encodings', 'priorities',
                'policies', 'tags', 'delay_until_ms', 'execution_deadlines_at_ms', 'idempotency_keys'],
            array[
                v_count, cardinality(p_payloads), cardinality(p_lane_ids), cardinality(p_execution_ids),
                cardinality(p_payload_encodings), cardinality(p_priorities), cardinality(p_policies),
                cardinality(p_tags), cardinality(p_delay_until_ms), cardinality(p_execution_deadlines_at_ms),
                cardinality(p_idempotency_keys)],
            array[
                array_dims(p_execution_kinds), array_dims(p_payloads), array_dims(p_lane_ids),
                array_dims(p_execution_ids), array_dims(p_payload_encodings), array_dims(p_priorities),
                array_dims(p_policies), array_dims(p_tags), array_dims(p_delay_until_ms),
                array_dims(p_execution_deadlines_at_ms), array_dims(p_idempotency_keys)],
            1, c_fn);
    end if;
    if not flowfabric._ff_is_name(v_namespace) then
        perform flowfabric._ff_raise_invalid_name(v_namespace, 'namespace', c_fn);
    end if;
    if num_nonnulls(p_creator_identity, p_dedup_ttl_ms) > 0 then
        perform flowfabric._ff_check_creation_limits(null, null, p_creator_identity, null, null, p_dedup_ttl_ms, c_fn);
    end if;
    if v_count = 0 then
        return;
    end if;

    v_lane_ids := coalesce(array_replace(p_lane_ids, null, 'default'), array_fill('default'::text, array[v_count]));
    if num_nonnulls(p_execution_ids, p_policies, p_tags, p_delay_until_ms, p_idempotency_keys) = 0 then
        return query
        select b.*
        from flowfabric._ff_create_plain_batch(
            p_execution_kinds, p_payloads, v_lane_ids, v_namespace, p_payload_encodings, p_priorities,
            p_execution_deadlines_at_ms, p_creator_identity) as b;
        if found then
            return;
        end if;
    end if;
    v_has_repeats :=
        (select count(k.given) > count(distinct k.given) from unnest(v_idempotency_keys) as k (given))
        or (select count(k.given) > count(distinct lower(k.given)) from unnest(v_execution_ids) as k (given));
    if not v_has_repeats then
        return query
        select b.*
        from flowfabric._ff_create_batch(
            p_execution_kinds, p_payloads, v_lane_ids, v_namespace, v_execution_ids, p_payload_encodings,
            p_priorities, p_policies, p_tags, p_delay_until_ms, p_execution_deadlines_at_ms, v_idempotency_keys,
            p_dedup_ttl_ms, p_creator_identity, v_has_repeats, c_fn) as b;
        return;
    end if;
    loop
        begin
            return query
            select b.*
            from flowfabric._ff_create_batch(
                p_execution_kinds, p_payloads, v_lane_ids, v_namespace, v_execution_ids, p_payload_encodings,
                p_priorities, p_policies, p_tags, p_delay_until_ms, p_execution_deadlines_at_ms, v_idempotency_keys,
                p_dedup_ttl_ms, p_creator_identity, v_has_repeats, c_fn) as b;
            return;
        exception
            when serialization_failure then
                -- Under a stricter isolation level the winner stays out of sight; only the caller can start anew.
                if current_setting('transaction_isolation') <> 'read committed' then
                    raise;
                end if;
        end;
    end loop;
end;
$$;

comment on function flowfabric.ff_create_executions(
    text[], bytea[], text[], text, text[], text[], integer[], jsonb[], jsonb[], bigint[], bigint[], text[], bigint,
    text) is
'Creates up to 1000 executions, each as ff_create_execution would; a refused item is a row and changes no other.';

grant execute on function flowfabric.ff_create_executions(
    text[], bytea[], text[], text, text[], text[], integer[], jsonb[], jsonb[], bigint[], bigint[], text[], bigint,
    text)
to flowfabric_producer;

-- The usual batch: executions that wait for a worker, with nothing given that could be refused or be somebody else's.
-- One statement makes them all, in 0.6 times the time of the general way. Answers nothing where an item is out of the
-- ordinary; then the general way decides about all of them.
create or replace function flowfabric._ff_create_plain_batch(
    p_execution_kinds text[],
    p_payloads bytea[],
    p_lane_ids text[],
    p_namespace text,
    p_payload_encodings text[],
    p_priorities integer[],
    p_deadlines_at_ms bigint[],
    p_creator_identity text
)
returns setof flowfabric.ff_execution_item
language plpgsql volatile
as $$
declare
    -- Nearly always one. A look at each lane, and not at the lane of each item, is a twentieth of the whole.
    v_lane_ids text[] := case
        when p_lane_ids[1] = all (p_lane_ids) then p_lane_ids[1:1]
        else array(select distinct u.lane_id from unnest(p_lane_ids) as u (lane_id)) end;
    v_partition_keys smallint[] := array(
        select l.home_partition
        from unnest(v_lane_ids) with ordinality as u (lane_id, lane_number)
        join flowfabric.ff_lane_registry as l on l.lane_id = u.lane_id
        where l.lane_state not in ('draining', 'disabled') and l.home_partition is not null
        order by u.lane_number);
    -- Ascending: items that are equally old are claimed by their ids, so in the order in which they were given.
    v_execution_ids uuid[] := array(
        select gen_random_uuid() as id from generate_series(1, cardinality(p_execution_kinds)) order by id);
    v_now_ms bigint;
begin
    -- Kinds and encodings are nearly always one; of small payloads the array itself is small.
    if cardinality(v_partition_keys) < cardinality(v_lane_ids)
        or (0 > any (p_deadlines_at_ms) or flowfabric._ff_last_ms() < any (p_deadlines_at_ms)) is true
    then
        return;
    end if;
    if (p_execution_kinds[1] = all (p_execution_kinds)
        and octet_length(p_execution_kinds[1]) between 1 and 256
        and (p_payload_encodings is null or (
            p_payload_encodings[1] = all (p_payload_encodings) and octet_length(p_payload_encodings[1]) <= 256))
        and coalesce(pg_column_size(p_payloads), 0) <= 65536) is not true
    then
        if exists (
            select from unnest(p_execution_kinds, p_payload_encodings, p_payloads) as u (kind, encoding, payload)
            where (octet_length(u.kind) between 1 and 256) is not true
                or octet_length(u.encoding) > 256 or octet_length(u.payload) > 65536)
        then
            return;
        end if;
    end if;
    v_now_ms := flowfabric.ff_now_ms();
    -- Whatever reads the items reads them in their order.
    return query
    with item as materialized (
        select
            u.item, u.execution_kind, u.payload, u.lane_id, u.payload_encoding, u.priority, u.deadline_at_ms,
            v_partition_keys[array_position(v_lane_ids, u.lane_id)] as partition_key,
            v_execution_ids[u.item] as execution_id,
            flowfabric._ff_small_payload(
                u.payload, u.payload_encoding, null, null, p_creator_identity) as small_payload
        from unnest(p_execution_kinds, p_payloads, p_lane_ids, p_payload_encodings, p_priorities, p_deadlines_at_ms)
            with ordinality as u (
                execution_kind, payload, lane_id, payload_encoding, priority, deadline_at_ms, item)
    ),
    created as (
        insert into flowfabric.ff_exec_core (
            partition_key, execution_id, namespace, lane_id, execution_kind, priority, lifecycle_phase,
            ownership_state, eligibility_state, blocking_reason, attempt_state, deadline_at_ms, created_at_ms,
            last_transition_at_ms, last_mutation_at_ms, small_payload)
        select
            i.partition_key, i.execution_id, p_namespace, i.lane_id, i.execution_kind,
            least(greatest(coalesce(i.priority, 0), 0), 9000), 'runnable', 'unowned', 'eligible_now',
            'waiting_for_worker', 'pending_first_attempt', i.deadline_at_ms, v_now_ms, v_now_ms, v_now_ms,
            i.small_payload
        from item as i
    ),
    stored as (
        insert into flowfabric.ff_exec_payload (
            partition_key, execution_id, payload, payload_encoding, creator_identity)
        select
            i.partition_key, i.execution_id, nullif(i.payload, ''), nullif(i.payload_encoding, ''),
            nullif(p_creator_identity, '')
        from item as i
        where i.small_payload is null
    )
    select
        i.item::integer, flowfabric.ff_format_execution_id(i.partition_key, i.execution_id), 'created', null::text,
        null::text, null::jsonb, 'waiting'::flowfabric.ff_public_state
    from item as i;
    if exists (select from flowfabric.ff_waiter as w where w.channel = 'ff_eligible') then
        perform flowfabric._ff_wake('ff_eligible', l.lane_id) from unnest(v_lane_ids) as l (lane_id);
    end if;
end;
$$;
comment on function flowfabric._ff_create_plain_batch(
    text[], bytea[], text[], text, text[], integer[], bigint[], text) is
'Internal: creates a batch without ids, keys, policies, tags and delays; no rows leave it to the general way.';

-- One attempt at a batch whose arrays have one length; empty texts are NULL already. What is known of each item stands
-- in arrays, one element per item: outcome (NULL while open), key, refusal. Every statement is set-based; loops run
-- over distinct policies, over new lanes and sets, and over the items that something is wrong with.
--
-- Raises serialization_failure instead of reporting a lost race when the batch has repeats.
create or replace function flowfabric._ff_create_batch(
    p_execution_kinds text[],
    p_payloads bytea[],
    p_lane_ids text[],
    p_namespace text,
    p_execution_ids text[],
    p_payload_encodings text[],
    p_priorities integer[],
    p_policies jsonb[],
    p_tags jsonb[],
    p_delay_until_ms bigint[],
    p_deadlines_at_ms bigint[],
    p_idempotency_keys text[],
    p_dedup_ttl_ms bigint,
    p_creator_identity text,
    p_has_repeats boolean,
    p_fn text
)
returns setof flowfabric.ff_execution_item
language plpgsql volatile
as $$
declare
    v_count integer := cardinality(p_execution_kinds);
    v_partitions integer;
    v_instance_tag_key text;
    v_now_ms bigint;
    v_outcomes text[] := array_fill(null::text, array[v_count]);
    v_keys flowfabric.ff_execution_key[];
    v_refusals flowfabric.ff_refusal[] := array_fill(null::flowfabric.ff_refusal, array[v_count]);
    v_dedup_ttls_ms bigint[];
    v_policies jsonb[];
    v_policy_numbers bigint[];
    v_facts flowfabric.ff_policy_facts[];
    v_set_ids integer[];
    v_taken_keys text[] := '{}'::text[];
    v_taken_ids flowfabric.ff_execution_key[] := '{}'::flowfabric.ff_execution_key[];
    v_reserved_keys text[];
    v_written text[];
    v_small_payloads bytea[];
    v_created flowfabric.ff_execution_key[];
    v_item record;
    v_code text;
    v_detail text;
begin
    select c.num_flow_partitions, c.instance_tag_key into v_partitions, v_instance_tag_key
    from flowfabric.ff_partition_config as c;

    -- Check 1, the arguments. All items in one block; only after it failed, each in its own.
    begin
        select array_agg(
            flowfabric._ff_check_creation(
                i.execution_kind, i.lane_id, i.idempotency_key, i.execution_id, v_partitions, p_fn)
            order by i.item)
        into v_keys
        from unnest(
            p_execution_kinds, p_lane_ids, p_idempotency_keys, p_execution_ids, p_payloads, p_payload_encodings,
            p_delay_until_ms, p_deadlines_at_ms)
            with ordinality as i (
                execution_kind, lane_id, idempotency_key, execution_id, payload, payload_encoding, delay_until_ms,
                deadline_at_ms, item)
        where (
            coalesce(octet_length(i.payload), 0) <= 65536 and coalesce(octet_length(i.payload_encoding), 0) <= 256
            and coalesce(i.delay_until_ms, 0) between 0 and flowfabric._ff_last_ms()
            and coalesce(i.deadline_at_ms, 0) between 0 and flowfabric._ff_last_ms()
        ) or flowfabric._ff_check_creation_limits(
            i.payload, i.payload_encoding, null, i.delay_until_ms, i.deadline_at_ms, null, p_fn);
    exception
        when sqlstate 'ZV000' then
            v_keys := array_fill(null::flowfabric.ff_execution_key, array[v_count]);
            for v_item in
                select
                    i.execution_kind, i.lane_id, i.idempotency_key, i.execution_id, i.payload, i.payload_encoding,
                    i.delay_until_ms, i.deadline_at_ms, i.item
                from unnest(
                    p_execution_kinds, p_lane_ids, p_idempotency_keys, p_execution_ids, p_payloads,
                    p_payload_encodings, p_delay_until_ms, p_deadlines_at_ms)
                    with ordinality as i (
                        execution_kind, lane_id, idempotency_key, execution_id, payload, payload_encoding,
                        delay_until_ms, deadline_at_ms, item)
            loop
                begin
                    v_keys[v_item.item] := flowfabric._ff_check_creation(
                        v_item.execution_kind, v_item.lane_id, v_item.idempotency_key, v_item.execution_id,
                        v_partitions, p_fn);
                    perform flowfabric._ff_check_creation_limits(
                        v_item.payload, v_item.payload_encoding, null, v_item.delay_until_ms, v_item.deadline_at_ms,
                        null, p_fn);
                exception
                    when sqlstate 'ZV000' then
                        get stacked diagnostics v_code = message_text, v_detail = pg_exception_detail;
                        v_outcomes[v_item.item] := 'refused';
                        v_refusals[v_item.item] := row(v_code, v_detail::jsonb)::flowfabric.ff_refusal;
                end;
            end loop;
    end;

    -- Checks 2 and 3, what exists. An item whose id is taken may yet turn out to be a duplicate by its key, if an
    -- earlier item of the batch records that.
    v_now_ms := flowfabric.ff_now_ms();
    if p_idempotency_keys is not null or p_execution_ids is not null then
        select
            array_agg(
                case when known.execution_id is not null then 'duplicate'
                    when stored.execution_id is not null then 'duplicate_id'
                    else i.outcome end
                order by i.item),
            array_agg(
                case when known.execution_id is null then i.key
                    else row(known.partition_key, known.execution_id)::flowfabric.ff_execution_key end
                order by i.item)
        into v_outcomes, v_keys
        from (
            select u.outcome, row(u.partition_key, u.execution_id)::flowfabric.ff_execution_key as key,
                u.partition_key, u.execution_id, u.idempotency_key, u.item
            from unnest(v_outcomes, v_keys, p_idempotency_keys)
                with ordinality as u (outcome, partition_key, execution_id, idempotency_key, item)
        ) as i
        left join lateral (
            select k.partition_key, k.execution_id
            from flowfabric.ff_execution_idempotency as k
            where k.namespace = p_namespace and k.idempotency_key = i.idempotency_key and k.expires_at_ms > v_now_ms
            offset 0
        ) as known on i.outcome is null
        left join lateral (
            select e.execution_id
            from flowfabric.ff_exec_core as e
            where e.partition_key = i.partition_key and e.execution_id = i.execution_id
            offset 0
        ) as stored on i.outcome is null;
    end if;

    -- Check 4, the lanes.
    for v_item in
        select i.item, l.lane_id, l.lane_state
        from unnest(v_outcomes, p_lane_ids) with ordinality as i (outcome, lane_id, item)
        join flowfabric.ff_lane_registry as l on l.lane_id = i.lane_id
        where i.outcome is null and l.lane_state in ('draining', 'disabled')
    loop
        v_refusals[v_item.item] := row(
            'lane_not_accepting',
            flowfabric._ff_error_detail(
                'lane_not_accepting', p_fn,
                jsonb_build_object('lane_id', v_item.lane_id, 'lane_state', v_item.lane_state))
        )::flowfabric.ff_refusal;
    end loop;

    -- Check 5, the policies: each distinct document once.
    if p_policies is not null then
        select
            array_agg(case when n.policy is not null then n.number end order by n.item),
            array_agg(distinct n.policy order by n.policy) filter (where n.policy is not null)
        into v_policy_numbers, v_policies
        from (
            select i.item, i.policy, dense_rank() over (order by i.policy) as number
            from (
                select u.item, case when u.outcome is null and u.code is null then nullif(u.policy, '{}') end as policy
                from unnest(v_outcomes, v_refusals, p_policies)
                    with ordinality as u (outcome, code, detail, policy, item)
            ) as i
        ) as n;
        -- Filled before it is assigned to: an array begins at the first element that it is given.
        v_set_ids := array_fill(null::integer, array[coalesce(cardinality(v_policies), 0)]);
        for v_number in 1 .. coalesce(cardinality(v_policies), 0) loop
            begin
                v_facts[v_number] := flowfabric._ff_read_policy(v_policies[v_number], p_fn);
            exception
                when sqlstate 'ZV000' then
                    get stacked diagnostics v_code = message_text, v_detail = pg_exception_detail;
                    v_facts[v_number] := null;
                    for v_item in
                        select n.item from unnest(v_policy_numbers) with ordinality as n (number, item)
                        where n.number = v_number
                    loop
                        v_refusals[v_item.item] := row(v_code, v_detail::jsonb)::flowfabric.ff_refusal;
                    end loop;
            end;
        end loop;
    end if;

    -- Check 6, the tags.
    if p_tags is not null then
        for v_item in
            select i.item, i.tags
            from unnest(v_outcomes, v_refusals, p_tags) with ordinality as i (outcome, code, detail, tags, item)
            where i.outcome is null and i.code is null
                and case jsonb_typeof(i.tags)
                    when 'object' then pg_column_size(i.tags #> '{}') > 65536 or exists (
                        select from jsonb_each(i.tags) as t
                        where jsonb_typeof(t.value) <> 'string' or not flowfabric._ff_is_tag_key(t.key))
                    else i.tags is not null end
        loop
            begin
                perform flowfabric._ff_check_tags_shape(v_item.tags, p_fn);
                perform flowfabric._ff_check_tag_keys(v_item.tags, p_fn);
            exception
                when sqlstate 'ZV000' then
                    get stacked diagnostics v_code = message_text, v_detail = pg_exception_detail;
                    v_refusals[v_item.item] := row(v_code, v_detail::jsonb)::flowfabric.ff_refusal;
            end;
        end loop;
    end if;

    -- Ids for those who brought none; a minted one is nobody else's.
    select
        array_agg(
            case when i.outcome is null and i.execution_id is null
                then row(
                    coalesce(l.lane_crc, flowfabric._ff_crc16(convert_to(i.lane_id, 'UTF8'))) % v_partitions,
                    gen_random_uuid())::flowfabric.ff_execution_key
                else row(i.partition_key, i.execution_id)::flowfabric.ff_execution_key end
            order by i.item),
        array_agg(
            coalesce(p_dedup_ttl_ms, (v_facts[i.policy_number]).dedup_window_ms, 86400000)
            order by i.item)
    into v_keys, v_dedup_ttls_ms
    from unnest(v_outcomes, v_keys, p_lane_ids, v_policy_numbers)
        with ordinality as i (outcome, partition_key, execution_id, lane_id, policy_number, item)
    left join flowfabric.ff_lane_registry as l on l.lane_id = i.lane_id;

    -- Items that meet another one of the batch, one after another; then all others at once.
    if p_has_repeats then
        for v_item in
            select
                i.item, i.outcome, i.code, row(i.partition_key, i.execution_id)::flowfabric.ff_execution_key as key,
                i.idempotency_key, case when i.dedup_ttl_ms > 0 then i.idempotency_key end as reserved_key
            from (
                select
                    u.item, u.outcome, u.code, u.partition_key, u.execution_id, u.idempotency_key, u.dedup_ttl_ms,
                    count(u.idempotency_key) over (partition by u.idempotency_key) as same_key,
                    count(u.execution_id) over (partition by u.partition_key, u.execution_id) as same_id
                from unnest(v_outcomes, v_keys, v_refusals, p_idempotency_keys, v_dedup_ttls_ms)
                    with ordinality as u (
                        outcome, partition_key, execution_id, code, detail, idempotency_key, dedup_ttl_ms, item)
                where u.outcome is null or u.outcome = 'duplicate_id'
            ) as i
            where i.same_key > 1 or i.same_id > 1
            order by i.item
        loop
            if v_item.idempotency_key = any (v_taken_keys) then
                v_outcomes[v_item.item] := 'duplicate';
                v_keys[v_item.item] := v_taken_ids[array_position(v_taken_keys, v_item.idempotency_key)];
            elsif v_item.outcome = 'duplicate_id' or v_item.key = any (v_taken_ids) then
                v_outcomes[v_item.item] := 'duplicate';
            elsif v_item.code is not null then
                v_outcomes[v_item.item] := 'refused';
            else
                v_outcomes[v_item.item] := 'created';
                v_taken_keys := v_taken_keys || v_item.reserved_key;
                v_taken_ids := v_taken_ids || v_item.key;
            end if;
        end loop;
    end if;
    v_outcomes := array(
        select case
            when i.outcome = 'duplicate_id' then 'duplicate'
            when i.outcome is not null then i.outcome
            when i.code is not null then 'refused'
            else 'created' end
        from unnest(v_outcomes, v_refusals) with ordinality as i (outcome, code, detail, item)
        order by i.item);

    -- From here on the call writes and waits: capability sets, lanes, keys and executions, each in one order that all
    -- creations share, so that no two of them wait for each other.
    for v_item in
        select f.number, f.required_capabilities
        from unnest(v_facts) with ordinality as f (
            required_capabilities, budget_ids, quota_policy_id, attempt_timeout_ms, retention_ms, dedup_window_ms,
            number)
        where f.number in (
            select i.policy_number from unnest(v_outcomes, v_policy_numbers) as i (outcome, policy_number)
            where i.outcome = 'created')
        order by f.required_capabilities collate "C"
    loop
        v_set_ids[v_item.number] := flowfabric._ff_intern_capabilities(v_item.required_capabilities, v_now_ms);
    end loop;
    for v_item in
        select distinct i.lane_id collate "C" as lane_id
        from unnest(v_outcomes, p_lane_ids) as i (outcome, lane_id)
        where i.outcome = 'created'
            and not exists (select from flowfabric.ff_lane_registry as l where l.lane_id = i.lane_id)
        order by 1
    loop
        perform flowfabric._ff_ensure_lane(v_item.lane_id, 'create_execution', v_now_ms);
    end loop;

    if p_idempotency_keys is not null then
        v_reserved_keys := array(
            select case when i.outcome = 'created' and i.dedup_ttl_ms > 0 then i.idempotency_key end
            from unnest(v_outcomes, p_idempotency_keys, v_dedup_ttls_ms)
                with ordinality as i (outcome, idempotency_key, dedup_ttl_ms, item)
            order by i.item);
        with reserved as (
            insert into flowfabric.ff_execution_idempotency as k (
                namespace, idempotency_key, partition_key, execution_id, created_at_ms, expires_at_ms)
            select
                p_namespace, i.idempotency_key, i.partition_key, i.execution_id, v_now_ms,
                v_now_ms + i.dedup_ttl_ms
            from unnest(v_reserved_keys, v_keys, v_dedup_ttls_ms)
                as i (idempotency_key, partition_key, execution_id, dedup_ttl_ms)
            where i.idempotency_key is not null
            order by i.idempotency_key collate "C"
            on conflict (namespace, idempotency_key) do update
            set partition_key = excluded.partition_key,
                execution_id = excluded.execution_id,
                created_at_ms = excluded.created_at_ms,
                expires_at_ms = excluded.expires_at_ms
            where k.expires_at_ms <= excluded.created_at_ms
            returning k.idempotency_key
        )
        select array_agg(r.idempotency_key) into v_written from reserved as r;
        if coalesce(cardinality(v_written), 0) < cardinality(array_remove(v_reserved_keys, null)) then
            if p_has_repeats then
                raise serialization_failure using message = 'another session took a key of this batch';
            end if;
            for v_item in
                select i.item, k.partition_key, k.execution_id
                from unnest(v_reserved_keys) with ordinality as i (idempotency_key, item)
                join flowfabric.ff_execution_idempotency as k
                    on k.namespace = p_namespace and k.idempotency_key = i.idempotency_key
                where i.idempotency_key <> all (coalesce(v_written, '{}'))
            loop
                v_outcomes[v_item.item] := 'duplicate';
                v_keys[v_item.item] := row(v_item.partition_key, v_item.execution_id)::flowfabric.ff_execution_key;
            end loop;
        end if;
    end if;

    v_small_payloads := array(
        select flowfabric._ff_small_payload(
            i.payload, i.payload_encoding, nullif(i.policy, '{}'), i.tags, p_creator_identity)
        from unnest(p_execution_kinds, p_payloads, p_payload_encodings, p_policies, p_tags)
            with ordinality as i (execution_kind, payload, payload_encoding, policy, tags, item)
        order by i.item);
    -- A minted id is nobody else's: without ON CONFLICT an insert takes four fifths of the time and a WAL record less.
    if p_execution_ids is null then
        insert into flowfabric.ff_exec_core (
            partition_key, execution_id, namespace, lane_id, execution_kind, priority, capability_set_id, budget_ids,
            quota_policy_id, attempt_timeout_ms, retention_ms, instance_tag, lifecycle_phase, ownership_state,
            eligibility_state, blocking_reason, blocking_detail, attempt_state, delay_until_ms, deadline_at_ms,
            created_at_ms, last_transition_at_ms, last_mutation_at_ms, small_payload)
        select n.*
        from flowfabric._ff_new_executions(
            v_outcomes, v_keys, p_namespace, p_lane_ids, p_execution_kinds, p_priorities, p_tags, v_instance_tag_key,
            p_delay_until_ms, p_deadlines_at_ms, v_policy_numbers, v_facts, v_set_ids, v_small_payloads,
            v_now_ms) as n
        order by n.partition_key, n.execution_id;
        v_created := v_keys;
    else
        with created as (
            insert into flowfabric.ff_exec_core (
                partition_key, execution_id, namespace, lane_id, execution_kind, priority, capability_set_id,
                budget_ids, quota_policy_id, attempt_timeout_ms, retention_ms, instance_tag, lifecycle_phase,
                ownership_state, eligibility_state, blocking_reason, blocking_detail, attempt_state, delay_until_ms,
                deadline_at_ms, created_at_ms, last_transition_at_ms, last_mutation_at_ms, small_payload)
            select n.*
            from flowfabric._ff_new_executions(
                v_outcomes, v_keys, p_namespace, p_lane_ids, p_execution_kinds, p_priorities, p_tags,
                v_instance_tag_key, p_delay_until_ms, p_deadlines_at_ms, v_policy_numbers, v_facts, v_set_ids,
                v_small_payloads, v_now_ms) as n
            order by n.partition_key, n.execution_id
            on conflict do nothing
            returning partition_key, execution_id
        )
        select array_agg(row(c.partition_key, c.execution_id)::flowfabric.ff_execution_key) into v_created
        from created as c;
    end if;
    if coalesce(cardinality(v_created), 0) < cardinality(array_positions(v_outcomes, 'created')) then
        if p_has_repeats then
            raise serialization_failure using message = 'another session took an id of this batch';
        end if;
        for v_item in
            select i.item, i.reserved_key
            from unnest(v_outcomes, v_keys, v_reserved_keys)
                with ordinality as i (outcome, partition_key, execution_id, reserved_key, item)
            where i.outcome = 'created'
                and row(i.partition_key, i.execution_id)::flowfabric.ff_execution_key
                <> all (coalesce(v_created, '{}'))
        loop
            v_outcomes[v_item.item] := 'duplicate';
            -- The key must not point at an execution that it did not make.
            delete from flowfabric.ff_execution_idempotency as k
            where k.namespace = p_namespace and k.idempotency_key = v_item.reserved_key;
        end loop;
    end if;
    insert into flowfabric.ff_exec_payload (
        partition_key, execution_id, payload, payload_encoding, policy, tags, creator_identity)
    select
        i.partition_key, i.execution_id, nullif(i.payload, ''), nullif(i.payload_encoding, ''),
        nullif(i.policy, '{}'), coalesce(i.tags, '{}'), nullif(p_creator_identity, '')
    from unnest(v_outcomes, v_keys, p_payloads, p_payload_encodings, p_policies, p_tags, v_small_payloads)
        as i (outcome, partition_key, execution_id, payload, payload_encoding, policy, tags, small_payload)
    where i.outcome = 'created' and i.small_payload is null
    order by i.partition_key, i.execution_id;

    perform flowfabric._ff_wake('ff_eligible', w.lane_id)
    from (
        select distinct i.lane_id
        from unnest(v_outcomes, p_lane_ids, p_delay_until_ms) as i (outcome, lane_id, delay_until_ms)
        where i.outcome = 'created' and (i.delay_until_ms > v_now_ms) is not true
    ) as w;

    return query
    select
        i.item::integer,
        case when i.outcome <> 'refused' then flowfabric.ff_format_execution_id(i.partition_key, i.execution_id) end,
        i.outcome,
        case when i.outcome = 'refused' then i.code end,
        case when i.outcome = 'refused' then flowfabric._ff_error_sqlstate(i.code) end,
        case when i.outcome = 'refused' then i.detail end,
        case
            when i.outcome = 'duplicate' then (
                select flowfabric._ff_public_state(e.lifecycle_phase, e.terminal_outcome, e.eligibility_state)
                from flowfabric.ff_exec_core as e
                where e.partition_key = i.partition_key and e.execution_id = i.execution_id)
            when i.outcome = 'created' then
                case when i.delay_until_ms > v_now_ms then 'delayed'::flowfabric.ff_public_state else 'waiting' end
        end
    from unnest(v_outcomes, v_keys, v_refusals, p_delay_until_ms)
        with ordinality as i (outcome, partition_key, execution_id, code, detail, delay_until_ms, item)
    order by i.item;
end;
$$;
comment on function flowfabric._ff_create_batch(
    text[], bytea[], text[], text, text[], text[], integer[], jsonb[], jsonb[], bigint[], bigint[], text[], bigint,
    text, boolean, text) is
'Internal: creates the items of a batch; raises serialization_failure when one with repeats lost a race.';

-- The rows of ff_exec_core that a batch creates, in the columns' order of the two inserts that read it.
create or replace function flowfabric._ff_new_executions(
    p_outcomes text[],
    p_keys flowfabric.ff_execution_key[],
    p_namespace text,
    p_lane_ids text[],
    p_execution_kinds text[],
    p_priorities integer[],
    p_tags jsonb[],
    p_instance_tag_key text,
    p_delay_until_ms bigint[],
    p_deadlines_at_ms bigint[],
    p_policy_numbers bigint[],
    p_facts flowfabric.ff_policy_facts[],
    p_set_ids integer[],
    p_small_payloads bytea[],
    p_now_ms bigint
)
returns table (
    partition_key smallint,
    execution_id uuid,
    namespace text,
    lane_id text,
    execution_kind text,
    priority integer,
    capability_set_id integer,
    budget_ids text[],
    quota_policy_id text,
    attempt_timeout_ms bigint,
    retention_ms bigint,
    instance_tag text,
    lifecycle_phase flowfabric.ff_lifecycle_phase,
    ownership_state flowfabric.ff_ownership_state,
    eligibility_state flowfabric.ff_eligibility_state,
    blocking_reason flowfabric.ff_blocking_reason,
    blocking_detail text,
    attempt_state flowfabric.ff_attempt_state,
    delay_until_ms bigint,
    deadline_at_ms bigint,
    created_at_ms bigint,
    last_transition_at_ms bigint,
    last_mutation_at_ms bigint,
    small_payload bytea
)
language sql stable
as $$
    select
        i.partition_key, i.execution_id, p_namespace, i.lane_id, i.execution_kind,
        least(greatest(coalesce(i.priority, 0), 0), 9000), coalesce(f.capability_set_id, 1), f.budget_ids,
        f.quota_policy_id, f.attempt_timeout_ms, f.retention_ms, i.tags ->> p_instance_tag_key,
        'runnable'::flowfabric.ff_lifecycle_phase, 'unowned'::flowfabric.ff_ownership_state,
        case when i.delay_until_ms > p_now_ms then 'not_eligible_until_time'::flowfabric.ff_eligibility_state
            else 'eligible_now' end,
        case when i.delay_until_ms > p_now_ms then 'waiting_for_delay'::flowfabric.ff_blocking_reason
            else 'waiting_for_worker' end,
        case when i.delay_until_ms > p_now_ms then 'until=' || i.delay_until_ms::text end,
        'pending_first_attempt'::flowfabric.ff_attempt_state,
        case when i.delay_until_ms > p_now_ms then i.delay_until_ms end,
        i.deadline_at_ms, p_now_ms, p_now_ms, p_now_ms, i.small_payload
    from unnest(
        p_outcomes, p_keys, p_lane_ids, p_execution_kinds, p_priorities, p_tags, p_delay_until_ms,
        p_deadlines_at_ms, p_policy_numbers, p_small_payloads) as i (
        outcome, partition_key, execution_id, lane_id, execution_kind, priority, tags, delay_until_ms,
        deadline_at_ms, policy_number, small_payload)
    left join unnest(p_facts, p_set_ids) with ordinality as f (
        required_capabilities, budget_ids, quota_policy_id, attempt_timeout_ms, retention_ms, dedup_window_ms,
        capability_set_id, number) on f.number = i.policy_number
    where i.outcome = 'created'
$$;
comment on function flowfabric._ff_new_executions(
    text[], flowfabric.ff_execution_key[], text, text[], text[], integer[], jsonb[], text, bigint[], bigint[],
    bigint[], flowfabric.ff_policy_facts[], integer[], bytea[], bigint) is
'Internal: the rows of ff_exec_core that a batch creates; a delay that is over is none.';
