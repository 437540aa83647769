-- ff_claim_next: claim the best executions that this worker may run, and return everything needed to run them.
--
-- Fence:  none; ends in new leases.
-- Locks:  the ff_exec_core rows that it takes, SKIP LOCKED; ff_quota_policy rows of the first page, ascending, which is
--         the only place where it ever waits; ff_lane_floor rows, SKIP LOCKED.
-- Writes: per claim ff_exec_core and ff_lease_event; ff_attempt, except for first attempts; the pending lineage in
--         ff_exec_note; quota admissions; blocked executions; promoted delayed executions; ff_lane_floor. Deletes
--         expired grants of what it claims.
-- Raises: invalid_input, invalid_capabilities. Having no work is an empty answer.
-- Retry:  not safe: a repeat claims more. A worker that lost the answer finds its leases with ff_list_worker_leases.
--
-- Run it in READ COMMITTED and in a transaction of its own: quota policies are held until its commit. How work is found
-- and admitted is told in _moves.sql, where it is looked for in _floors.sql. An empty answer means: nothing admissible
-- that no other transaction holds now, except for creations that commit late while scans from the beginning rest.
--
-- Work of one lane is what most calls ask for. If the lane has nothing to promote and first attempts wait at the head
-- of its queue, they take a quick way: for one execution plain statements and scalars, for several a plain scan of the
-- head and one statement that claims it, half as long as the general way. A worker with capabilities serves several
-- queues, and takes that way for one execution: the best of their heads. Of several lanes a claim of one looks into the
-- next if there is nothing in the one whose turn it is. If fewer wait than are wanted, the queue is read from its
-- beginning, and if that finds nothing either, that is all. Floors are moved after the claim. The quick way ends where
-- anything is out of the ordinary, and then the other one begins from the start; a row that was locked by then stays
-- locked for it. A test holds the rows of both, and of the moves in 20_lease, equal.
--
-- The planner settings: 15_batch/_moves.sql.
create or replace function flowfabric.ff_claim_next(
    p_lanes text[],
    p_worker_id text,
    p_worker_instance_id text,
    p_capabilities text[] default '{}',
    p_max integer default 1,
    p_lease_ttl_ms bigint default 30000,
    p_namespace text default null,
    p_lane_order text default 'fair',
    p_include_resumed boolean default true,
    p_promote_due boolean default true,
    p_with_payload boolean default true,
    p_partition_key smallint default null
)
returns setof flowfabric.ff_claimed_execution
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
    c_fn constant text := 'ff_claim_next';
    v_lanes text[] := p_lanes;
    v_lane_id text;
    v_now_ms bigint;
    v_set_id integer;
    v_tokens text[];
    v_is_ordinary boolean;
    v_has_floor boolean;
    v_served_set_ids integer[];
    v_priority integer;
    v_from_ms bigint;
    v_until_ms bigint;
    v_emits_lease_event boolean;
    v_may_be_awaited boolean;
    v_has_late_tags boolean;
    v_event_epoch smallint;
    v_is_plain boolean;
    v_row_id tid;
    v_partition_key smallint;
    v_execution_id uuid;
    v_attempt_index integer;
    v_lease_epoch bigint;
    v_namespace text;
    v_kind text;
    v_flow_id uuid;
    v_instance_tag text;
    v_created_at_ms bigint;
    v_started_at_ms bigint;
    v_deadline_at_ms bigint;
    v_timeout_at_ms bigint;
    v_lease_id uuid;
    v_attempt_id uuid;
    v_payload bytea;
    v_encoding text;
    v_tags jsonb := '{}'::jsonb;
    v_policy jsonb;
    v_claim flowfabric.ff_claimed_execution;
    v_head_row_ids tid[];
    v_next record;
