-- How the claim family finds work: the queue, its floors, and the way of a candidate from there to a worker.
--
-- The queue is the partial index ff_exec_core_claim_idx, in the order of spec 40 section 1.7 per lane and capability
-- set. A worker that asks sees only the sets that it covers, so work that it cannot do costs it nothing. Executions are
-- locked in queue order with SKIP LOCKED and never waited for; quota policies are waited for once, in ascending order.
-- Whoever holds a quota policy therefore never waits for an execution, and there is no deadlock to be had.
--
-- A candidate is read with its predicate and locked by the same statement, or read first and locked later with the
-- predicate repeated. Grants are a matter of their own: issuing one locks the execution and leaves its row unchanged,
-- so whoever has locked it must look for a grant once more, in a new statement.
--
-- Regions and candidates are joined by nested loops, which lateral subqueries with a limit allow only; a loop keeps the
-- order of its outer side and stops reading where its consumer does. That is why a claim of one execution reads one.

-- Arguments

create or replace function flowfabric._ff_check_lanes(p_lanes text[], p_fn text)
returns void
language plpgsql stable
as $$
declare
    v_lane_id text;
    v_seen text[] := '{}'::text[];
begin
    if (cardinality(p_lanes) between 1 and 32 and array_ndims(p_lanes) = 1) is not true then
        perform flowfabric._ff_raise_invalid(
            p_fn, 'lanes',
            case
                when p_lanes is null then 'null'
                when cardinality(p_lanes) = 0 then 'empty'
                when array_ndims(p_lanes) > 1 then 'nested'
                else 'too_many_items'
            end,
            cardinality(p_lanes)::text);
    end if;
    foreach v_lane_id in array p_lanes loop
        if not flowfabric._ff_is_lane_id(v_lane_id) then
            perform flowfabric._ff_raise_invalid_lane(v_lane_id, p_fn, 'lanes');
        end if;
        if v_lane_id = any (v_seen) then
            perform flowfabric._ff_raise_invalid(p_fn, 'lanes', 'duplicate', v_lane_id);
        end if;
        v_seen := v_seen || v_lane_id;
    end loop;
end;
$$;
comment on function flowfabric._ff_check_lanes(text[], text) is
'Internal: raises invalid_input unless there are 1 to 32 distinct, well-formed lanes.';

create or replace function flowfabric._ff_check_next_args(
    p_lanes text[],
    p_worker_id text,
    p_worker_instance_id text,
    p_max integer,
    p_namespace text,
    p_lane_order text,
    p_flags boolean[],
    p_flag_names text[],
    p_partition_key smallint,
    p_fn text
)
returns void
language plpgsql stable
as $$
begin
    perform flowfabric._ff_check_lanes(p_lanes, p_fn);
    perform flowfabric._ff_check_claimer(p_worker_id, p_worker_instance_id, null, p_fn);
    if (p_max between 1 and 100) is not true then
        perform flowfabric._ff_raise_invalid(
            p_fn, 'max', case when p_max is null then 'null' else 'out_of_range' end, p_max::text);
    end if;
    -- An empty namespace is refused: a caller that computed one must not get the work of every tenant.
    if p_namespace is not null and not flowfabric._ff_is_name(p_namespace) then
        perform flowfabric._ff_raise_invalid_name(p_namespace, 'namespace', p_fn);
    end if;
    if (p_lane_order = any (flowfabric._ff_legal_values('lane_order'))) is not true then
        perform flowfabric._ff_raise_unknown(
            p_fn, 'lane_order', p_lane_order, flowfabric._ff_legal_values('lane_order'));
    end if;
    for i in 1 .. cardinality(p_flags) loop
        if p_flags[i] is null then
            perform flowfabric._ff_raise_invalid(p_fn, p_flag_names[i], 'null');
        end if;
    end loop;
    if p_partition_key < 0 then
        perform flowfabric._ff_raise_invalid(p_fn, 'partition_key', 'out_of_range', p_partition_key::text);
    end if;
end;
$$;
comment on function flowfabric._ff_check_next_args(
    text[], text, text, integer, text, text, boolean[], text[], smallint, text) is
'Internal: raises invalid_input unless the arguments that ff_claim_next and its relatives share are well formed.';

create or replace function flowfabric._ff_check_lease_ttl(p_lease_ttl_ms bigint, p_fn text)
returns void
language plpgsql stable
as $$
begin
    if (p_lease_ttl_ms between 1 and 86400000) is not true then
        perform flowfabric._ff_raise_invalid(
            p_fn, 'lease_ttl_ms', case when p_lease_ttl_ms is null then 'null' else 'out_of_range' end,
            p_lease_ttl_ms::text);
    end if;
end;
$$;
comment on function flowfabric._ff_check_lease_ttl(bigint, text) is
'Internal: raises invalid_input unless a lease may last so long.';

-- An unregistered worker is no drained one: the registry informs, it does not admit.
create or replace function flowfabric._ff_is_draining(
    p_namespace text,
    p_worker_instance_id text,
    p_now_ms bigint
)
returns boolean
language plpgsql stable
as $$
begin
    return exists (
        select from flowfabric.ff_worker_registry as w
        where w.namespace = p_namespace and w.worker_instance_id = p_worker_instance_id and w.draining
            and w.last_heartbeat_ms + w.liveness_ttl_ms > p_now_ms);
