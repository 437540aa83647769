-- ff_scan_unblock: put executions back on their queue once what admission blocked them for is gone.
--
-- Fence:  none.
-- Locks:  each ff_exec_core row, without waiting; claim floors, without waiting.
-- Writes: as ff_unblock_execution, per execution; ff_scanner_failure.
-- Raises: invalid_input; what goes wrong with one execution is counted and recorded.
-- Retry:  safe, and from any number of callers at once: each execution is unblocked once.
--
-- Nobody stands in front of anybody else. Only executions whose cause is gone are candidates, so those that wait for an
-- exhausted budget or a full quota do not use up the batch; the four causes take turns, and so do the policies of
-- quotas. Of one policy no more come back than it has room for, the first in the queue: the others would only be denied
-- again. An execution that has paid its token needs a slot only, also while the rate is used up.
--
-- A cause is evaluated once per distinct set of budgets, per policy, and per namespace, lane and set of capabilities;
-- executions that are blocked for a budget, a worker or a lane are read once per call, however many there are.
create or replace function flowfabric.ff_scan_unblock(p_limit integer default 100)
returns flowfabric.ff_unblock_scan
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off -- these two: 10_execution/_moves.sql
set jit = off
set lock_timeout = '100ms'
as $$
declare
    c_fn constant text := 'ff_scan_unblock';
    c_scanner constant text := 'unblock';
    v_started_at_ms bigint := flowfabric.ff_now_ms();
    v_scan flowfabric.ff_unblock_scan := row(0, 0, 0, false, 0, 0, 0, 0)::flowfabric.ff_unblock_scan;
    v_paused text[];
    v_key flowfabric.ff_execution_key;
    v_item_key text;
    v_exec flowfabric.ff_exec_core;
    v_now_ms bigint;
    v_is_locked boolean;
    v_tried integer := 0;
    v_detail text;
begin
    perform flowfabric._ff_check_scan_limit(p_limit, c_fn);
    v_paused := array(
        select f.item_key from flowfabric.ff_scanner_failure as f
        where f.scanner = c_scanner and f.skip_until_ms > v_started_at_ms);
    for v_key in
        select d.partition_key, d.execution_id
        from flowfabric._ff_unblockable(flowfabric._ff_scan_window(p_limit), v_paused, v_started_at_ms) as d
    loop
        exit when v_tried >= p_limit;
        v_item_key := flowfabric.ff_format_execution_id(v_key.partition_key, v_key.execution_id);
        v_is_locked := false;
        begin
            v_exec := flowfabric._ff_scanner_lock_execution(v_key, false);
            v_is_locked := true;
            v_now_ms := flowfabric.ff_now_ms();
            if flowfabric._ff_is_block_over(v_exec, v_now_ms) then
                perform flowfabric._ff_become_eligible(v_exec, v_exec.attempt_state, null, v_now_ms);
                v_tried := v_tried + 1;
                v_scan.processed := v_scan.processed + 1;
                case v_exec.eligibility_state
                    when 'blocked_by_budget' then v_scan.budget := v_scan.budget + 1;
                    when 'blocked_by_quota' then v_scan.quota := v_scan.quota + 1;
                    when 'blocked_by_route' then v_scan.route := v_scan.route + 1;
                    when 'blocked_by_lane_state' then v_scan.lane := v_scan.lane + 1;
                end case;
            end if;
            perform flowfabric._ff_scanner_item_ok(c_scanner, v_item_key);
        exception
            when lock_not_available or deadlock_detected then
                v_tried := v_tried + v_is_locked::integer;
                v_scan.skipped := v_scan.skipped + 1;
            when others then
                get stacked diagnostics v_detail = pg_exception_detail;
                v_tried := v_tried + 1;
                v_scan.errors := v_scan.errors + 1;
                perform flowfabric._ff_scanner_item_failed(
                    c_scanner, v_item_key, concat_ws(' ', sqlstate, sqlerrm, nullif(v_detail, '')),
                    flowfabric.ff_now_ms());
        end;
    end loop;
    v_scan.more := v_scan.processed > 0 and v_tried >= p_limit;
    return v_scan;
end;
$$;

comment on function flowfabric.ff_scan_unblock(integer) is
'Scanner: puts executions back on their queue whose budget, quota, worker or lane no longer blocks them.';

grant execute on function flowfabric.ff_scan_unblock(integer) to flowfabric_operator;

create or replace function flowfabric._ff_has_capable_worker(
    p_namespace text,
    p_lane_id text,
    p_capability_set_id integer,
    p_now_ms bigint
)
returns boolean
language sql stable
as $$
    select p_capability_set_id = 1 or exists (
        select from flowfabric.ff_worker_registry as w
        join flowfabric.ff_capability_set as s on s.tokens <@ w.capabilities
        where s.capability_set_id = p_capability_set_id and w.namespace = p_namespace
            and p_lane_id = any (w.lanes) and not w.draining
            and w.last_heartbeat_ms > p_now_ms - greatest(w.liveness_ttl_ms, 0))