begin
    -- All in one condition (HOTPATH 2.7). A lane that is known has a good name, and the names of the worker are
    -- searched together: a regular expression takes 2 us.
    if (
        array_ndims(p_lanes) = 1 and octet_length(p_worker_id) between 1 and 256
        and octet_length(p_worker_instance_id) between 1 and 256
        and not flowfabric._ff_has_space_or_control(p_worker_id || p_worker_instance_id)
        and p_max between 1 and 100 and p_lease_ttl_ms between 1 and 86400000
        and (cardinality(p_capabilities) = 0 or p_max = 1 and flowfabric._ff_are_capabilities(p_capabilities))
        and p_lane_order = any (flowfabric._ff_legal_values('lane_order'))
        and num_nonnulls(p_namespace, p_partition_key) = 0
        and p_include_resumed and p_promote_due and p_with_payload is not null) is not true
    then
        v_lanes := '{}'::text[];
    elsif cardinality(p_lanes) > 1 then
        v_lanes := case when p_max = 1 then flowfabric._ff_lanes_in_turn(p_lanes, p_lane_order) else '{}'::text[] end;
    end if;
    v_now_ms := flowfabric.ff_now_ms();

    <<quick_way>>
    foreach v_lane_id in array coalesce(v_lanes, '{}') loop
        if cardinality(p_capabilities) = 0 then
            -- Preparing a statement takes longer than running it, 10 us for each table that it reads. So the head of
            -- the queue is found without _ff_queue_ranges where there is one floor and nothing above it, the usual
            -- case: a queue has more than one floor if it has more than one priority.
            select
                l.lane_state in ('active', 'draining')
                and c.claim_floor_recheck_ms > 0
                and flowfabric._ff_is_floor_ahead(f.due_at_ms, c.claim_floor_recheck_ms, v_now_ms) is not true
                and not exists (
                    select from flowfabric.ff_exec_core as e
                    where e.eligibility_state = 'not_eligible_until_time' and e.lane_id = l.lane_id
                        and e.delay_until_ms >= f.delayed_floor_ms and e.delay_until_ms <= v_now_ms),
                case when f.priority = f.lowest_priority and f.floor_ms is not null and not exists (
                    select from flowfabric.ff_exec_core as e
                    where e.eligibility_state = 'eligible_now' and e.lane_id = l.lane_id and e.capability_set_id = 1
                        and e.priority > f.priority) then f.priority end,
                f.due_at_ms > v_now_ms, f.floor_ms, c.lease_events, c.event_waiters_until_ms > v_now_ms,
                c.has_late_tags, c.event_epoch, 1, 9223372036854775807
            into
                v_is_ordinary, v_priority, v_has_floor, v_from_ms, v_emits_lease_event, v_may_be_awaited,
                v_has_late_tags, v_event_epoch, v_set_id, v_until_ms
            from flowfabric.ff_lane_registry as l
            cross join flowfabric.ff_partition_config as c
            cross join (
                select
                    max(x.due_at_ms) as due_at_ms,
                    coalesce(min(x.floor_ms) filter (where x.capability_set_id = 0), 0) as delayed_floor_ms,
                    min(x.floor_ms) filter (where x.capability_set_id = 1) as floor_ms,
                    max(x.priority) as priority, min(x.priority) as lowest_priority
                from flowfabric.ff_lane_floor as x
                where x.lane_id = v_lane_id and x.capability_set_id between 0 and 1 and x.namespace = ''
                    and x.side > 0
            ) as f
            where l.lane_id = v_lane_id;
            exit quick_way when v_is_ordinary is not true;
            if v_priority is null then
                select h.priority, r.from_ms, r.due_at_ms > v_now_ms
                into v_priority, v_from_ms, v_has_floor
                from flowfabric._ff_queue_ranges(v_lane_id, 1, '', true) as r
                cross join lateral (
                    select e.priority
                    from flowfabric.ff_exec_core as e
                    where e.eligibility_state = 'eligible_now' and e.lane_id = v_lane_id and e.capability_set_id = 1
                        and e.priority <= r.highest and e.priority >= r.lowest and e.created_at_ms >= r.from_ms
                    order by e.priority desc, e.created_at_ms, e.execution_id
                    limit 1
                ) as h
                limit 1;
            end if;
        else
            select
                h.is_ordinary, h.emits_lease_events, h.may_be_awaited, h.event_epoch, h.served_set_ids,
                h.capability_set_id, h.tokens, h.priority, h.from_ms, h.until_ms, h.has_floor
            into
                v_is_ordinary, v_emits_lease_event, v_may_be_awaited, v_event_epoch, v_served_set_ids,
                v_set_id, v_tokens, v_priority, v_from_ms, v_until_ms, v_has_floor
            from flowfabric._ff_best_head(v_lane_id, p_capabilities, v_now_ms) as h;
            exit quick_way when v_is_ordinary is not true;
        end if;

        if p_max > 1 then
            v_head_row_ids := flowfabric._ff_lock_plain_head(v_lane_id, v_priority, v_from_ms, p_max);
            exit quick_way when v_head_row_ids is null;
            if cardinality(v_head_row_ids) < p_max then
                exit quick_way when not flowfabric._ff_is_nothing_left(
                    v_lane_id, '{1}'::integer[], v_priority, v_from_ms, cardinality(v_head_row_ids) > 0, v_now_ms);
                if cardinality(v_head_row_ids) = 0 then
                    return;
                end if;
            end if;
            -- What it leaves out is what every first attempt has in common. The columns are those of
            -- _ff_issue_lease that can differ: an eligible row has no delay, block or mark of a lost lease.
            return query
            with claimed as (
                update flowfabric.ff_exec_core as e
                set lifecycle_phase = 'active',
                    ownership_state = 'leased',
                    eligibility_state = 'not_applicable',
                    blocking_reason = 'none',
                    attempt_state = 'running_attempt',
                    attempt_is_deferred = true,
                    total_attempt_count = e.total_attempt_count + 1,
                    current_attempt_id = i.attempt_id,
                    current_lease_id = i.lease_id,
                    current_lease_epoch = e.current_lease_epoch + 1,
                    current_worker_id = p_worker_id,
                    current_worker_instance_id = p_worker_instance_id,
                    lease_acquired_at_ms = v_now_ms,
                    lease_last_renewed_at_ms = v_now_ms,
                    lease_expires_at_ms = v_now_ms + p_lease_ttl_ms,
                    started_at_ms = v_now_ms,
                    attempt_timeout_at_ms = v_now_ms + nullif(e.attempt_timeout_ms, 0),
                    last_transition_at_ms = v_now_ms,
                    last_mutation_at_ms = v_now_ms
                from (
                    select
                        unnest(v_head_row_ids) as row_id, gen_random_uuid() as lease_id,
                        gen_random_uuid() as attempt_id
                    -- With the eyes of a statement that began under the locks: nobody else issues one now.
                    where not exists (select from flowfabric.ff_claim_grant)
                    offset 0
                ) as i
                where e.ctid = i.row_id
                returning
                    e.partition_key, e.execution_id, e.namespace, e.execution_kind, e.current_lease_id,
                    e.current_lease_epoch, e.current_attempt_id, e.total_attempt_count, e.flow_id, e.instance_tag,
                    e.created_at_ms, e.deadline_at_ms, e.attempt_timeout_at_ms, e.small_payload
            ),
            acquired as (
                insert into flowfabric.ff_lease_event (
                    partition_key, epoch, occurred_at_ms, namespace, instance_tag, execution_id, event_type,
                    lease_id, lease_epoch, attempt_index, attempt_id, worker_id, worker_instance_id, reason)
                select
                    c.partition_key, v_event_epoch, v_now_ms, c.namespace, c.instance_tag, c.execution_id,
                    'acquired', c.current_lease_id, c.current_lease_epoch, c.total_attempt_count - 1,
                    c.current_attempt_id, p_worker_id, p_worker_instance_id, 'claim_next'
                from claimed as c
                where v_emits_lease_event
            )
            select
                flowfabric.ff_format_execution_id(c.partition_key, c.execution_id), v_lane_id, c.namespace,
                c.execution_kind, v_priority, c.current_lease_id, c.current_lease_epoch, v_now_ms + p_lease_ttl_ms,
                v_now_ms + p_lease_ttl_ms * 2 / 3, c.current_attempt_id, c.total_attempt_count - 1,
                'initial'::flowfabric.ff_attempt_type, 'fresh', p_worker_instance_id, p_lease_ttl_ms,
                case when p_with_payload then flowfabric._ff_payload(c.small_payload, p.payload) end,
                p.payload_encoding,
                case when v_has_late_tags then flowfabric._ff_all_tags(c.partition_key, c.execution_id, p.tags)
                    else coalesce(p.tags, '{}') end,
                p.policy, c.flow_id, '{}'::text[], c.created_at_ms, v_now_ms, c.deadline_at_ms,
                c.attempt_timeout_at_ms, c.total_attempt_count
            from claimed as c
            left join lateral (
                select x.payload, x.payload_encoding, x.tags, x.policy
                from flowfabric.ff_exec_payload as x
                where c.small_payload is null
                    and x.partition_key = c.partition_key and x.execution_id = c.execution_id
                offset 0
            ) as p on true;
            exit quick_way when not found;
            if v_has_floor is not true then
                if v_has_floor is null or random() * 16 < p_max then
                    perform flowfabric._ff_tend_floor(v_lane_id, 1, v_priority, '', v_now_ms);
                end if;
            end if;
            if v_may_be_awaited then
                perform flowfabric._ff_wake('ff_lease_event', '*');
            end if;
            return;
        end if;

        select
            e.ctid, e.partition_key, e.execution_id, e.total_attempt_count, e.current_lease_epoch + 1, e.namespace,
            e.execution_kind, e.flow_id, e.instance_tag, e.created_at_ms, coalesce(e.started_at_ms, v_now_ms),
            e.deadline_at_ms, v_now_ms + nullif(e.attempt_timeout_ms, 0), e.small_payload,
            e.attempt_state = 'pending_first_attempt' and num_nonnulls(e.quota_policy_id, e.budget_ids) = 0
            and e.created_at_ms <= v_until_ms
        into
            v_row_id, v_partition_key, v_execution_id, v_attempt_index, v_lease_epoch, v_namespace, v_kind, v_flow_id,
            v_instance_tag, v_created_at_ms, v_started_at_ms, v_deadline_at_ms, v_timeout_at_ms, v_payload, v_is_plain
        from flowfabric.ff_exec_core as e
        where e.eligibility_state = 'eligible_now' and e.lane_id = v_lane_id and e.capability_set_id = v_set_id
            and e.priority = v_priority and e.created_at_ms >= v_from_ms
        order by e.created_at_ms, e.execution_id
        limit 1
        for no key update skip locked;
        if not found and (v_priority is null or cardinality(p_capabilities) = 0)
            and flowfabric._ff_is_nothing_left(
                v_lane_id, coalesce(v_served_set_ids, '{1}'), v_priority, v_from_ms, false, v_now_ms)
        then
            if v_lane_id = v_lanes[cardinality(v_lanes)] then
                return;
            end if;
            continue quick_way;
        end if;
        exit quick_way when v_is_plain is not true;

        v_lease_id := gen_random_uuid();
        v_attempt_id := gen_random_uuid();
        -- The columns of _ff_issue_lease that can differ: an eligible row has no delay, block or mark of a lost lease.
        update flowfabric.ff_exec_core as e
        set lifecycle_phase = 'active',
            ownership_state = 'leased',
            eligibility_state = 'not_applicable',
            blocking_reason = 'none',
            attempt_state = 'running_attempt',
            attempt_is_deferred = true,
            total_attempt_count = v_attempt_index + 1,
            current_attempt_id = v_attempt_id,
            current_lease_id = v_lease_id,
            current_lease_epoch = v_lease_epoch,
            current_worker_id = p_worker_id,
            current_worker_instance_id = p_worker_instance_id,
            lease_acquired_at_ms = v_now_ms,
            lease_last_renewed_at_ms = v_now_ms,
            lease_expires_at_ms = v_now_ms + p_lease_ttl_ms,
            started_at_ms = v_started_at_ms,
            attempt_timeout_at_ms = v_timeout_at_ms,
            last_transition_at_ms = v_now_ms,
            last_mutation_at_ms = v_now_ms
        where e.ctid = v_row_id
            and not exists (
                select from flowfabric.ff_claim_grant as g
                where g.partition_key = v_partition_key and g.execution_id = v_execution_id);
        if found then
            if v_emits_lease_event then
                insert into flowfabric.ff_lease_event (
                    partition_key, epoch, occurred_at_ms, namespace, instance_tag, execution_id, event_type, lease_id,
                    lease_epoch, attempt_index, attempt_id, worker_id, worker_instance_id, reason)
                values (
                    v_partition_key, v_event_epoch, v_now_ms, v_namespace, v_instance_tag, v_execution_id, 'acquired',
                    v_lease_id, v_lease_epoch, v_attempt_index, v_attempt_id, p_worker_id, p_worker_instance_id,
                    'claim_next');
            end if;
            -- Whether there are late tags is not known here of a worker with capabilities.
            if v_payload is null or v_has_late_tags is not false then
                if v_payload is null then
                    select p.payload, p.payload_encoding, p.tags, p.policy
                    into v_payload, v_encoding, v_tags, v_policy
                    from flowfabric.ff_exec_payload as p
                    where p.partition_key = v_partition_key and p.execution_id = v_execution_id;
                end if;
                if v_has_late_tags is not false then
                    v_tags := flowfabric._ff_all_tags(v_partition_key, v_execution_id, v_tags);
                end if;
            end if;
            if v_has_floor is not true then
                if v_has_floor is null or random() * 16 < p_max then
                    perform flowfabric._ff_tend_floor(v_lane_id, v_set_id, v_priority, '', v_now_ms);
                end if;
            end if;
            if v_may_be_awaited then
                perform flowfabric._ff_wake('ff_lease_event', '*');
            end if;
            v_claim := row(
                flowfabric.ff_format_execution_id(v_partition_key, v_execution_id), v_lane_id, v_namespace, v_kind,
                v_priority, v_lease_id, v_lease_epoch, v_now_ms + p_lease_ttl_ms, v_now_ms + p_lease_ttl_ms * 2 / 3,
                v_attempt_id, v_attempt_index, 'initial', 'fresh', p_worker_instance_id, p_lease_ttl_ms,
                case when p_with_payload then nullif(v_payload, ''::bytea) end, v_encoding, v_tags, v_policy, v_flow_id,
                coalesce(v_tokens, '{}'), v_created_at_ms, v_started_at_ms, v_deadline_at_ms, v_timeout_at_ms,
                v_attempt_index + 1)::flowfabric.ff_claimed_execution;
            return next v_claim;
            return;
        end if;
        exit quick_way;
    end loop quick_way;

    perform flowfabric._ff_check_next_args(
        p_lanes, p_worker_id, p_worker_instance_id, p_max, p_namespace, p_lane_order,
        array[p_include_resumed, p_promote_due, p_with_payload],
        array['include_resumed', 'promote_due', 'with_payload'], p_partition_key, c_fn);
    perform flowfabric._ff_check_lease_ttl(p_lease_ttl_ms, c_fn);
    v_next := flowfabric._ff_take_next(
        p_lanes, p_worker_instance_id, flowfabric._ff_normalize_capabilities(p_capabilities, 'worker', c_fn), p_max,
        p_namespace, p_lane_order, p_include_resumed, p_promote_due, p_partition_key);
    if cardinality(v_next.taken) > 0 then
        return query
        select c.*
        from flowfabric._ff_claim_taken(
            v_next.taken, p_worker_id, p_worker_instance_id, p_lease_ttl_ms, p_with_payload,
            v_next.uses_floors and p_namespace is null, v_next.now_ms) as c;
    end if;
    if v_next.promoted is not null then
        perform flowfabric._ff_wake_promoted(v_next.promoted, v_next.taken);
    end if;