end;
$$;
comment on function flowfabric._ff_is_draining(text, text, bigint) is
'Internal: whether a live worker of a namespace was asked to take no more work.';

create or replace function flowfabric._ff_covered_sets(p_capabilities text[])
returns integer[]
language plpgsql stable
as $$
begin
    -- Without capabilities there is nothing to look up: 1 is the empty set.
    if cardinality(p_capabilities) = 0 then
        return '{1}'::integer[];
    end if;
    return array(
        select s.capability_set_id
        from flowfabric.ff_capability_set as s
        where s.tokens <@ p_capabilities);
end;
$$;
comment on function flowfabric._ff_covered_sets(text[]) is
'Internal: the sets of required capabilities that a worker with these normalised capabilities covers.';

-- Delays

-- _ff_become_eligible for many. A delayed execution has no owner and no block, so the columns below are those that can
-- differ (HOTPATH 2.9); one by one it takes three times as long. The caller wakes whom it concerns: what it claims
-- itself is nobody else's news.
create or replace function flowfabric._ff_promote_lanes(
    p_lanes text[],
    p_limit integer,
    p_use_floors boolean,
    p_now_ms bigint
)
returns flowfabric.ff_execution_key[]
language plpgsql volatile
as $$
declare
    v_row_ids tid[];
    v_promoted flowfabric.ff_execution_key[];
    v_segment record;
begin
    select array_agg(e.row_id) into v_row_ids
    from (
        select d.partition_key, d.execution_id
        from unnest(p_lanes) as l (lane_id)
        cross join lateral (
            select c.partition_key, c.execution_id, c.delay_until_ms
            from flowfabric.ff_exec_core as c
            where c.eligibility_state = 'not_eligible_until_time' and c.lane_id = l.lane_id
                and c.delay_until_ms >= flowfabric._ff_delayed_floor(l.lane_id, p_use_floors)
                and c.delay_until_ms <= p_now_ms
            order by c.delay_until_ms
            limit p_limit
        ) as d
        order by d.delay_until_ms
        limit p_limit
    ) as due
    cross join lateral (
        select c.ctid as row_id
        from flowfabric.ff_exec_core as c
        where c.partition_key = due.partition_key and c.execution_id = due.execution_id
            and c.eligibility_state = 'not_eligible_until_time' and c.delay_until_ms <= p_now_ms
        for no key update skip locked
    ) as e;
    with promoted as (
        update flowfabric.ff_exec_core as e
        set eligibility_state = 'eligible_now',
            blocking_reason = 'waiting_for_worker',
            blocking_detail = null,
            delay_until_ms = null,
            last_transition_at_ms = p_now_ms,
            last_mutation_at_ms = p_now_ms
        where e.ctid = any (v_row_ids)
        returning e.partition_key, e.execution_id
    )
    select array_agg(row(p.partition_key, p.execution_id)::flowfabric.ff_execution_key) into v_promoted
    from promoted as p;
    for v_segment in
        select e.lane_id, e.capability_set_id, e.priority, e.namespace, min(e.created_at_ms) as oldest_ms
        from unnest(v_promoted) as p
        cross join lateral (
            select c.lane_id, c.capability_set_id, c.priority, c.namespace, c.created_at_ms
            from flowfabric.ff_exec_core as c
            where c.partition_key = p.partition_key and c.execution_id = p.execution_id
            offset 0
        ) as e
        group by e.lane_id, e.capability_set_id, e.priority, e.namespace
    loop
        perform flowfabric._ff_announce_eligible(
            v_segment.lane_id, v_segment.capability_set_id, v_segment.priority, v_segment.namespace,
            v_segment.oldest_ms, p_now_ms);
    end loop;
    if p_use_floors then
        perform flowfabric._ff_tend_floor(l.lane_id, 0, 0, '', p_now_ms)
        from (
            select distinct e.lane_id
            from unnest(v_promoted) as p
            cross join lateral (
                select c.lane_id
                from flowfabric.ff_exec_core as c
                where c.partition_key = p.partition_key and c.execution_id = p.execution_id
                offset 0
            ) as e
        ) as l;
    end if;
    return v_promoted;
end;
$$;
comment on function flowfabric._ff_promote_lanes(text[], integer, boolean, bigint) is
'Internal: makes delayed executions of these lanes eligible, longest due first; wakes nobody.';

create or replace function flowfabric._ff_wake_promoted(
    p_promoted flowfabric.ff_execution_key[],
    p_taken flowfabric.ff_claim_candidate[]
)
returns void
language plpgsql volatile
as $$
begin
    perform flowfabric._ff_wake('ff_eligible', w.lane_id)
    from (
        select distinct e.lane_id
        from unnest(p_promoted) as p
        cross join lateral (
            select c.lane_id
            from flowfabric.ff_exec_core as c
            where c.partition_key = p.partition_key and c.execution_id = p.execution_id
            offset 0
        ) as e
        where not exists (
            select from unnest(p_taken) as t
            where t.partition_key = p.partition_key and t.execution_id = p.execution_id)
    ) as w;
end;
$$;
comment on function flowfabric._ff_wake_promoted(flowfabric.ff_execution_key[], flowfabric.ff_claim_candidate[]) is
'Internal: wakes the lanes in which a claim promoted something that it did not take itself.';

