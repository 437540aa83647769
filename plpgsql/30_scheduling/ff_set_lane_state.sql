-- ff_set_lane_state: let a lane accept work, hand it out, both or neither.
--
-- Fence:  none.
-- Locks:  the ff_lane_registry row.
-- Writes: ff_lane_registry; ff_operator_event on a change.
-- Raises: invalid_input.
-- Retry:  safe; a repeat answers unchanged and writes nothing.
--
-- No execution is touched: claims, grants and creations read the state when they run. An unknown lane is registered, so
-- that it can be paused before its first execution.
create or replace function flowfabric.ff_set_lane_state(
    p_lane_id text,
    p_lane_state text,
    p_reason text default null
)
returns flowfabric.ff_lane_state_change
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    c_fn constant text := 'ff_set_lane_state';
    v_reason text := flowfabric._ff_truncate_bytes(nullif(p_reason, ''), 1024);
    v_now_ms bigint;
    v_partition_key smallint;
    v_previous_state text;
begin
    if not flowfabric._ff_is_lane_id(p_lane_id) then
        perform flowfabric._ff_raise_invalid_lane(p_lane_id, c_fn);
    end if;
    if (p_lane_state = any (flowfabric._ff_legal_values('lane_state'))) is not true then
        perform flowfabric._ff_raise_unknown(
            c_fn, 'lane_state', p_lane_state, flowfabric._ff_legal_values('lane_state'));
    end if;

    perform flowfabric._ff_ensure_lane(p_lane_id, 'operator', flowfabric.ff_now_ms());
    select l.lane_state, l.home_partition into v_previous_state, v_partition_key
    from flowfabric.ff_lane_registry as l
    where l.lane_id = p_lane_id
    for no key update;
    if v_previous_state = p_lane_state then
        return row('unchanged', v_previous_state)::flowfabric.ff_lane_state_change;
    end if;

    v_now_ms := flowfabric.ff_now_ms();
    update flowfabric.ff_lane_registry as l
    set lane_state = p_lane_state, state_changed_at_ms = v_now_ms, state_reason = v_reason
    where l.lane_id = p_lane_id;
    perform flowfabric._ff_emit_operator(
        v_partition_key, null, null, null, null, 'lane_state_changed',
        jsonb_build_object(
            'lane_id', p_lane_id, 'previous_state', v_previous_state, 'lane_state', p_lane_state, 'reason', v_reason),
        v_now_ms);
    if p_lane_state in ('active', 'draining') then
        perform flowfabric._ff_wake('ff_eligible', p_lane_id);
    end if;
    return row('changed', v_previous_state)::flowfabric.ff_lane_state_change;
end;
$$;

comment on function flowfabric.ff_set_lane_state(text, text, text) is
'Sets whether a lane accepts and hands out work: active, paused, draining or disabled.';

grant execute on function flowfabric.ff_set_lane_state(text, text, text) to flowfabric_operator;