end;
$$;

comment on function flowfabric.ff_claim_next(
    text[], text, text, text[], integer, bigint, text, text, boolean, boolean, boolean, smallint) is
'Claims the next executions of some lanes for a worker, by priority and age, as its capabilities and limits allow.';

grant execute on function flowfabric.ff_claim_next(
    text[], text, text, text[], integer, bigint, text, text, boolean, boolean, boolean, smallint)
to flowfabric_worker;

-- The lanes in which a claim of one looks, one after the other, until it finds something. None where one is unknown or
-- named twice, where there are too many, or where the order is that of all lanes together.
create or replace function flowfabric._ff_lanes_in_turn(p_lanes text[], p_lane_order text)
returns text[]
language plpgsql volatile
as $$
declare
    v_lanes text[];
begin
    select array_agg(
        l.lane_id
        order by case when p_lane_order = 'fair' then random() else array_position(p_lanes, l.lane_id::text) end)
    into v_lanes
    from flowfabric.ff_lane_registry as l
    where l.lane_id = any (p_lanes) and cardinality(p_lanes) <= 32 and p_lane_order <> 'global';
    return case when cardinality(v_lanes) = cardinality(p_lanes) then v_lanes end;
end;
$$;
comment on function flowfabric._ff_lanes_in_turn(text[], text) is
'Internal: known lanes in the order in which a claim of one looks into them; NULL leaves it to the general way.';