-- Candidates

-- The usual case, one lane and one capability set: the queue need not be merged, so it is read and locked in one go,
-- past whatever others hold, until enough are held. Constrained candidates are among them like all others: a row that
-- is locked here is either taken or blocked by its quota or budget, never left lying.
create or replace function flowfabric._ff_lock_head(
    p_lane_id text,
    p_capability_set_id integer,
    p_limit integer,
    p_filter flowfabric.ff_claim_filter,
    out candidates flowfabric.ff_claim_candidate[],
    out some_are_constrained boolean
)
language plpgsql volatile
as $$
declare
    v_there_are_grants boolean := exists (select from flowfabric.ff_claim_grant);
begin
    select
        array_agg(row(
            c.partition_key, c.execution_id, c.row_id, c.lane_id, c.capability_set_id, c.priority,
            c.total_attempt_count, c.attempt_state, c.quota_policy_id, c.budget_ids, c.has_floor, c.has_grant
        )::flowfabric.ff_claim_candidate),
        bool_or(num_nonnulls(c.quota_policy_id, c.budget_ids) > 0)
    into candidates, some_are_constrained
    from (
        select
            h.partition_key, h.execution_id, h.row_id, h.lane_id, h.capability_set_id, h.priority,
            h.total_attempt_count, h.attempt_state, h.quota_policy_id, h.budget_ids,
            r.due_at_ms > p_filter.now_ms as has_floor, h.has_grant
        from flowfabric._ff_queue_ranges(
            p_lane_id, p_capability_set_id, coalesce(p_filter.namespace, ''), p_filter.use_floors) as r
        cross join lateral (
            select
                e.ctid as row_id, e.partition_key, e.execution_id, e.lane_id, e.capability_set_id, e.priority,
                e.total_attempt_count, e.attempt_state, e.quota_policy_id, e.budget_ids,
                g.expires_at_ms is not null as has_grant
            from flowfabric.ff_exec_core as e
            left join lateral (
                select c.expires_at_ms
                from flowfabric.ff_claim_grant as c
                where v_there_are_grants and c.partition_key = e.partition_key and c.execution_id = e.execution_id
                offset 0
            ) as g on true
            where e.eligibility_state = 'eligible_now' and e.lane_id = p_lane_id
                and e.capability_set_id = p_capability_set_id
                and e.priority <= r.highest and e.priority >= r.lowest and e.created_at_ms >= r.from_ms
                and (p_filter.include_resumed or e.attempt_state <> 'attempt_interrupted')
                and (p_filter.namespace is null or e.namespace = p_filter.namespace)
                and (p_filter.partition_key is null or e.partition_key = p_filter.partition_key)
                and e.execution_id <> all (p_filter.examined)
                and (g.expires_at_ms >= p_filter.now_ms) is not true
            order by e.priority desc, e.created_at_ms, e.execution_id
            limit p_limit
            for no key update of e skip locked
        ) as h
        limit p_limit
    ) as c;
end;
$$;
comment on function flowfabric._ff_lock_head(text, integer, integer, flowfabric.ff_claim_filter) is
'Internal: locks the first candidates of one queue that nobody else holds.';

-- Queues are pairs of a lane and a capability set, each with a limit of its own. The floors of all of them are read
-- together: _ff_queue_ranges for each of a thousand queues would take longer than to read their heads.
create or replace function flowfabric._ff_peek_queues(
    p_lanes text[],
    p_set_ids integer[],
    p_limits integer[],
    p_filter flowfabric.ff_claim_filter
)
returns table (
    lane_id text,
    capability_set_id integer,
    partition_key smallint,
    execution_id uuid,
    priority integer,
    created_at_ms bigint,
    quota_policy_id text,
    budget_ids text[],
    has_floor boolean
)
language plpgsql stable
as $$
begin
    return query
    with queue as materialized (
        select u.lane_id, u.capability_set_id, u.candidates
        from unnest(p_lanes, p_set_ids, p_limits) as u (lane_id, capability_set_id, candidates)
    ),
    segment as (
        select
            q.lane_id, q.capability_set_id, q.candidates, f.priority,
            greatest(
                min(f.floor_ms) filter (where f.namespace = ''),
                min(f.floor_ms) filter (where f.namespace = coalesce(p_filter.namespace, ''))) as floor_ms,
            max(f.due_at_ms) filter (where f.namespace = coalesce(p_filter.namespace, '')) as due_at_ms
        from (
            select l.*
            from flowfabric.ff_lane_floor as l
            where p_filter.use_floors and l.lane_id = any (p_lanes)
                and l.namespace in ('', coalesce(p_filter.namespace, '')) and l.side > 0
            offset 0
        ) as f
        join queue as q on q.lane_id = f.lane_id and q.capability_set_id = f.capability_set_id
        group by q.lane_id, q.capability_set_id, q.candidates, f.priority
        union all
        select q.lane_id, q.capability_set_id, q.candidates, -1, 0, null
        from queue as q
    ),
    cut as (
        select
            s.lane_id, s.capability_set_id, s.candidates, s.priority, s.floor_ms, s.due_at_ms,
            lag(s.priority, 1, 9001) over (
                partition by s.lane_id, s.capability_set_id order by s.priority desc) as priority_above
        from segment as s
    )

    select
        c.lane_id, c.capability_set_id, e.partition_key, e.execution_id, e.priority, e.created_at_ms,
        e.quota_policy_id, e.budget_ids, r.due_at_ms > p_filter.now_ms
    from cut as c
    cross join lateral (
        values
        (c.priority_above - 1, c.priority + 1, 0::bigint, null::bigint),
        (c.priority, c.priority, c.floor_ms, c.due_at_ms)
    ) as r (highest, lowest, from_ms, due_at_ms)
    cross join lateral (
        select x.partition_key, x.execution_id, x.priority, x.created_at_ms, x.quota_policy_id, x.budget_ids
        from flowfabric.ff_exec_core as x
        where x.eligibility_state = 'eligible_now' and x.lane_id = c.lane_id
            and x.capability_set_id = c.capability_set_id
            and x.priority <= r.highest and x.priority >= r.lowest and x.created_at_ms >= r.from_ms
            and (p_filter.include_resumed or x.attempt_state <> 'attempt_interrupted')
            and (p_filter.namespace is null or x.namespace = p_filter.namespace)
            and (p_filter.partition_key is null or x.partition_key = p_filter.partition_key)
            and (x.quota_policy_id = any (p_filter.excluded_quotas)) is not true
            and (x.budget_ids && p_filter.excluded_budgets) is not true
            and x.execution_id <> all (p_filter.examined)
            and (
                (
                    select g.expires_at_ms
                    from flowfabric.ff_claim_grant as g
                    where g.partition_key = x.partition_key and g.execution_id = x.execution_id
                ) >= p_filter.now_ms) is not true
        order by x.priority desc, x.created_at_ms, x.execution_id
        limit c.candidates
    ) as e
    where r.highest >= r.lowest and r.lowest >= 0;
