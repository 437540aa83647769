-- ff_mark_lease_expired_if_due: make an expired lease visible as reclaimable.
--
-- Fence:  none.
-- Locks:  the ff_exec_core row.
-- Writes: ff_exec_core, ff_lease_event, ff_stream_meta, open reservations.
-- Raises: invalid_input.
-- Retry:  safe; a repeat answers already_satisfied.
--
-- Nothing depends on this mark: an expired lease is refused and can be reclaimed by the clock alone. It tells those
-- who watch (events, readers of the stream, lists) and gives back what the dead worker had reserved.
create or replace function flowfabric.ff_mark_lease_expired_if_due(p_execution_id text)
returns flowfabric.ff_expiry_mark
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    c_fn constant text := 'ff_mark_lease_expired_if_due';
    v_key flowfabric.ff_execution_key := flowfabric._ff_parse_execution_id(p_execution_id, c_fn);
    v_exec flowfabric.ff_exec_core;
    v_now_ms bigint;
    v_satisfied text;
begin
    select e.* into v_exec
    from flowfabric.ff_exec_core as e
    where e.partition_key = v_key.partition_key and e.execution_id = v_key.execution_id
    for no key update;
    v_now_ms := flowfabric.ff_now_ms();
    v_satisfied := case
        when v_exec.execution_id is null then 'execution_not_found'
        when v_exec.lifecycle_phase <> 'active' then 'not_active'
        when v_exec.ownership_state = 'lease_expired_reclaimable' then 'already_expired'
        when v_exec.ownership_state = 'lease_revoked' then 'already_revoked'
        when v_exec.ownership_state = 'unowned' then 'unowned'
        when v_exec.lease_expires_at_ms > v_now_ms then 'not_yet_expired'
    end;
    if v_satisfied is not null then
        return row('already_satisfied', v_satisfied)::flowfabric.ff_expiry_mark;
    end if;
    perform flowfabric._ff_lose_lease(v_exec, 'lease_expired_reclaimable', null, v_now_ms);
    return row('marked_expired', null)::flowfabric.ff_expiry_mark;
end;
$$;

comment on function flowfabric.ff_mark_lease_expired_if_due(text) is
'Marks a lease that has run out as reclaimable; says why not if there is nothing to mark.';

grant execute on function flowfabric.ff_mark_lease_expired_if_due(text) to flowfabric_operator;
