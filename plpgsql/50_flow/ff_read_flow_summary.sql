-- ff_read_flow_summary: how the members of a flow fare.
--
-- Fence:  none.
-- Locks:  nothing.
-- Writes: nothing.
-- Raises: invalid_input.
-- Retry:  safe.
--
-- The stored summary, which the scanner brings up to date from time to time, or with p_live the members as they are
-- now. No row for an unknown flow, for one without members, and for one that has not been counted yet.
create or replace function flowfabric.ff_read_flow_summary(p_flow_id uuid, p_live boolean default false)
returns setof flowfabric.ff_flow_summary_snapshot
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    c_fn constant text := 'ff_read_flow_summary';
    v_partition_key smallint;
begin
    if p_flow_id is null then
        perform flowfabric._ff_raise_invalid(c_fn, 'flow_id', 'null');
    end if;
    v_partition_key := flowfabric.ff_flow_partition(p_flow_id);
    if p_live then
        return query
        select c.* from flowfabric._ff_count_members(v_partition_key, p_flow_id, flowfabric.ff_now_ms()) as c;
        return;
    end if;
    return query
    select
        s.flow_id, s.total_members, s.sampled_members, s.members_completed, s.members_failed, s.members_cancelled,
        s.members_expired, s.members_skipped, s.members_active, s.members_suspended, s.members_waiting,
        s.members_delayed, s.members_rate_limited, s.members_waiting_children, s.public_flow_state,
        flowfabric._ff_flow_status(s.public_flow_state), s.last_summary_update_at
    from flowfabric.ff_flow_summary as s
    where s.partition_key = v_partition_key and s.flow_id = p_flow_id;
end;
$$;

comment on function flowfabric.ff_read_flow_summary(uuid, boolean) is
'How the members of a flow fare, as last counted or, if asked, as they are now.';

grant execute on function flowfabric.ff_read_flow_summary(uuid, boolean) to flowfabric_reader, flowfabric_operator;