$$;
comment on function flowfabric._ff_has_capable_worker(text, text, integer, bigint) is
'Internal: whether one live worker that takes work of a lane offers a whole set of capabilities; none need no worker.';

create or replace function flowfabric._ff_is_lane_serving(p_lane_id text)
returns boolean
language sql stable
as $$
    select exists (
        select from flowfabric.ff_lane_registry as l
        where l.lane_id = p_lane_id and l.lane_state in ('active', 'draining'))
$$;
comment on function flowfabric._ff_is_lane_serving(text) is
'Internal: whether a lane hands out work.';

create or replace function flowfabric._ff_is_block_over(p_exec flowfabric.ff_exec_core, p_now_ms bigint)
returns boolean
language plpgsql stable
as $$
begin
    if flowfabric._ff_admission_eligibility(p_exec.blocking_reason::text) is distinct from p_exec.eligibility_state then
        return false;
    end if;
    return case p_exec.eligibility_state
        when 'blocked_by_budget' then
            (flowfabric._ff_exhausted_budget(p_exec.budget_ids)).budget_id is null
        when 'blocked_by_quota' then flowfabric._ff_has_quota_room(p_exec, p_now_ms)
        when 'blocked_by_route' then
            flowfabric._ff_has_capable_worker(
                p_exec.namespace, p_exec.lane_id, p_exec.capability_set_id, p_now_ms)
        when 'blocked_by_lane_state' then flowfabric._ff_is_lane_serving(p_exec.lane_id)
        else false
    end;
end;
$$;
comment on function flowfabric._ff_is_block_over(flowfabric.ff_exec_core, bigint) is
'Internal: whether what admission blocked an execution for is gone; an operator''s pause never is by itself.';