end;
$$;
comment on function flowfabric._ff_peek_queues(text[], integer[], integer[], flowfabric.ff_claim_filter) is
'Internal: the first candidates of several queues, at most as many of each range of priorities as its limit says.';

-- p_lanes is in the order in which lanes take turns: fair deals the first of each lane, then the second of each. The
-- heads of all queues are read first. Behind the head of the n-th queue only a page's size less n - 1 can win a place.
create or replace function flowfabric._ff_peek_page(
    p_lanes text[],
    p_set_ids integer[],
    p_lane_order text,
    p_limit integer,
    p_filter flowfabric.ff_claim_filter
)
returns flowfabric.ff_claim_candidate[]
language plpgsql stable
as $$
declare
    v_queue_lanes text[] := p_lanes;
    v_queue_set_ids integer[] := p_set_ids;
    v_limits integer[] := array[p_limit];
    v_page flowfabric.ff_claim_candidate[];
begin
    if cardinality(p_lanes) * cardinality(p_set_ids) > 1 then
        select array_agg(l.lane_id), array_agg(s.capability_set_id), array_agg(1)
        into v_queue_lanes, v_queue_set_ids, v_limits
        from unnest(p_lanes) as l (lane_id)
        cross join unnest(p_set_ids) as s (capability_set_id);
        select array_agg(h.lane_id), array_agg(h.capability_set_id), array_agg((p_limit - h.place + 1)::integer)
        into v_queue_lanes, v_queue_set_ids, v_limits
        from (
            select
                b.lane_id, b.capability_set_id,
                row_number() over (
                    partition by case p_lane_order when 'fair' then b.lane_id end
                    order by
                        case p_lane_order when 'strict' then array_position(p_lanes, b.lane_id) end,
                        b.priority desc, b.created_at_ms, b.execution_id) as place
            from (
                select distinct on (q.lane_id, q.capability_set_id) q.*
                from flowfabric._ff_peek_queues(v_queue_lanes, v_queue_set_ids, v_limits, p_filter) as q
                order by q.lane_id, q.capability_set_id, q.priority desc, q.created_at_ms, q.execution_id
            ) as b
        ) as h
        where h.place <= p_limit;
    end if;
    select array_agg(row(
        p.partition_key, p.execution_id, null, p.lane_id, p.capability_set_id, p.priority, null, null,
        p.quota_policy_id, p.budget_ids, p.has_floor, null)::flowfabric.ff_claim_candidate)
    into v_page
    from (
        select q.*
        from flowfabric._ff_peek_queues(v_queue_lanes, v_queue_set_ids, v_limits, p_filter) as q
        order by
            case p_lane_order
                when 'fair' then row_number() over (
                    partition by q.lane_id order by q.priority desc, q.created_at_ms, q.execution_id)
                when 'strict' then array_position(p_lanes, q.lane_id)
            end,
            case p_lane_order when 'fair' then array_position(p_lanes, q.lane_id) end,
            q.priority desc, q.created_at_ms, q.execution_id
        limit p_limit
    ) as p;
    return coalesce(v_page, '{}');
end;
$$;
comment on function flowfabric._ff_peek_page(text[], integer[], text, integer, flowfabric.ff_claim_filter) is
'Internal: the next candidates of several queues, merged, without locking them.';

-- Never locks more than are wanted: a row that is locked and not taken would be out of sight for everybody else.
create or replace function flowfabric._ff_lock_candidates(
    p_candidates flowfabric.ff_claim_candidate[],
    p_limit integer,
    p_include_resumed boolean,
    p_now_ms bigint
)
returns flowfabric.ff_claim_candidate[]
language plpgsql volatile
as $$
declare
    v_locked flowfabric.ff_claim_candidate[];
