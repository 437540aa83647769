-- ff_project_flow_summary: count the members of a flow and store what that says about it.
--
-- Fence:  none.
-- Locks:  the ff_flow_summary row.
-- Writes: ff_flow_summary.
-- Raises: invalid_input.
-- Retry:  safe.
--
-- For people, never a guard: members go on while they are counted. False for an unknown flow and for one without
-- members.
create or replace function flowfabric.ff_project_flow_summary(p_flow_id uuid)
returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if p_flow_id is null then
        perform flowfabric._ff_raise_invalid('ff_project_flow_summary', 'flow_id', 'null');
    end if;
    return flowfabric._ff_store_summary(flowfabric.ff_flow_partition(p_flow_id), p_flow_id);
end;
$$;

comment on function flowfabric.ff_project_flow_summary(uuid) is
'Counts the members of a flow anew and stores the summary; false if it has none.';

grant execute on function flowfabric.ff_project_flow_summary(uuid) to flowfabric_operator;

create or replace function flowfabric._ff_store_summary(p_partition_key smallint, p_flow_id uuid)
returns boolean
language plpgsql volatile
as $$
declare
    v_now_ms bigint := flowfabric.ff_now_ms();
begin
    insert into flowfabric.ff_flow_summary as s (
        partition_key, flow_id, total_members, sampled_members, members_completed, members_failed, members_cancelled,
        members_expired, members_skipped, members_active, members_suspended, members_waiting, members_delayed,
        members_rate_limited, members_waiting_children, public_flow_state, last_summary_update_at)
    select
        p_partition_key, c.flow_id, c.total_members, c.sampled_members, c.members_completed, c.members_failed,
        c.members_cancelled, c.members_expired, c.members_skipped, c.members_active, c.members_suspended,
        c.members_waiting, c.members_delayed, c.members_rate_limited, c.members_waiting_children,
        c.public_flow_state, c.last_summary_update_at
    from flowfabric._ff_count_members(p_partition_key, p_flow_id, v_now_ms) as c
    where exists (
        select from flowfabric.ff_flow_core as f
        where f.partition_key = p_partition_key and f.flow_id = p_flow_id)
    on conflict (partition_key, flow_id) do update
    set total_members = excluded.total_members,
        sampled_members = excluded.sampled_members,
        members_completed = excluded.members_completed,
        members_failed = excluded.members_failed,
        members_cancelled = excluded.members_cancelled,
        members_expired = excluded.members_expired,
        members_skipped = excluded.members_skipped,
        members_active = excluded.members_active,
        members_suspended = excluded.members_suspended,
        members_waiting = excluded.members_waiting,
        members_delayed = excluded.members_delayed,
        members_rate_limited = excluded.members_rate_limited,
        members_waiting_children = excluded.members_waiting_children,
        public_flow_state = excluded.public_flow_state,
        last_summary_update_at = excluded.last_summary_update_at;
    return found;
end;
$$;
comment on function flowfabric._ff_store_summary(smallint, uuid) is
'Internal: counts the members of a flow and stores the summary; false if it has none.';
