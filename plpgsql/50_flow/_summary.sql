-- How the members of a flow fare: counts by public state, and the one word that follows from them.

create or replace function flowfabric._ff_flow_status(p_public_flow_state text)
returns text
language sql immutable parallel safe
as $$
    select case
        when p_public_flow_state in ('open', 'running', 'blocked') then 'active'
        when p_public_flow_state in ('completed', 'failed', 'cancelled') then p_public_flow_state
        else 'unknown'
    end
$$;
comment on function flowfabric._ff_flow_status(text) is
'Internal: the status of a flow in lists, from its own state or the one derived from its members.';

-- No row without members. Spec 30, section 1.9: the first rule that holds. Skipped members do not make a flow fail.
create or replace function flowfabric._ff_count_members(p_partition_key smallint, p_flow_id uuid, p_now_ms bigint)
returns setof flowfabric.ff_flow_summary_snapshot
language sql stable
as $$
    select
        p_flow_id, c.total, c.total::integer, c.completed, c.failed, c.cancelled, c.expired, c.skipped, c.active,
        c.suspended, c.waiting, c.delayed, c.rate_limited, c.waiting_children, d.state,
        flowfabric._ff_flow_status(d.state), p_now_ms
    from (
        select
            count(*) as total,
            (count(*) filter (where s.public_state = 'completed'))::integer as completed,
            (count(*) filter (where s.public_state = 'failed'))::integer as failed,
            (count(*) filter (where s.public_state = 'cancelled'))::integer as cancelled,
            (count(*) filter (where s.public_state = 'expired'))::integer as expired,
            (count(*) filter (where s.public_state = 'skipped'))::integer as skipped,
            (count(*) filter (where s.public_state = 'active'))::integer as active,
            (count(*) filter (where s.public_state = 'suspended'))::integer as suspended,
            (count(*) filter (where s.public_state = 'waiting'))::integer as waiting,
            (count(*) filter (where s.public_state = 'delayed'))::integer as delayed,
            (count(*) filter (where s.public_state = 'rate_limited'))::integer as rate_limited,
            (count(*) filter (where s.public_state = 'waiting_children'))::integer as waiting_children
        from flowfabric.ff_exec_core as e
        cross join lateral (
            select flowfabric._ff_public_state(e.lifecycle_phase, e.terminal_outcome, e.eligibility_state)
                as public_state
        ) as s
        where e.partition_key = p_partition_key and e.flow_id = p_flow_id
    ) as c
    cross join lateral (
        select case
            when c.completed + c.failed + c.cancelled + c.expired + c.skipped = c.total then
                case when c.failed + c.cancelled + c.expired > 0 then 'failed' else 'completed' end
            when c.active > 0 then 'running'
            when c.suspended + c.delayed + c.rate_limited + c.waiting_children > 0 then 'blocked'
            else 'open'
        end as state
    ) as d
    where c.total > 0
$$;
comment on function flowfabric._ff_count_members(smallint, uuid, bigint) is
'Internal: the members of a flow counted by state, and the state that follows; no row without members.';