-- Where the quick way for several begins. NULL where anything but a first attempt without quota and budget is among
-- them.
create or replace function flowfabric._ff_lock_plain_head(
    p_lane_id text,
    p_priority integer,
    p_from_ms bigint,
    p_limit integer
)
returns tid[]
language plpgsql volatile
as $$
declare
    v_row_ids tid[];
    v_are_plain boolean;
begin
    select coalesce(array_agg(h.row_id), '{}'), bool_and(h.is_plain) is not false
    into v_row_ids, v_are_plain
    from (
        select
            e.ctid as row_id,
            e.attempt_state = 'pending_first_attempt' and num_nonnulls(e.quota_policy_id, e.budget_ids) = 0 as is_plain
        from flowfabric.ff_exec_core as e
        where e.eligibility_state = 'eligible_now' and e.lane_id = p_lane_id and e.capability_set_id = 1
            and e.priority = p_priority and e.created_at_ms >= p_from_ms
        order by e.created_at_ms, e.execution_id
        limit p_limit
        for no key update skip locked
    ) as h;
    return case when v_are_plain then v_row_ids end;
end;
$$;
comment on function flowfabric._ff_lock_plain_head(text, integer, bigint, integer) is
'Internal: locks the first executions of a queue segment that nobody else holds; NULL leaves it to the general way.';

