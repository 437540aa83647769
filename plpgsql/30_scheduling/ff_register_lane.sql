-- ff_register_lane: make a lane known before its first execution.
--
-- Fence:  none.
-- Locks:  the ff_lane_registry row.
-- Writes: ff_lane_registry.
-- Raises: invalid_input.
-- Retry:  safe; a repeat answers already_registered and changes nothing.
create or replace function flowfabric.ff_register_lane(p_lane_id text, p_registered_by text default 'operator')
returns flowfabric.ff_outcome
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    c_fn constant text := 'ff_register_lane';
    v_registered_by text := coalesce(nullif(p_registered_by, ''), 'operator');
    v_is_new boolean;
begin
    if not flowfabric._ff_is_lane_id(p_lane_id) then
        perform flowfabric._ff_raise_invalid_lane(p_lane_id, c_fn);
    end if;
    if not flowfabric._ff_is_name(v_registered_by) then
        perform flowfabric._ff_raise_invalid_name(v_registered_by, 'registered_by', c_fn);
    end if;

    v_is_new := flowfabric._ff_ensure_lane(p_lane_id, v_registered_by, flowfabric.ff_now_ms());
    return row(case when v_is_new then 'registered' else 'already_registered' end)::flowfabric.ff_outcome;
end;
$$;

comment on function flowfabric.ff_register_lane(text, text) is
'Makes a lane known before its first execution; a lane that is used registers itself.';

grant execute on function flowfabric.ff_register_lane(text, text) to flowfabric_operator;