begin
    select array_agg(row(
        l.partition_key, l.execution_id, l.row_id, l.lane_id, l.capability_set_id, l.priority, l.total_attempt_count,
        l.attempt_state, l.quota_policy_id, l.budget_ids, l.has_floor, l.has_grant)::flowfabric.ff_claim_candidate)
    into v_locked
    from (
        select
            u.partition_key, u.execution_id, e.row_id, u.lane_id, u.capability_set_id, u.priority,
            e.total_attempt_count, e.attempt_state, u.quota_policy_id, u.budget_ids, u.has_floor, e.has_grant
        from unnest(p_candidates) as u
        cross join lateral (
            select
                c.ctid as row_id, c.total_attempt_count, c.attempt_state, g.expires_at_ms is not null as has_grant
            from flowfabric.ff_exec_core as c
            left join lateral (
                select x.expires_at_ms
                from flowfabric.ff_claim_grant as x
                where x.partition_key = c.partition_key and x.execution_id = c.execution_id
                offset 0
            ) as g on true
            where c.partition_key = u.partition_key and c.execution_id = u.execution_id
                and c.eligibility_state = 'eligible_now'
                and (p_include_resumed or c.attempt_state <> 'attempt_interrupted')
                and (g.expires_at_ms >= p_now_ms) is not true
            for no key update of c skip locked
        ) as e
        limit p_limit
    ) as l;
    return coalesce(v_locked, '{}');
end;
$$;
comment on function flowfabric._ff_lock_candidates(
    flowfabric.ff_claim_candidate[], integer, boolean, bigint) is
'Internal: locks candidates of a page in its order, those that nobody else holds and that still are candidates.';

-- Several capability sets are several queues, which one statement cannot merge and lock. So pages of the merged queue
-- are read and then locked, each four times as long as the one before: others may hold what is at its head.
create or replace function flowfabric._ff_lock_lane_head(
    p_lane_id text,
    p_set_ids integer[],
    p_limit integer,
    p_filter flowfabric.ff_claim_filter,
    out candidates flowfabric.ff_claim_candidate[],
    out some_are_constrained boolean
)
language plpgsql volatile
as $$
declare
    v_filter flowfabric.ff_claim_filter := p_filter;
    v_page_size integer := p_limit;
    v_page flowfabric.ff_claim_candidate[];
begin
    if cardinality(p_set_ids) = 1 then
        select h.candidates, h.some_are_constrained into candidates, some_are_constrained
        from flowfabric._ff_lock_head(p_lane_id, p_set_ids[1], p_limit, p_filter) as h;
        return;
    end if;
    loop
        v_page := flowfabric._ff_peek_page(array[p_lane_id], p_set_ids, 'strict', v_page_size, v_filter);
        some_are_constrained := exists (select from unnest(v_page) as p where flowfabric._ff_is_constrained(p));
        exit when some_are_constrained;
        candidates := candidates || flowfabric._ff_lock_candidates(
            v_page, p_limit - coalesce(cardinality(candidates), 0), p_filter.include_resumed, p_filter.now_ms);
        exit when cardinality(candidates) >= p_limit or cardinality(v_page) < v_page_size;
        v_filter.examined := v_filter.examined || array(select p.execution_id from unnest(v_page) as p);
        v_page_size := 4 * v_page_size;
    end loop;
end;
$$;
comment on function flowfabric._ff_lock_lane_head(text, integer[], integer, flowfabric.ff_claim_filter) is
'Internal: locks the first candidates of a lane that nobody else holds; stops where admission has a say in one.';

-- The first of each lane, then the second of each: so each lane is asked for its share, and what one lacks is asked of
-- the others. In strict order a lane is asked for all that is still wanted.
create or replace function flowfabric._ff_lock_lanes(
    p_lanes text[],
    p_set_ids integer[],
    p_is_fair boolean,
    p_limit integer,
    p_filter flowfabric.ff_claim_filter,
    out candidates flowfabric.ff_claim_candidate[],
    out some_are_constrained boolean
)
language plpgsql volatile
as $$
declare
    v_filter flowfabric.ff_claim_filter := p_filter;
    v_lanes text[] := p_lanes;
    v_left text[];
    v_wanted integer;
    v_share integer;
    v_head record;