-- A claim that found too little above the floors reads its queues from their beginning before it answers. NULL as the
-- priority means that no queue has anything above its floors. If the claim holds executions of this priority, or others
-- do, the queue is not empty: then what it has not read yet is asked for, part by part.
create or replace function flowfabric._ff_is_nothing_left(
    p_lane_id text,
    p_set_ids integer[],
    p_priority integer,
    p_from_ms bigint,
    p_holds_some boolean,
    p_now_ms bigint
)
returns boolean
language plpgsql volatile
as $$
declare
    v_started_at timestamptz := clock_timestamp();
    v_is_resting boolean;
    v_delayed_floor_ms bigint;
    v_some_wait boolean;
begin
    select
        f.is_resting, f.delayed_floor_ms,
        p_holds_some or f.is_resting is true or exists (
            select from flowfabric.ff_exec_core as e
            where e.eligibility_state = 'eligible_now' and e.lane_id = p_lane_id
                and e.capability_set_id = any (p_set_ids))
    into v_is_resting, v_delayed_floor_ms, v_some_wait
    from (
        select
            bool_or(x.checked_at_ms > p_now_ms) as is_resting,
            min(x.floor_ms) filter (where x.capability_set_id = 0 and x.side > 0) as delayed_floor_ms
        from flowfabric.ff_lane_floor as x
        where x.lane_id = p_lane_id and x.capability_set_id = any (0 || p_set_ids) and x.namespace = ''
    ) as f;
    if v_is_resting then
        return p_priority is null or not exists (
            select from flowfabric.ff_lane_floor as f
            where f.lane_id = p_lane_id and f.capability_set_id = 1 and f.priority < p_priority and f.namespace = '')
            and not exists (
                select from flowfabric.ff_exec_core as e
                where e.eligibility_state = 'eligible_now' and e.lane_id = p_lane_id and e.capability_set_id = 1
                    and e.priority < p_priority);
    end if;

    if v_some_wait then
        if p_priority is null or exists (
            select from flowfabric.ff_exec_core as e
            where e.eligibility_state = 'eligible_now' and e.lane_id = p_lane_id and e.capability_set_id = 1
                and e.priority = p_priority and e.created_at_ms < p_from_ms)
            or exists (
                select from flowfabric.ff_exec_core as e
                where e.eligibility_state = 'eligible_now' and e.lane_id = p_lane_id and e.capability_set_id = 1
                    and e.priority < p_priority)
            or exists (
                select from flowfabric.ff_exec_core as e
                where e.eligibility_state = 'eligible_now' and e.lane_id = p_lane_id and e.capability_set_id = 1
                    and e.priority > p_priority)
        then
            return false;
        end if;
    end if;
    if v_delayed_floor_ms > 0 then
        if exists (
            select from flowfabric.ff_exec_core as e
            where e.eligibility_state = 'not_eligible_until_time' and e.lane_id = p_lane_id
                and e.delay_until_ms < v_delayed_floor_ms)
        then
            return false;
        end if;
    end if;
    if clock_timestamp() > v_started_at + interval '1 ms' then
        perform flowfabric._ff_note_slow_scan(array[p_lane_id], p_set_ids, '', p_now_ms);
    end if;
    return true;
end;
$$;
comment on function flowfabric._ff_is_nothing_left(text, integer[], integer, bigint, boolean, bigint) is
'Internal: whether a claim that has taken what it found above the floors can know that nothing else waits.';

-- Body F and Body R for all rows that were taken, in their order (spec 40, section 1.10): one statement writes the
-- executions, the new attempts and the events and reads the answer. What only some rows need is read before it, into
-- arrays, and written after it, if any needs it: each table that a statement names costs 10 us, whether or not it is
-- read, and each column that its parts hand on costs every row. The answer keeps the order of what was taken, because
-- nested loops do.
create or replace function flowfabric._ff_claim_taken(
    p_taken flowfabric.ff_claim_candidate[],
    p_worker_id text,
    p_worker_instance_id text,
    p_lease_ttl_ms bigint,
    p_with_payload boolean,
    p_uses_floors boolean,
    p_now_ms bigint
)
returns setof flowfabric.ff_claimed_execution
language plpgsql volatile
as $$
declare
    v_taken flowfabric.ff_claim_candidate[] := p_taken;
    v_event_epoch smallint;
    v_emits_lease_events boolean;
    v_there_are_grants boolean;
    v_some_are_resumed boolean;
    v_some_are_pending boolean;
    v_some_have_grants boolean;
    v_some_lack_floors boolean;
    v_may_be_awaited boolean;
    v_has_late_tags boolean;
    v_attempt_types flowfabric.ff_attempt_type[];
    v_timeouts_remaining_ms bigint[];
    v_retry_reasons text[];
    v_replay_reasons text[];
    v_replay_requesters text[];
    v_previous_indexes integer[];
    v_segment record;