-- Up to p_window executions of each cause. Causes are decided first, in materialized parts of the statement: each of
-- them is evaluated once, whatever the planner believes about the size of the table. The executions then look their
-- cause up. `is true` keeps that a hashed lookup: without it the planner makes a join, with old statistics a loop over
-- causes for every execution.
create or replace function flowfabric._ff_unblockable(p_window integer, p_paused text[], p_now_ms bigint)
returns setof flowfabric.ff_execution_key
language plpgsql stable
as $$
begin
    return query
    with recursive blocked as materialized (
        select
            e.partition_key, e.execution_id, e.eligibility_state, e.priority, e.created_at_ms, e.namespace,
            e.lane_id, e.capability_set_id, coalesce(e.budget_ids, '{}') as budget_ids
        from flowfabric.ff_exec_core as e
        where e.eligibility_state in ('blocked_by_budget', 'blocked_by_route', 'blocked_by_lane_state')
            and e.blocking_reason in ('waiting_for_budget', 'waiting_for_capable_worker', 'paused_by_policy')
            and (
                p_paused = '{}'
                or flowfabric.ff_format_execution_id(e.partition_key, e.execution_id) <> all (p_paused))
    ),
    budget_set as materialized (
        select distinct b.budget_ids from blocked as b where b.eligibility_state = 'blocked_by_budget'
    ),
    open_budget_set as materialized (
        select s.budget_ids
        from budget_set as s
        where (flowfabric._ff_exhausted_budget(s.budget_ids)).budget_id is null
    ),
    budget as (
        select b.partition_key, b.execution_id, b.priority, b.created_at_ms
        from blocked as b
        where b.eligibility_state = 'blocked_by_budget'
            and (b.budget_ids in (select s.budget_ids from open_budget_set as s)) is true
    ),
    route_set as materialized (
        select distinct b.namespace, b.lane_id, b.capability_set_id
        from blocked as b
        where b.eligibility_state = 'blocked_by_route'
    ),
    open_route_set as materialized (
        select s.namespace, s.lane_id, s.capability_set_id
        from route_set as s
        where flowfabric._ff_has_capable_worker(s.namespace, s.lane_id, s.capability_set_id, p_now_ms)
    ),
    route as (
        select b.partition_key, b.execution_id, b.priority, b.created_at_ms
        from blocked as b
        where b.eligibility_state = 'blocked_by_route'
            and ((b.namespace, b.lane_id, b.capability_set_id) in (
                select s.namespace, s.lane_id, s.capability_set_id from open_route_set as s)) is true
    ),
    lane_set as materialized (
        select distinct b.lane_id from blocked as b where b.eligibility_state = 'blocked_by_lane_state'
    ),
    open_lane_set as materialized (
        select s.lane_id from lane_set as s where flowfabric._ff_is_lane_serving(s.lane_id)
    ),
    lane as (
        select b.partition_key, b.execution_id, b.priority, b.created_at_ms
        from blocked as b
        where b.eligibility_state = 'blocked_by_lane_state'
            and (b.lane_id in (select s.lane_id from open_lane_set as s)) is true
    ),
    -- One index probe per policy, however many executions it blocks.
    policy (quota_policy_id) as (
        (
            select e.quota_policy_id
            from flowfabric.ff_exec_core as e
            where e.eligibility_state = 'blocked_by_quota' and e.quota_policy_id is not null
            order by e.quota_policy_id
            limit 1
        )
        union all
        select n.quota_policy_id
        from policy as p
        cross join lateral (
            select e.quota_policy_id
            from flowfabric.ff_exec_core as e
            where e.eligibility_state = 'blocked_by_quota' and e.quota_policy_id > p.quota_policy_id
            order by e.quota_policy_id
            limit 1
        ) as n
    ),
    room as materialized (
        select p.quota_policy_id, m.tokens_left, m.slots_left
        from policy as p
        left join lateral flowfabric._ff_measure_quota(p.quota_policy_id, p_now_ms) as m on true
        where m.slots_left is distinct from 0
    ),
    quota as (
        select
            c.partition_key, c.execution_id, c.priority, c.created_at_ms,
            row_number() over (
                partition by c.quota_policy_id order by c.priority desc, c.created_at_ms, c.execution_id) as place
        from (
            select q.partition_key, q.execution_id, q.priority, q.created_at_ms, r.quota_policy_id
            from room as r
            cross join lateral (
                select e.partition_key, e.execution_id, e.priority, e.created_at_ms
                from flowfabric.ff_exec_core as e
                where r.tokens_left is distinct from 0
                    and e.eligibility_state = 'blocked_by_quota' and e.quota_policy_id = r.quota_policy_id
                    and e.blocking_reason = 'waiting_for_quota'
                    and (
                        p_paused = '{}'
                        or flowfabric.ff_format_execution_id(e.partition_key, e.execution_id) <> all (p_paused))
                order by e.priority desc, e.created_at_ms
                limit least(r.tokens_left, r.slots_left, p_window)
            ) as q
            union all
            select q.partition_key, q.execution_id, q.priority, q.created_at_ms, r.quota_policy_id
            from room as r
            cross join lateral (
                select e.partition_key, e.execution_id, e.priority, e.created_at_ms
                from flowfabric.ff_quota_admitted as a
                join flowfabric.ff_exec_core as e
                    on e.partition_key = a.partition_key and e.execution_id = a.execution_id
                where r.tokens_left = 0
                    and a.quota_policy_id = r.quota_policy_id and a.expires_at_ms > p_now_ms
                    and a.admitted_at_ms <= p_now_ms
                    and e.eligibility_state = 'blocked_by_quota' and e.quota_policy_id = r.quota_policy_id
                    and e.blocking_reason = 'waiting_for_quota'
                    and (
                        p_paused = '{}'
                        or flowfabric.ff_format_execution_id(e.partition_key, e.execution_id) <> all (p_paused))
                order by e.priority desc, e.created_at_ms
                limit least(r.slots_left, p_window)
            ) as q
            union all
            (
                select e.partition_key, e.execution_id, e.priority, e.created_at_ms, null
                from flowfabric.ff_exec_core as e
                where e.eligibility_state = 'blocked_by_quota' and e.quota_policy_id is null
                    and e.blocking_reason = 'waiting_for_quota'
                    and (
                        p_paused = '{}'
                        or flowfabric.ff_format_execution_id(e.partition_key, e.execution_id) <> all (p_paused))
                order by e.priority desc, e.created_at_ms
                limit p_window
            )
        ) as c
    )
    select t.partition_key, t.execution_id
    from (
        select
            u.cause, u.partition_key, u.execution_id,
            row_number() over (
                partition by u.cause
                order by u.place, u.priority desc, u.created_at_ms, u.execution_id) as turn
        from (
            select 'budget' as cause, b.partition_key, b.execution_id, b.priority, b.created_at_ms, 1 as place
            from budget as b
            union all
            select 'quota', q.partition_key, q.execution_id, q.priority, q.created_at_ms, q.place
            from quota as q
            union all
            select 'route', r.partition_key, r.execution_id, r.priority, r.created_at_ms, 1
            from route as r
            union all
            select 'lane', l.partition_key, l.execution_id, l.priority, l.created_at_ms, 1
            from lane as l
        ) as u
    ) as t
    where t.turn <= p_window
    order by t.turn, t.cause;
end;
$$;
comment on function flowfabric._ff_unblockable(integer, text[], bigint) is
'Internal: blocked executions whose cause was gone a moment ago, in the order in which they take turns.';