begin
    candidates := '{}';
    while cardinality(v_lanes) > 0 loop
        v_left := '{}';
        v_wanted := p_limit - cardinality(candidates);
        for i in 1 .. cardinality(v_lanes) loop
            v_share := case
                when p_is_fair
                then v_wanted / cardinality(v_lanes) + (i <= v_wanted % cardinality(v_lanes))::integer
                else p_limit - cardinality(candidates)
            end;
            if v_share > 0 then
                v_head := flowfabric._ff_lock_lane_head(v_lanes[i], p_set_ids, v_share, v_filter);
                if v_head.some_are_constrained then
                    some_are_constrained := true;
                    return;
                end if;
                candidates := candidates || v_head.candidates;
            end if;
            if v_share = 0 or cardinality(v_head.candidates) = v_share then
                v_left := v_left || v_lanes[i];
            end if;
        end loop;
        exit when cardinality(candidates) = p_limit;
        -- What is left over of equal shares went to the first lanes; this time it goes to others.
        v_lanes := array(
            select l.lane_id
            from unnest(v_left) as l (lane_id)
            order by
                (select count(*) from unnest(candidates) as c where c.lane_id = l.lane_id),
                array_position(p_lanes, l.lane_id));
        v_filter.examined := p_filter.examined || array(select c.execution_id from unnest(candidates) as c);
    end loop;
    if p_is_fair and cardinality(p_lanes) > 1 then
        candidates := array(
            select candidates[c.number]
            from (
                select
                    n.number, (candidates[n.number]).lane_id as lane_id,
                    row_number() over (partition by (candidates[n.number]).lane_id order by n.number) as place
                from generate_subscripts(candidates, 1) as n (number)
            ) as c
            order by c.place, array_position(p_lanes, c.lane_id));
    end if;
end;
$$;
comment on function flowfabric._ff_lock_lanes(
    text[], integer[], boolean, integer, flowfabric.ff_claim_filter) is
'Internal: locks the first candidates of several lanes in their order; stops where admission has a say in one.';

-- Admission (spec 40, section 1.11)

create or replace function flowfabric._ff_block_candidate(
    p_candidate flowfabric.ff_claim_candidate,
    p_eligibility flowfabric.ff_eligibility_state,
    p_blocking flowfabric.ff_blocking_reason,
    p_detail text,
    p_now_ms bigint
)
returns void
language plpgsql volatile
as $$
begin
    perform flowfabric._ff_become_blocked(
        e, p_eligibility, p_blocking, p_detail, p_candidate.attempt_state, null, p_now_ms)
    from flowfabric.ff_exec_core as e
    where e.partition_key = p_candidate.partition_key and e.execution_id = p_candidate.execution_id;
end;
$$;
comment on function flowfabric._ff_block_candidate(
    flowfabric.ff_claim_candidate, flowfabric.ff_eligibility_state, flowfabric.ff_blocking_reason, text, bigint) is
'Internal: takes a locked candidate that admission denied off the queue.';

create or replace function flowfabric._ff_is_constrained(p_candidate flowfabric.ff_claim_candidate)
returns boolean
language sql immutable parallel safe
as $$
    select num_nonnulls(p_candidate.quota_policy_id, p_candidate.budget_ids) > 0
$$;
comment on function flowfabric._ff_is_constrained(flowfabric.ff_claim_candidate) is
'Internal: whether admission has a say in a candidate.';

create or replace function flowfabric._ff_is_limiting(p_policy flowfabric.ff_quota_policy)
returns boolean
language sql immutable parallel safe
as $$
    select p_policy.max_requests_per_window > 0 or p_policy.active_concurrency_cap > 0
$$;
comment on function flowfabric._ff_is_limiting(flowfabric.ff_quota_policy) is
'Internal: whether a quota policy limits anything at all; one that does not is passed over.';

-- Only policies that limit something: policies never change, so one that does not needs no lock.
create or replace function flowfabric._ff_lock_quotas(p_quota_policy_ids text[])
returns text[]
language plpgsql volatile
as $$
begin
    return array(
        select q.quota_policy_id
        from flowfabric.ff_quota_policy as q
        where q.quota_policy_id = any (p_quota_policy_ids)
            and flowfabric._ff_is_limiting(q)
        order by q.quota_policy_id
        for no key update);
end;
$$;
comment on function flowfabric._ff_lock_quotas(text[]) is
'Internal: locks limiting quota policies in ascending order, waiting for them, and returns their ids.';

-- Decides about one locked candidate, as the only one at that moment: the quota policies that it may need are locked.
-- A denial is remembered with its text, so that the rest of the page is decided without asking again. A policy that
-- appears later than in the first page is not waited for, because others are held by then; what it would decide about
-- is left as it is.
create or replace function flowfabric._ff_admit_candidate(
    p_candidate flowfabric.ff_claim_candidate,
    p_memory flowfabric.ff_admission_memory,
    p_now_ms bigint
)
returns flowfabric.ff_admission_memory
language plpgsql volatile
as $$
declare
    v_memory flowfabric.ff_admission_memory := p_memory;
    v_quota_id text := p_candidate.quota_policy_id;
    v_budget_id text;
    v_detail text;
