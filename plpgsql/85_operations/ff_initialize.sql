-- ff_initialize: prepare an installation for its first use.
--
-- Fence:  none.
-- Locks:  ff_partition_config, so that two calls run one after the other; the key store.
-- Writes: ff_partition_config, ff_waitpoint_hmac, ff_lane_registry, ff_scanner, ff_event_stream: what is not there yet.
-- Raises: invalid_input, schema_version_mismatch, partition_config_mismatch, invalid_kid, invalid_secret_hex,
--         retry_exhausted.
-- Retry:  safe; a repeat answers already_present for every step.
--
-- One row per step, in the order in which they are done; a step that fails undoes those before it. The number of
-- partitions can be chosen as long as there is no lane, execution or flow: then nothing has been initialised. Later it
-- is only compared. Settings need no rows: an absent one means the default. Neither a kid nor a secret: no key is
-- installed, and waitpoints cannot be created before one is.
create or replace function flowfabric.ff_initialize(
    p_num_flow_partitions integer default 256,
    p_lanes text[] default '{default}',
    p_hmac_kid text default null,
    p_hmac_secret_hex text default null
)
returns setof flowfabric.ff_initialize_step
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    c_fn constant text := 'ff_initialize';
    v_kid text := nullif(p_hmac_kid, '');
    v_secret_hex text := nullif(p_hmac_secret_hex, '');
    v_lane_id text;
    v_installed integer;
    v_partitions integer;
    v_seeding flowfabric.ff_key_seeding;
    v_written integer;
begin
    if p_num_flow_partitions is null or p_num_flow_partitions not between 1 and 32767 then
        perform flowfabric._ff_raise_invalid(
            c_fn, 'num_flow_partitions',
            case when p_num_flow_partitions is null then 'null' else 'out_of_range' end, p_num_flow_partitions::text);
    end if;
    if p_lanes is null then
        perform flowfabric._ff_raise_invalid(c_fn, 'lanes', 'null');
    end if;
    if cardinality(p_lanes) > 1000 then
        perform flowfabric._ff_raise_invalid(c_fn, 'lanes', 'too_many_items', cardinality(p_lanes)::text);
    end if;
    foreach v_lane_id in array p_lanes loop
        if not flowfabric._ff_is_lane_id(v_lane_id) then
            perform flowfabric._ff_raise_invalid_lane(v_lane_id, c_fn, 'lanes');
        end if;
    end loop;
    if v_secret_hex is not null and v_kid is null then
        perform flowfabric._ff_raise_invalid(c_fn, 'hmac_kid', 'null');
    end if;

    select c.num_flow_partitions into v_partitions from flowfabric.ff_partition_config as c for no key update;
    select max(a.version) into v_installed from flowfabric.ff_migration_annotation as a;
    if v_installed is distinct from flowfabric._ff_schema_version() then
        perform flowfabric._ff_raise(
            'schema_version_mismatch', c_fn,
            jsonb_build_object('installed', v_installed, 'required', flowfabric._ff_schema_version()));
    end if;
    return next row('version', 'already_present')::flowfabric.ff_initialize_step;

    v_written := 0;
    if v_partitions <> p_num_flow_partitions then
        if exists (select from flowfabric.ff_lane_registry)
            or exists (select from flowfabric.ff_exec_core) or exists (select from flowfabric.ff_flow_core)
        then
            perform flowfabric._ff_raise(
                'partition_config_mismatch', c_fn,
                jsonb_build_object('configured', v_partitions, 'expected', p_num_flow_partitions));
        end if;
        update flowfabric.ff_partition_config set num_flow_partitions = p_num_flow_partitions;
        v_written := 1;
    end if;
    return next flowfabric._ff_initialized('partitions', v_written);

    if v_kid is not null then
        v_seeding := flowfabric.ff_seed_waitpoint_hmac_secret(v_kid, v_secret_hex);
        -- The step is done when this key is in place; another secret under its name is not this key.
        if not coalesce(v_seeding.same_secret, true) then
            perform flowfabric._ff_raise_invalid(c_fn, 'hmac_secret_hex', 'differs_from_installed');
        end if;
        return next flowfabric._ff_initialized('signing_key', (v_seeding.outcome = 'seeded')::integer);
    end if;

    v_written := 0;
    foreach v_lane_id in array p_lanes loop
        v_written := v_written
            + ((flowfabric.ff_register_lane(v_lane_id, 'initialize')).outcome = 'registered')::integer;
    end loop;
    return next flowfabric._ff_initialized('lanes', v_written);

    return next flowfabric._ff_initialized('scanners', flowfabric._ff_seed_scanners());

    insert into flowfabric.ff_event_stream (stream)
    values ('completion'), ('lease'), ('signal'), ('operator'), ('worker')
    on conflict (stream) do nothing;
    get diagnostics v_written = row_count;
    return next flowfabric._ff_initialized('event_streams', v_written);
end;
$$;

comment on function flowfabric.ff_initialize(integer, text[], text, text) is
'Prepares an installation: partitions, signing key, lanes, scanners and event streams, as far as they are missing.';

grant execute on function flowfabric.ff_initialize(integer, text[], text, text) to flowfabric_admin;

create or replace function flowfabric._ff_initialized(p_step text, p_written integer)
returns flowfabric.ff_initialize_step
language sql immutable parallel safe
as $$
    select row(p_step, case when p_written > 0 then 'applied' else 'already_present' end)
    ::flowfabric.ff_initialize_step
$$;
comment on function flowfabric._ff_initialized(text, integer) is
'Internal: the report about a step of ff_initialize that wrote so many rows.';