begin
    select
        c.event_epoch, c.lease_events, exists (select from flowfabric.ff_claim_grant),
        c.event_waiters_until_ms > p_now_ms, c.has_late_tags, t.some_are_resumed, t.some_are_pending,
        t.some_have_grants, t.some_lack_floors
    into
        v_event_epoch, v_emits_lease_events, v_there_are_grants, v_may_be_awaited, v_has_late_tags,
        v_some_are_resumed, v_some_are_pending, v_some_have_grants, v_some_lack_floors
    from flowfabric.ff_partition_config as c
    cross join (
        select
            bool_or(u.attempt_state = 'attempt_interrupted') as some_are_resumed,
            bool_or(u.attempt_state in ('pending_retry_attempt', 'pending_replay_attempt')) as some_are_pending,
            bool_or(u.has_grant) as some_have_grants,
            bool_or(u.has_floor is not true) as some_lack_floors
        from unnest(p_taken) as u
    ) as t;
    if v_there_are_grants then
        -- Somebody may have issued one between the view of the queue and the lock.
        v_taken := array(
            select p_taken[n.number]
            from generate_subscripts(p_taken, 1) as n (number)
            where not exists (
                select from flowfabric.ff_claim_grant as g
                where g.partition_key = (p_taken[n.number]).partition_key
                    and g.execution_id = (p_taken[n.number]).execution_id and g.expires_at_ms >= p_now_ms)
            order by n.number);
    end if;
    if v_some_are_resumed or v_some_are_pending then
        select
            array_agg(a.attempt_type order by u.item_number), array_agg(a.timeout_remaining_ms order by u.item_number),
            array_agg(n.pending_retry_reason order by u.item_number),
            array_agg(n.pending_replay_reason order by u.item_number),
            array_agg(n.pending_replay_requested_by order by u.item_number),
            array_agg(n.pending_previous_attempt_index order by u.item_number)
        into
            v_attempt_types, v_timeouts_remaining_ms, v_retry_reasons, v_replay_reasons, v_replay_requesters,
            v_previous_indexes
        from unnest(v_taken) with ordinality as u (
            partition_key, execution_id, row_id, lane_id, capability_set_id, priority, total_attempt_count,
            attempt_state, quota_policy_id, budget_ids, has_floor, has_grant, item_number)
        left join lateral (
            select c.attempt_type, c.timeout_remaining_ms
            from flowfabric.ff_attempt as c
            where u.attempt_state = 'attempt_interrupted'
                and c.partition_key = u.partition_key and c.execution_id = u.execution_id
                and c.attempt_index = u.total_attempt_count - 1
            offset 0
        ) as a on true
        left join lateral (
            select
                c.pending_retry_reason, c.pending_replay_reason, c.pending_replay_requested_by,
                c.pending_previous_attempt_index
            from flowfabric.ff_exec_note as c
            where u.attempt_state in ('pending_retry_attempt', 'pending_replay_attempt')
                and c.partition_key = u.partition_key and c.execution_id = u.execution_id
            offset 0
        ) as n on true;
    end if;

    return query
    with item as materialized (
        select
            u.row_id, u.item_number, u.attempt_state = 'attempt_interrupted' as is_resumed,
            u.attempt_state = 'pending_first_attempt' as is_first, gen_random_uuid() as lease_id,
            case when u.attempt_state <> 'attempt_interrupted' then gen_random_uuid() end as new_attempt_id,
            case u.attempt_state
                when 'attempt_interrupted' then v_attempt_types[u.item_number]
                when 'pending_retry_attempt' then 'retry'
                when 'pending_replay_attempt' then 'replay'
                else 'initial'
            end as attempt_type
        from unnest(v_taken) with ordinality as u (
            partition_key, execution_id, row_id, lane_id, capability_set_id, priority, total_attempt_count,
            attempt_state, quota_policy_id, budget_ids, has_floor, has_grant, item_number)
    ),
    -- The columns of _ff_issue_lease that can differ: an eligible row has no delay, block or mark of a lost lease.
    claimed as (
        update flowfabric.ff_exec_core as e
        set lifecycle_phase = 'active',
            ownership_state = 'leased',
            eligibility_state = 'not_applicable',
            blocking_reason = 'none',
            attempt_state = 'running_attempt',
            attempt_is_deferred = i.is_first,
            total_attempt_count = e.total_attempt_count + (not i.is_resumed)::integer,
            current_attempt_id = coalesce(i.new_attempt_id, e.current_attempt_id),
            current_lease_id = i.lease_id,
            current_lease_epoch = e.current_lease_epoch + 1,
            current_worker_id = p_worker_id,
            current_worker_instance_id = p_worker_instance_id,
            lease_acquired_at_ms = p_now_ms,
            lease_last_renewed_at_ms = p_now_ms,
            lease_expires_at_ms = p_now_ms + p_lease_ttl_ms,
            started_at_ms = coalesce(e.started_at_ms, p_now_ms),
            attempt_timeout_at_ms = p_now_ms
                + nullif(coalesce(v_timeouts_remaining_ms[i.item_number], e.attempt_timeout_ms), 0),
            last_transition_at_ms = p_now_ms,
            last_mutation_at_ms = p_now_ms
        from item as i
        where e.ctid = i.row_id
        returning
            i.item_number, i.is_resumed, i.is_first, i.attempt_type, e.partition_key, e.execution_id, e.lane_id,
            e.namespace, e.execution_kind, e.priority, e.current_lease_id, e.current_lease_epoch, e.current_attempt_id,
            e.total_attempt_count, e.capability_set_id, e.flow_id, e.instance_tag, e.created_at_ms, e.started_at_ms,
            e.deadline_at_ms, e.attempt_timeout_at_ms, e.small_payload
    ),
    started as (
        insert into flowfabric.ff_attempt (
            partition_key, execution_id, attempt_index, attempt_type, attempt_state, attempt_id, lease_id, lease_epoch,
            worker_id, worker_instance_id, created_at_ms, started_at_ms, retry_reason, previous_attempt_index,
            replay_reason, replay_requested_by, replayed_from_attempt_index)
        select
            c.partition_key, c.execution_id, c.total_attempt_count - 1, c.attempt_type, 'started',
            c.current_attempt_id, c.current_lease_id, c.current_lease_epoch, p_worker_id, p_worker_instance_id,
            p_now_ms, p_now_ms,
            case c.attempt_type when 'retry' then v_retry_reasons[c.item_number] end,
            case c.attempt_type when 'retry' then v_previous_indexes[c.item_number] end,
            case c.attempt_type when 'replay' then v_replay_reasons[c.item_number] end,
            case c.attempt_type when 'replay' then v_replay_requesters[c.item_number] end,
            case c.attempt_type when 'replay' then v_previous_indexes[c.item_number] end
        from claimed as c
        where not (c.is_resumed or c.is_first)
    ),
    acquired as (
        insert into flowfabric.ff_lease_event (
            partition_key, epoch, occurred_at_ms, namespace, instance_tag, execution_id, event_type, lease_id,
            lease_epoch, attempt_index, attempt_id, worker_id, worker_instance_id, reason)
        select
            c.partition_key, v_event_epoch, p_now_ms, c.namespace, c.instance_tag, c.execution_id, 'acquired',
            c.current_lease_id, c.current_lease_epoch, c.total_attempt_count - 1, c.current_attempt_id, p_worker_id,
            p_worker_instance_id, 'claim_next'
        from claimed as c
        where v_emits_lease_events
    )
    select
        flowfabric.ff_format_execution_id(c.partition_key, c.execution_id), c.lane_id, c.namespace, c.execution_kind,
        c.priority, c.current_lease_id, c.current_lease_epoch, p_now_ms + p_lease_ttl_ms,
        p_now_ms + p_lease_ttl_ms * 2 / 3, c.current_attempt_id, c.total_attempt_count - 1, c.attempt_type,
        case when c.is_resumed then 'resumed' else 'fresh' end, p_worker_instance_id, p_lease_ttl_ms,
        case when p_with_payload then flowfabric._ff_payload(c.small_payload, p.payload) end, p.payload_encoding,
        case when v_has_late_tags then flowfabric._ff_all_tags(c.partition_key, c.execution_id, p.tags)
            else coalesce(p.tags, '{}') end,
        p.policy, c.flow_id,
        case when c.capability_set_id = 1 then '{}'::text[]
            else (
                select x.tokens from flowfabric.ff_capability_set as x where x.capability_set_id = c.capability_set_id)
        end,
        c.created_at_ms, c.started_at_ms, c.deadline_at_ms, c.attempt_timeout_at_ms, c.total_attempt_count
    from claimed as c
    left join lateral (
        select x.payload, x.payload_encoding, x.tags, x.policy
        from flowfabric.ff_exec_payload as x
        where c.small_payload is null and x.partition_key = c.partition_key and x.execution_id = c.execution_id
        offset 0
    ) as p on true;

    if v_some_are_resumed then
        update flowfabric.ff_attempt as a
        set attempt_state = 'started',
            resumed_at_ms = p_now_ms,
            lease_id = k.lease_id,
            lease_epoch = k.lease_epoch,
            worker_id = p_worker_id,
            worker_instance_id = p_worker_instance_id,
            suspended_at_ms = null,
            suspension_id = null,
            timeout_remaining_ms = null
        from flowfabric._ff_claimed_of(v_taken) as k
        where k.attempt_state = 'attempt_interrupted'
            and a.partition_key = k.partition_key and a.execution_id = k.execution_id
            and a.attempt_index = k.attempt_index;
    end if;
    if v_some_are_pending then
        update flowfabric.ff_exec_note as n
        set pending_retry_reason = null,
            pending_replay_reason = null,
            pending_replay_requested_by = null,
            pending_previous_attempt_index = null
        from flowfabric._ff_claimed_of(v_taken) as k
        where k.attempt_state in ('pending_retry_attempt', 'pending_replay_attempt')
            and n.partition_key = k.partition_key and n.execution_id = k.execution_id;
    end if;
    if v_some_have_grants then
        delete from flowfabric.ff_claim_grant as g
        using flowfabric._ff_claimed_of(v_taken) as k
        where g.partition_key = k.partition_key and g.execution_id = k.execution_id;
    end if;
    if p_uses_floors and v_some_lack_floors then
        for v_segment in
            select u.lane_id, u.capability_set_id, u.priority
            from unnest(v_taken) as u
            where u.has_floor is not true
            group by u.lane_id, u.capability_set_id, u.priority
            having bool_and(u.has_floor is null) or random() * 16 < count(*)
        loop
            perform flowfabric._ff_tend_floor(
                v_segment.lane_id, v_segment.capability_set_id, v_segment.priority, '', p_now_ms);
        end loop;
    end if;
    if v_may_be_awaited then
        perform flowfabric._ff_wake('ff_lease_event', '*');
    end if;