begin
    v_memory.is_admitted := false;
    if exists (
        select from flowfabric.ff_claim_grant as g
        where g.partition_key = p_candidate.partition_key and g.execution_id = p_candidate.execution_id
            and g.expires_at_ms >= p_now_ms)
    then
        return v_memory;
    end if;

    foreach v_budget_id in array coalesce(p_candidate.budget_ids, '{}') loop
        if not v_memory.denied_budgets ? v_budget_id and v_budget_id <> all (v_memory.clear_budgets) then
            v_detail := (flowfabric._ff_exhausted_budget(array[v_budget_id])).detail;
            if v_detail is null then
                v_memory.clear_budgets := v_memory.clear_budgets || v_budget_id;
            else
                v_memory.denied_budgets := v_memory.denied_budgets || jsonb_build_object(v_budget_id, v_detail);
            end if;
        end if;
        if v_memory.denied_budgets ? v_budget_id then
            perform flowfabric._ff_block_candidate(
                p_candidate, 'blocked_by_budget', 'waiting_for_budget', v_memory.denied_budgets ->> v_budget_id,
                p_now_ms);
            return v_memory;
        end if;
    end loop;

    if v_quota_id is not null and not v_memory.denied_quotas ? v_quota_id then
        if v_quota_id <> all (v_memory.settled_quotas) then
            perform from flowfabric.ff_quota_policy as q
            where q.quota_policy_id = v_quota_id and flowfabric._ff_is_limiting(q)
            for no key update skip locked;
            if found then
                v_memory.locked_quotas := v_memory.locked_quotas || v_quota_id;
            elsif exists (
                select from flowfabric.ff_quota_policy as q
                where q.quota_policy_id = v_quota_id and flowfabric._ff_is_limiting(q))
            then
                v_memory.busy_quotas := v_memory.busy_quotas || v_quota_id;
                return v_memory;
            end if;
            v_memory.settled_quotas := v_memory.settled_quotas || v_quota_id;
        end if;
        if v_quota_id = any (v_memory.locked_quotas) then
            select flowfabric._ff_quota_denial_detail(v_quota_id, d.outcome) into v_detail
            from flowfabric._ff_admit_under_quota(
                p_candidate.partition_key, p_candidate.execution_id, v_quota_id, null, p_now_ms) as d;
            if v_detail is not null then
                v_memory.denied_quotas := v_memory.denied_quotas || jsonb_build_object(v_quota_id, v_detail);
            end if;
        end if;
    end if;
    if v_memory.denied_quotas ? v_quota_id then
        perform flowfabric._ff_block_candidate(
            p_candidate, 'blocked_by_quota', 'waiting_for_quota', v_memory.denied_quotas ->> v_quota_id, p_now_ms);
        return v_memory;
    end if;
    v_memory.is_admitted := true;
    return v_memory;
end;
$$;
comment on function flowfabric._ff_admit_candidate(
    flowfabric.ff_claim_candidate, flowfabric.ff_admission_memory, bigint) is
'Internal: whether budgets and quota let a locked candidate start; records the admission, or blocks the candidate.';

-- Steps 1 to 8 of ff_claim_next (spec 40, section 3.1), all but the claim itself: ff_grant_next does something else
-- with what was taken. The clock is read once, before the first statement, because a floor that is moved must not be
-- newer than the view of the queue that it was moved by; and once more after quota policies were waited for.
create or replace function flowfabric._ff_take_next(
    p_lanes text[],
    p_worker_instance_id text,
    p_capabilities text[],
    p_max integer,
    p_namespace text,
    p_lane_order text,
    p_include_resumed boolean,
    p_promote_due boolean,
    p_partition_key smallint,
    out now_ms bigint,
    out taken flowfabric.ff_claim_candidate[],
    out promoted flowfabric.ff_execution_key[],
    out uses_floors boolean
)
language plpgsql volatile
as $$
declare
    c_decision_limit constant integer := greatest(200, 4 * p_max);
    v_recheck_ms bigint := (select c.claim_floor_recheck_ms from flowfabric.ff_partition_config as c);
    v_set_ids integer[];
    v_lanes text[] := '{}'::text[];
    v_lane_id text;
    v_serves boolean;
    v_has_due boolean;
    v_has_floors_ahead boolean;
    v_any_is_due boolean := false;
    v_reads_floors boolean;
    v_scan_started_at_ms bigint;
    v_filter flowfabric.ff_claim_filter;
    v_may_lock_lanes boolean;
    v_head record;
    v_page_size integer := least(200, greatest(20, 2 * p_max));
    v_page flowfabric.ff_claim_candidate[];
    v_is_exhausted boolean := false;
    v_decisions integer := 0;
    v_memory flowfabric.ff_admission_memory;
    v_position integer;
    v_until integer;
    v_locked flowfabric.ff_claim_candidate[];
