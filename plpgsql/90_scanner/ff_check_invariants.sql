-- ff_check_invariants: stored rows that contradict each other or the state model.
--
-- Fence:  none.
-- Locks:  nothing.
-- Writes: nothing; it reports and never repairs.
-- Raises: invalid_input.
-- Retry:  safe.
--
-- Reads every live table as a whole, in one snapshot: every change is one transaction, so whatever shows here was
-- stored that way. A sound database gives no rows. What only a scanner makes true may show for as long as the scanner
-- is behind: a waitpoint past its time, and a quota slot between its admission and its grant.
create or replace function flowfabric.ff_check_invariants(p_limit integer default 1000)
returns setof flowfabric.ff_invariant_finding
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    c_fn constant text := 'ff_check_invariants';
    v_limit integer := flowfabric._ff_page_size(p_limit, 1000, c_fn);
    v_now_ms bigint := flowfabric.ff_now_ms();
begin
    return query
    select f.check_name, f.execution_id, f.detail
    from (
        -- The state vector: the rules V2 to V11 by their names.
        select
            r.broken_rule as check_name,
            flowfabric.ff_format_execution_id(e.partition_key, e.execution_id) as execution_id,
            jsonb_build_object(
                'lifecycle_phase', e.lifecycle_phase, 'ownership_state', e.ownership_state,
                'eligibility_state', e.eligibility_state, 'blocking_reason', e.blocking_reason,
                'terminal_outcome', e.terminal_outcome, 'attempt_state', e.attempt_state) as detail
        from flowfabric.ff_exec_core as e
        cross join lateral flowfabric._ff_broken_state_rule(
            e.lifecycle_phase, e.ownership_state, e.eligibility_state, e.blocking_reason, e.terminal_outcome,
            e.attempt_state, e.current_lease_id, e.current_worker_id, e.current_worker_instance_id,
            e.lease_expires_at_ms, e.terminal_at_ms, e.delay_until_ms, e.current_suspension_id, e.priority,
            e.current_lease_epoch, e.total_attempt_count, e.retry_count, e.replay_count, e.lease_reclaim_count,
            e.open_reservation_count) as r (broken_rule)
        where r.broken_rule is not null
        union all
        -- A lease that no fence could match.
        select
            'lease_has_fence', flowfabric.ff_format_execution_id(e.partition_key, e.execution_id),
            jsonb_build_object('lease_epoch', e.current_lease_epoch, 'attempt_id', e.current_attempt_id)
        from flowfabric.ff_exec_core as e
        where e.lifecycle_phase = 'active' and (e.current_lease_epoch < 1 or e.current_attempt_id is null)
        union all
        -- A reclaim finds a marked lease by that time only. A pause or a retry is progress.
        select
            c.check_name, flowfabric.ff_format_execution_id(e.partition_key, e.execution_id),
            jsonb_build_object(
                'ownership_state', e.ownership_state, 'lease_reclaim_count', e.lease_reclaim_count,
                'delay_until_ms', e.delay_until_ms)
        from flowfabric.ff_exec_core as e
        cross join lateral (values
            (
                'lost_lease_has_takeover_time',
                e.lifecycle_phase <> 'active' or e.ownership_state <= 'leased' or e.delay_until_ms is not null
            ),
            ('progress_ends_losses', e.lifecycle_phase in ('active', 'terminal') or e.lease_reclaim_count <= 0)
        ) as c (check_name, holds)
        where not c.holds
        union all
        -- Only an attempt that runs or has succeeded may have no row of its own, and then it has none.
        select
            'deferred_attempt_is_sound_and_unwritten',
            flowfabric.ff_format_execution_id(e.partition_key, e.execution_id),
            jsonb_build_object('lifecycle_phase', e.lifecycle_phase, 'total_attempt_count', e.total_attempt_count)
        from flowfabric.ff_exec_core as e
        where e.attempt_is_deferred
            and (
                (e.lifecycle_phase = 'active' or e.terminal_outcome = 'success') is not true
                or (
                    e.terminal_outcome = 'success'
                    and num_nulls(e.ended_lease_id, e.ended_worker_id, e.ended_worker_instance_id) > 0
                )
                or exists (
                    select from flowfabric.ff_attempt as a
                    where a.partition_key = e.partition_key and a.execution_id = e.execution_id
                        and a.attempt_index = e.total_attempt_count - 1)
            )
        union all
        -- A payload stands in one place: with nothing beside it but a result in the execution's row, else beside it.
        select
            'payload_has_one_place', flowfabric.ff_format_execution_id(e.partition_key, e.execution_id),
            jsonb_build_object('is_small', e.small_payload is not null, 'has_row', p.execution_id is not null)
        from flowfabric.ff_exec_core as e
        left join flowfabric.ff_exec_payload as p
            on p.partition_key = e.partition_key and p.execution_id = e.execution_id
        where case
            when e.small_payload is null then p.execution_id is null
            else num_nonnulls(p.payload, p.payload_encoding, p.policy, p.creator_identity) > 0 or p.tags <> '{}'
        end
        union all
        -- Attempts: counted right, the current one there and of the current lease, at most one unfinished.
        select
            c.check_name, flowfabric.ff_format_execution_id(e.partition_key, e.execution_id),
            jsonb_build_object(
                'total_attempt_count', e.total_attempt_count, 'attempt_rows', coalesce(a.attempts, 0),
                'attempt_state', e.attempt_state, 'lease_epoch', e.current_lease_epoch,
                'current_attempt_epoch', a.current_epoch, 'attempt_id', e.current_attempt_id,
                'current_attempt_attempt_id', a.current_id, 'unfinished', coalesce(a.unfinished, '{}'))
        from flowfabric.ff_exec_core as e
        left join (
            select
                t.partition_key, t.execution_id, count(*) as attempts,
                bool_or(t.attempt_index = x.total_attempt_count - 1) as has_current,
                max(t.lease_epoch) filter (where t.attempt_index = x.total_attempt_count - 1) as current_epoch,
                max(t.attempt_id::text) filter (where t.attempt_index = x.total_attempt_count - 1) as current_id,
                array_agg(t.attempt_index order by t.attempt_index)
                    filter (where t.attempt_state in ('started', 'suspended')) as unfinished
            from flowfabric._ff_all_attempts() as t
            join flowfabric.ff_exec_core as x on x.partition_key = t.partition_key and x.execution_id = t.execution_id
            group by t.partition_key, t.execution_id
        ) as a on a.partition_key = e.partition_key and a.execution_id = e.execution_id
        cross join lateral (values
            ('current_attempt_exists', e.total_attempt_count = 0 or coalesce(a.has_current, false)),
            ('attempts_are_counted', e.total_attempt_count = coalesce(a.attempts, 0)),
            ('one_unfinished_attempt', coalesce(cardinality(a.unfinished), 0) <= 1),
            (
                'unfinished_iff_running_or_paused',
                coalesce(a.unfinished, '{}') = case
                    when e.attempt_state in ('running_attempt', 'attempt_interrupted')
                        then array[e.total_attempt_count - 1]
                    else '{}'
                end
            ),
            ('attempt_has_lease_epoch', a.current_epoch is null or a.current_epoch = e.current_lease_epoch),
            (
                'attempt_has_fence_id',
                a.current_id is null or e.current_attempt_id is null or a.current_id = e.current_attempt_id::text
            )
        ) as c (check_name, holds)
        where not c.holds
        union all
        -- Suspensions and waitpoints.
        select
            'suspension_open_iff_suspended', flowfabric.ff_format_execution_id(u.partition_key, u.execution_id),
            jsonb_build_object(
                'suspension_id', u.suspension_id, 'lifecycle_phase', e.lifecycle_phase,
                'current_suspension_id', e.current_suspension_id)
        from flowfabric.ff_suspension_current as u
        left join flowfabric.ff_exec_core as e on e.partition_key = u.partition_key and e.execution_id = u.execution_id
        where u.closed_at_ms is null and e.current_suspension_id is distinct from u.suspension_id
        union all
        select
            'suspension_open_iff_suspended', flowfabric.ff_format_execution_id(e.partition_key, e.execution_id),
            jsonb_build_object(
                'suspension_id', null, 'lifecycle_phase', e.lifecycle_phase,
                'current_suspension_id', e.current_suspension_id)
        from flowfabric.ff_exec_core as e
        where e.lifecycle_phase = 'suspended' and not exists (
            select from flowfabric.ff_suspension_current as u
            where u.partition_key = e.partition_key and u.execution_id = e.execution_id and u.closed_at_ms is null)
        union all
        select
            'waitpoint_of_ended_is_closed', flowfabric.ff_format_execution_id(w.partition_key, w.execution_id),
            jsonb_build_object('waitpoint_id', w.waitpoint_id, 'state', w.state, 'expires_at_ms', w.expires_at_ms)
        from flowfabric.ff_waitpoint_pending as w
        join flowfabric.ff_exec_core as e on e.partition_key = w.partition_key and e.execution_id = w.execution_id
        where e.lifecycle_phase = 'terminal'
            and (w.state = 'active' or (w.state = 'pending' and w.expires_at_ms <= v_now_ms))
        union all
        select
            'stream_of_ended_is_closed', flowfabric.ff_format_execution_id(m.partition_key, m.execution_id),
            jsonb_build_object('attempt_index', m.attempt_index)
        from flowfabric.ff_stream_meta as m
        join flowfabric.ff_exec_core as e on e.partition_key = m.partition_key and e.execution_id = m.execution_id
        where e.lifecycle_phase = 'terminal' and m.closed_at_ms is null
        union all
        -- Grants and quota slots of executions that cannot use them.
        select
            'grant_is_usable', flowfabric.ff_format_execution_id(g.partition_key, g.execution_id),
            jsonb_build_object(
                'kind', g.kind, 'lifecycle_phase', e.lifecycle_phase, 'ownership_state', e.ownership_state)
        from flowfabric.ff_claim_grant as g
        left join flowfabric.ff_exec_core as e on e.partition_key = g.partition_key and e.execution_id = g.execution_id
        where e.execution_id is null
            or (e.lifecycle_phase <> 'runnable' and not flowfabric._ff_is_reclaimable(e, v_now_ms))
        union all
        select
            'slot_is_used', flowfabric.ff_format_execution_id(q.partition_key, q.execution_id),
            jsonb_build_object('quota_policy_id', q.quota_policy_id, 'lifecycle_phase', e.lifecycle_phase)
        from flowfabric.ff_quota_admitted as q
        left join flowfabric.ff_exec_core as e on e.partition_key = q.partition_key and e.execution_id = q.execution_id
        where q.slot_held and e.lifecycle_phase is distinct from 'active'
            and not (
                coalesce(e.lifecycle_phase = 'runnable', false)
                and exists (
                    select from flowfabric.ff_claim_grant as g
                    where g.partition_key = q.partition_key and g.execution_id = q.execution_id
                        and g.expires_at_ms >= v_now_ms))
        union all
        -- Flows: group counters against edges, members against the count that the flow has seen. Retention takes
        -- members away, so fewer of them prove nothing.
        select
            'group_counts_its_edges',
            flowfabric.ff_format_execution_id(c.partition_key, c.downstream_eid),
            jsonb_build_object(
                'flow_id', c.flow_id,
                'stored', jsonb_build_object(
                    'n', c.n, 'success', c.success_count, 'fail', c.fail_count, 'skip', c.skip_count),
                'counted', jsonb_build_object(
                    'n', c.applied, 'success', c.satisfied, 'fail', c.failed, 'skip', c.skipped))
        from (
            select
                coalesce(g.partition_key, d.partition_key) as partition_key,
                coalesce(g.flow_id, d.flow_id) as flow_id,
                coalesce(g.downstream_eid, d.downstream_eid) as downstream_eid,
                g.n, g.success_count, g.fail_count, g.skip_count,
                coalesce(d.applied, 0) as applied, coalesce(d.satisfied, 0) as satisfied,
                coalesce(d.failed, 0) as failed, coalesce(d.skipped, 0) as skipped
            from flowfabric.ff_edge_group as g
            full join (
                select
                    i.partition_key, i.flow_id, i.downstream_eid,
                    count(*) as applied,
                    count(*) filter (where i.dep_state = 'satisfied') as satisfied,
                    count(*) filter (where i.dep_state = 'impossible' and i.resolved_outcome <> 'skipped') as failed,
                    count(*) filter (where i.dep_state = 'impossible' and i.resolved_outcome = 'skipped') as skipped
                from flowfabric.ff_edge as i
                where i.dep_state <> 'staged'
                group by i.partition_key, i.flow_id, i.downstream_eid
            ) as d
                on d.partition_key = g.partition_key and d.flow_id = g.flow_id
                and d.downstream_eid = g.downstream_eid
        ) as c
        where (c.n, c.success_count, c.fail_count, c.skip_count)
            is distinct from (c.applied, c.satisfied, c.failed, c.skipped)
        union all
        select
            'flow_counts_its_members', null,
            jsonb_build_object('flow_id', m.flow_id, 'members', m.members, 'node_count', f.node_count)
        from (
            select e.partition_key, e.flow_id, count(*) as members
            from flowfabric.ff_exec_core as e
            where e.flow_id is not null
            group by e.partition_key, e.flow_id
        ) as m
        left join flowfabric.ff_flow_core as f on f.partition_key = m.partition_key and f.flow_id = m.flow_id
        where m.members > coalesce(f.node_count, 0)
        union all
        -- Budgets: what is set aside against the open reservations.
        select
            'budget_counts_its_reservations', null,
            jsonb_build_object(
                'budget_id', coalesce(u.budget_id, r.budget_id), 'dimension', coalesce(u.dimension, r.dimension),
                'reserved_value', u.reserved_value, 'open_reservations', coalesce(r.amount, 0))
        from flowfabric.ff_budget_usage as u
        full join (
            select o.budget_id, d.dimension, sum(d.amount) as amount
            from flowfabric.ff_budget_reservation as o
            cross join lateral unnest(o.dimensions, o.amounts) as d (dimension, amount)
            where o.state = 'open'
            group by o.budget_id, d.dimension
        ) as r on r.budget_id = u.budget_id and r.dimension = u.dimension
        where coalesce(u.reserved_value, 0) <> coalesce(r.amount, 0)
        union all
        select
            'execution_counts_its_reservations',
            flowfabric.ff_format_execution_id(
                coalesce(e.partition_key, r.partition_key), coalesce(e.execution_id, r.execution_id)),
            jsonb_build_object(
                'open_reservation_count', e.open_reservation_count, 'open_reservations', coalesce(r.open, 0))
        from (
            select x.partition_key, x.execution_id, x.open_reservation_count
            from flowfabric.ff_exec_core as x
        ) as e
        full join (
            select o.partition_key, o.execution_id, count(*) as open
            from flowfabric.ff_budget_reservation as o
            where o.state = 'open'
            group by o.partition_key, o.execution_id
        ) as r on r.partition_key = e.partition_key and r.execution_id = e.execution_id
        where coalesce(e.open_reservation_count, 0) <> coalesce(r.open, 0)
    ) as f
    limit v_limit;
end;
$$;

comment on function flowfabric.ff_check_invariants(integer) is
'Stored rows that break a rule of the state model or contradict each other; none in a sound database.';

grant execute on function flowfabric.ff_check_invariants(integer) to flowfabric_reader, flowfabric_operator;
