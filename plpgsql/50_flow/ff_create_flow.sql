-- ff_create_flow: create a flow, at most once per id.
--
-- Fence:  none.
-- Locks:  the new ff_flow_core row.
-- Writes: ff_flow_core.
-- Raises: invalid_input.
-- Retry:  safe; the repeat answers already_satisfied, whatever kind and namespace it carries.
create or replace function flowfabric.ff_create_flow(
    p_flow_id uuid,
    p_flow_kind text,
    p_namespace text default 'default'
)
returns flowfabric.ff_flow_creation
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    c_fn constant text := 'ff_create_flow';
    v_partition_key smallint;
    v_now_ms bigint;
begin
    if p_flow_id is null then
        perform flowfabric._ff_raise_invalid(c_fn, 'flow_id', 'null');
    end if;
    perform flowfabric._ff_check_flow_kind(p_flow_kind, c_fn);
    if not flowfabric._ff_is_name(p_namespace) then
        perform flowfabric._ff_raise_invalid_name(p_namespace, 'namespace', c_fn);
    end if;

    v_partition_key := flowfabric.ff_flow_partition(p_flow_id);
    v_now_ms := flowfabric.ff_now_ms();
    insert into flowfabric.ff_flow_core (
        partition_key, flow_id, flow_kind, namespace, public_flow_state, created_at_ms, last_mutation_at_ms)
    values (v_partition_key, p_flow_id, p_flow_kind, p_namespace, 'open', v_now_ms, v_now_ms)
    on conflict do nothing;
    return row(p_flow_id, case when found then 'created' else 'already_satisfied' end)::flowfabric.ff_flow_creation;
end;
$$;

comment on function flowfabric.ff_create_flow(uuid, text, text) is
'Creates a flow to which members and edges can be added; at most once per id.';

grant execute on function flowfabric.ff_create_flow(uuid, text, text) to flowfabric_producer;

create or replace function flowfabric._ff_check_flow_kind(p_flow_kind text, p_fn text)
returns void
language plpgsql stable
as $$
begin
    if octet_length(p_flow_kind) between 1 and 256 then
        return;
    end if;
    perform flowfabric._ff_raise_invalid(
        p_fn, 'flow_kind',
        case when p_flow_kind is null then 'null' when p_flow_kind = '' then 'empty' else 'too_long' end, p_flow_kind);
end;
$$;
comment on function flowfabric._ff_check_flow_kind(text, text) is
'Internal: raises invalid_input unless a text of 1 to 256 bytes names the kind of a flow.';