begin
    now_ms := flowfabric.ff_now_ms();
    taken := '{}';
    uses_floors := v_recheck_ms > 0;
    v_reads_floors := uses_floors;
    if p_namespace is not null and flowfabric._ff_is_draining(p_namespace, p_worker_instance_id, now_ms) then
        return;
    end if;

    v_set_ids := flowfabric._ff_covered_sets(p_capabilities);
    -- Lane by lane: with one lane, the usual number, a plain parameter is cheaper than an array of one.
    foreach v_lane_id in array p_lanes loop
        select
            l.lane_state in ('active', 'draining'),
            p_promote_due and exists (
                select from flowfabric.ff_exec_core as e
                where e.eligibility_state = 'not_eligible_until_time' and e.lane_id = l.lane_id
                    and e.delay_until_ms >= flowfabric._ff_delayed_floor(l.lane_id, uses_floors)
                    and e.delay_until_ms <= now_ms),
            uses_floors and exists (
                select from flowfabric.ff_lane_floor as f
                where f.lane_id = l.lane_id and f.capability_set_id = any (0 || v_set_ids)
                    and flowfabric._ff_is_floor_ahead(f.due_at_ms, v_recheck_ms, now_ms))
        into v_serves, v_has_due, v_has_floors_ahead
        from flowfabric.ff_lane_registry as l
        where l.lane_id = v_lane_id;
        if v_serves then
            v_lanes := v_lanes || v_lane_id;
            v_any_is_due := v_any_is_due or v_has_due;
            v_reads_floors := v_reads_floors and not v_has_floors_ahead;
        end if;
    end loop;
    if cardinality(v_lanes) = 0 then
        return;
    end if;
    if p_lane_order = 'fair' and cardinality(v_lanes) > 1 then
        v_lanes := array(select l.lane_id from unnest(v_lanes) as l (lane_id) order by random());
    end if;
    if uses_floors and not v_reads_floors then
        perform flowfabric._ff_lower_floors_ahead(v_recheck_ms, now_ms);
    end if;
    if v_any_is_due or (p_promote_due and uses_floors and not v_reads_floors) then
        promoted := flowfabric._ff_promote_lanes(v_lanes, 50, v_reads_floors, now_ms);
    end if;

    v_filter := row(
        p_namespace, p_include_resumed, p_partition_key, '{}', '{}', '{}', v_reads_floors, now_ms
    )::flowfabric.ff_claim_filter;
    v_may_lock_lanes := cardinality(v_lanes) = 1 or p_lane_order <> 'global';
    while cardinality(taken) < p_max loop
        if v_is_exhausted then
            -- Too little above the floors: before it says so, it reads the queues from their beginning.
            exit when not v_filter.use_floors or flowfabric._ff_is_scan_resting(
                v_lanes, v_set_ids, coalesce(p_namespace, ''), now_ms);
            v_filter.use_floors := false;
            v_scan_started_at_ms := flowfabric.ff_now_ms();
            if p_promote_due then
                promoted := promoted || flowfabric._ff_promote_lanes(v_lanes, 50, false, now_ms);
            end if;
        end if;
        if v_may_lock_lanes then
            v_head := flowfabric._ff_lock_lanes(
                v_lanes, v_set_ids, p_lane_order = 'fair', p_max - cardinality(taken), v_filter);
            v_is_exhausted := v_head.some_are_constrained is not true;
            if v_is_exhausted then
                taken := taken || v_head.candidates;
                v_filter.examined := array(select t.execution_id from unnest(taken) as t);
                continue;
            end if;
            v_may_lock_lanes := false;
        end if;

        -- Admission decides about some, one after the other. What others hold is no decision: the next page is longer.
        exit when v_decisions >= c_decision_limit;
        v_filter.excluded_quotas := coalesce(v_memory.busy_quotas, '{}')
            || array(select jsonb_object_keys(v_memory.denied_quotas));
        v_filter.excluded_budgets := array(select jsonb_object_keys(v_memory.denied_budgets));
        v_page := flowfabric._ff_peek_page(v_lanes, v_set_ids, p_lane_order, v_page_size, v_filter);
        v_filter.examined := v_filter.examined || array(select p.execution_id from unnest(v_page) as p);
        v_is_exhausted := cardinality(v_page) < v_page_size;
        v_page_size := 2 * v_page_size;

        if v_memory is null then
            v_memory := row(
                false, '{}', '{}',
                array(
                    select distinct p.quota_policy_id from unnest(v_page) as p where p.quota_policy_id is not null),
                '{}', '{}', '{}')::flowfabric.ff_admission_memory;
            if cardinality(v_memory.settled_quotas) > 0 then
                v_memory.locked_quotas := flowfabric._ff_lock_quotas(v_memory.settled_quotas);
                now_ms := flowfabric.ff_now_ms();
                v_filter.now_ms := now_ms;
            end if;
        end if;

        -- In page order: unconstrained candidates in runs as long as possible, every other one by itself.
        v_position := 1;
        while v_position <= cardinality(v_page) and cardinality(taken) < p_max loop
            v_until := v_position;
            if flowfabric._ff_is_constrained(v_page[v_position]) then
                v_locked := flowfabric._ff_lock_candidates(
                    v_page[v_position:v_until], 1, p_include_resumed, now_ms);
                if cardinality(v_locked) > 0 then
                    v_decisions := v_decisions + 1;
                    v_memory := flowfabric._ff_admit_candidate(v_locked[1], v_memory, now_ms);
                    if not v_memory.is_admitted then
                        v_locked := '{}';
                    end if;
                end if;
            else
                while v_until < cardinality(v_page)
                    and not flowfabric._ff_is_constrained(v_page[v_until + 1])
                loop
                    v_until := v_until + 1;
                end loop;
                v_locked := flowfabric._ff_lock_candidates(
                    v_page[v_position:v_until], p_max - cardinality(taken), p_include_resumed, now_ms);
            end if;
            taken := taken || v_locked;
            v_position := v_until + 1;
        end loop;
    end loop;
    if v_scan_started_at_ms is not null and v_is_exhausted then
        perform flowfabric._ff_note_slow_scan(
            v_lanes, v_set_ids, coalesce(p_namespace, ''), v_scan_started_at_ms);
    end if;
    if p_namespace is not null and uses_floors then
        perform flowfabric._ff_tend_namespace(
            v_lanes, v_set_ids, p_namespace, taken, cardinality(taken) < p_max, now_ms);
    end if;
end;
$$;
comment on function flowfabric._ff_take_next(
    text[], text, text[], integer, text, text, boolean, boolean, smallint) is
'Internal: locks and admits the next executions for a worker; the caller claims or grants what was taken.';