end;
$$;
comment on function flowfabric._ff_claim_taken(
    flowfabric.ff_claim_candidate[], text, text, bigint, boolean, boolean, bigint) is
'Internal: claims what was taken, all of it together, and returns it in order.';

create or replace function flowfabric._ff_claimed_of(p_taken flowfabric.ff_claim_candidate[])
returns table (
    partition_key smallint,
    execution_id uuid,
    attempt_state flowfabric.ff_attempt_state,
    attempt_index integer,
    lease_id uuid,
    lease_epoch bigint
)
language sql stable
as $$
    select
        u.partition_key, u.execution_id, u.attempt_state, e.total_attempt_count - 1, e.current_lease_id,
        e.current_lease_epoch
    from unnest(p_taken) as u
    cross join lateral (
        select c.total_attempt_count, c.current_lease_id, c.current_lease_epoch
        from flowfabric.ff_exec_core as c
        where c.partition_key = u.partition_key and c.execution_id = u.execution_id and c.ownership_state = 'leased'
        offset 0
    ) as e
$$;
comment on function flowfabric._ff_claimed_of(flowfabric.ff_claim_candidate[]) is
'Internal: the leases of what was taken, with the attempt state that each execution had before.';

-- Where the quick way of a worker with capabilities begins: of the queues that it serves, the one with the best head.
-- Its turn ends behind the head of the next best, because if somebody holds the best, that one is next; but of one
-- millisecond nothing is first. Without a priority nothing waits.
create or replace function flowfabric._ff_best_head(
    p_lane_id text,
    p_capabilities text[],
    p_now_ms bigint,
    out is_ordinary boolean,
    out emits_lease_events boolean,
    out may_be_awaited boolean,
    out event_epoch smallint,
    out served_set_ids integer[],
    out capability_set_id integer,
    out tokens text[],
    out priority integer,
    out from_ms bigint,
    out until_ms bigint,
    out has_floor boolean
)
language plpgsql stable
as $$
begin
    served_set_ids := flowfabric._ff_covered_sets(p_capabilities);
    select
        l.lane_state in ('active', 'draining')
        and c.claim_floor_recheck_ms > 0
        and flowfabric._ff_is_floor_ahead(f.due_at_ms, c.claim_floor_recheck_ms, p_now_ms) is not true
        and not exists (
            select from flowfabric.ff_exec_core as e
            where e.eligibility_state = 'not_eligible_until_time' and e.lane_id = l.lane_id
                and e.delay_until_ms >= f.delayed_floor_ms and e.delay_until_ms <= p_now_ms),
        c.lease_events, c.event_waiters_until_ms > p_now_ms, c.event_epoch
    into is_ordinary, emits_lease_events, may_be_awaited, event_epoch
    from flowfabric.ff_lane_registry as l
    cross join flowfabric.ff_partition_config as c
    cross join (
        select
            max(x.due_at_ms) as due_at_ms,
            coalesce(min(x.floor_ms) filter (where x.capability_set_id = 0), 0) as delayed_floor_ms
        from flowfabric.ff_lane_floor as x
        where x.lane_id = p_lane_id and x.capability_set_id = any (0 || served_set_ids)
            and x.namespace = '' and x.side > 0
    ) as f
    where l.lane_id = p_lane_id;
    if is_ordinary is not true then
        return;
    end if;
    select
        h.capability_set_id, h.priority, h.from_ms, h.has_floor, h.until_ms,
        (select x.tokens from flowfabric.ff_capability_set as x where x.capability_set_id = h.capability_set_id)
    into capability_set_id, priority, from_ms, has_floor, until_ms, tokens
    from (
        select
            s.capability_set_id, q.priority, q.from_ms, q.has_floor,
            case lead(q.priority) over w when q.priority then lead(q.created_at_ms) over w
                else 9223372036854775807 end as until_ms
        from unnest(served_set_ids) as s (capability_set_id)
        cross join lateral (
            select
                e.priority, e.created_at_ms, e.execution_id, r.from_ms,
                r.due_at_ms > p_now_ms as has_floor
            from flowfabric._ff_queue_ranges(p_lane_id, s.capability_set_id, '', true) as r
            cross join lateral (
                select c.priority, c.created_at_ms, c.execution_id
                from flowfabric.ff_exec_core as c
                where c.eligibility_state = 'eligible_now' and c.lane_id = p_lane_id
                    and c.capability_set_id = s.capability_set_id
                    and c.priority <= r.highest and c.priority >= r.lowest and c.created_at_ms >= r.from_ms
                order by c.priority desc, c.created_at_ms, c.execution_id
                limit 1
            ) as e
            limit 1
        ) as q
        window w as (order by q.priority desc, q.created_at_ms, q.execution_id)
        order by q.priority desc, q.created_at_ms, q.execution_id
    ) as h
    limit 1;
end;
$$;
comment on function flowfabric._ff_best_head(text, text[], bigint) is
'Internal: which queue of a lane has the best execution for a worker with capabilities.';
