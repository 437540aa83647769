-- ff_set_setting: change a setting, or put it back to its default.
--
-- Fence:  none.
-- Locks:  the ff_setting row; the ff_partition_config row if it has a copy.
-- Writes: the ff_setting row; its copy in ff_partition_config, for the settings of the hot path; ff_operator_event on a
--         change.
-- Raises: invalid_input.
-- Retry:  safe.
--
-- The rows of the test clock are not settings: only the installer and ff_test_set_clock write them.
create or replace function flowfabric.ff_set_setting(p_name text, p_value bigint)
returns flowfabric.ff_setting_change
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    c_fn constant text := 'ff_set_setting';
    v_max_value bigint;
    v_previous bigint;
begin
    select k.max_value into v_max_value from flowfabric._ff_known_settings() as k where k.name = p_name;
    if not found then
        perform flowfabric._ff_raise_unknown(
            c_fn, 'name', p_name, array(select k.name from flowfabric._ff_known_settings() as k order by k.name));
    end if;
    if p_value not between flowfabric._ff_smallest_value(p_name) and v_max_value then
        perform flowfabric._ff_raise_invalid(c_fn, 'value', 'out_of_range', p_value::text);
    end if;

    -- Of two first settings at once the second waits at the insert; its answer then names the first one's value.
    if p_value is not null then
        insert into flowfabric.ff_setting as s (name, value) values (p_name, p_value) on conflict do nothing;
        if found then
            perform flowfabric._ff_copy_settings();
            perform flowfabric._ff_emit_setting(p_name, null, p_value);
            return row('changed', null)::flowfabric.ff_setting_change;
        end if;
    end if;
    select s.value into v_previous from flowfabric.ff_setting as s where s.name = p_name for update;
    if v_previous is not distinct from p_value then
        return row('unchanged', v_previous)::flowfabric.ff_setting_change;
    end if;
    if p_value is null then
        delete from flowfabric.ff_setting as s where s.name = p_name;
    else
        update flowfabric.ff_setting as s set value = p_value where s.name = p_name;
    end if;
    perform flowfabric._ff_copy_settings();
    perform flowfabric._ff_emit_setting(p_name, v_previous, p_value);
    return row('changed', v_previous)::flowfabric.ff_setting_change;
end;
$$;

comment on function flowfabric.ff_set_setting(text, bigint) is
'Sets a setting, or with NULL puts it back to its default; takes effect for every call after the commit.';

grant execute on function flowfabric.ff_set_setting(text, bigint) to flowfabric_operator;

create or replace function flowfabric._ff_emit_setting(p_name text, p_previous bigint, p_value bigint)
returns void
language plpgsql volatile
as $$
begin
    perform flowfabric._ff_emit_operator(
        0::smallint, null, null, null, null, 'setting_changed',
        jsonb_build_object('name', p_name, 'previous_value', p_previous, 'value', p_value), flowfabric.ff_now_ms());
end;
$$;
comment on function flowfabric._ff_emit_setting(text, bigint, bigint) is
'Internal: writes the operator event of a changed setting; an absent value is the default.';
