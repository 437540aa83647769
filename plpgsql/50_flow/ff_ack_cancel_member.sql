-- ff_ack_cancel_member: record that a member waiting to be cancelled with its flow has been dealt with elsewhere.
--
-- Fence:  none.
-- Locks:  the ff_flow_core row, if there is one.
-- Writes: deletes the ff_cancel_backlog_member row, and ff_cancel_backlog with the last one.
-- Raises: invalid_input.
-- Retry:  safe; the repeat answers not_pending.
--
-- The execution is neither looked at nor changed, and no event tells of it. Normally nobody needs this: the end of a
-- member, in whatever way, takes it out of the backlog.
create or replace function flowfabric.ff_ack_cancel_member(p_flow_id uuid, p_execution_id text)
returns flowfabric.ff_cancel_acknowledgement
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    c_fn constant text := 'ff_ack_cancel_member';
    v_key flowfabric.ff_execution_key := flowfabric._ff_parse_execution_id(p_execution_id, c_fn);
    v_was_pending boolean;
    v_remaining integer;
begin
    perform flowfabric._ff_find_flow(p_flow_id, c_fn);
    delete from flowfabric.ff_cancel_backlog_member as m
    where m.partition_key = v_key.partition_key and m.flow_id = p_flow_id and m.execution_id = v_key.execution_id;
    v_was_pending := found;
    if v_was_pending then
        perform flowfabric._ff_close_cancel_backlog(v_key.partition_key, p_flow_id);
    end if;
    select count(*)::integer into v_remaining
    from flowfabric.ff_cancel_backlog_member as m
    where m.partition_key = flowfabric.ff_flow_partition(p_flow_id) and m.flow_id = p_flow_id;
    return row(
        case when v_was_pending then 'acked' else 'not_pending' end, v_remaining
    )::flowfabric.ff_cancel_acknowledgement;
end;
$$;

comment on function flowfabric.ff_ack_cancel_member(uuid, text) is
'Takes a member out of the cancel backlog of its flow because somebody else has dealt with it.';

grant execute on function flowfabric.ff_ack_cancel_member(uuid, text) to flowfabric_operator;
