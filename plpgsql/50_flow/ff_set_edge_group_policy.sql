-- ff_set_edge_group_policy: say how a child judges its upstreams, before it has any.
--
-- Fence:  none.
-- Locks:  the ff_flow_core row.
-- Writes: ff_edge_group.
-- Raises: invalid_input, flow_not_found.
-- Retry:  safe; the repeat answers already_set.
--
-- The first staged edge fixes the policy, so that nobody's verdict changes under way. Until then the whole policy may
-- be replaced. The child need not exist yet, and the flow may be in any state: nothing but the policy is declared.
create or replace function flowfabric.ff_set_edge_group_policy(
    p_flow_id uuid,
    p_downstream_execution_id text,
    p_policy_kind text,
    p_on_satisfied text default null,
    p_k integer default null
)
returns flowfabric.ff_outcome
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    c_fn constant text := 'ff_set_edge_group_policy';
    v_key flowfabric.ff_execution_key := flowfabric._ff_parse_execution_id(p_downstream_execution_id, c_fn);
    v_flow flowfabric.ff_flow_core := flowfabric._ff_lock_flow(p_flow_id, c_fn);
    v_wrong flowfabric.ff_refusal;
    v_on_satisfied text := case when p_policy_kind <> 'all_of' then p_on_satisfied end;
    v_k integer := case p_policy_kind when 'any_of' then 1 when 'quorum' then p_k end;
    v_now_ms bigint := flowfabric.ff_now_ms();
begin
    if v_key.partition_key <> v_flow.partition_key then
        perform flowfabric._ff_raise_invalid(
            c_fn, 'downstream_execution_id', 'partition_mismatch', p_downstream_execution_id);
    end if;
    v_wrong := flowfabric._ff_wrong_join_policy(p_policy_kind, p_on_satisfied, p_k);
    if v_wrong.code is not null then
        perform flowfabric._ff_raise(v_wrong.code, c_fn, v_wrong.detail);
    end if;
    if exists (
        select from flowfabric.ff_edge as d
        where d.partition_key = v_flow.partition_key and d.flow_id = p_flow_id
            and d.downstream_eid = v_key.execution_id)
    then
        perform flowfabric._ff_raise_invalid(
            c_fn, 'policy_kind', 'edge_group_policy_already_fixed: dependencies already staged', p_policy_kind);
    end if;
    if exists (
        select from flowfabric.ff_edge_group as g
        where g.partition_key = v_flow.partition_key and g.flow_id = p_flow_id
            and g.downstream_eid = v_key.execution_id and g.policy_kind = p_policy_kind
            and (g.on_satisfied, g.k) is not distinct from (v_on_satisfied, v_k))
    then
        return row('already_set')::flowfabric.ff_outcome;
    end if;

    insert into flowfabric.ff_edge_group as g (
        partition_key, flow_id, downstream_eid, policy_kind, on_satisfied, k, created_at_ms)
    values (v_flow.partition_key, p_flow_id, v_key.execution_id, p_policy_kind, v_on_satisfied, v_k, v_now_ms)
    on conflict (partition_key, flow_id, downstream_eid) do update
    set policy_kind = excluded.policy_kind,
        on_satisfied = excluded.on_satisfied,
        k = excluded.k,
        created_at_ms = excluded.created_at_ms;
    return row('set')::flowfabric.ff_outcome;
end;
$$;

comment on function flowfabric.ff_set_edge_group_policy(uuid, text, text, text, integer) is
'Declares how a child judges its upstreams (all_of, any_of, quorum) before the first of its edges is staged.';

grant execute on function flowfabric.ff_set_edge_group_policy(uuid, text, text, text, integer) to flowfabric_producer;

-- The rules of a join policy, for the single call and for each join of a submitted document.
create or replace function flowfabric._ff_wrong_join_policy(p_policy_kind text, p_on_satisfied text, p_k numeric)
returns flowfabric.ff_refusal
language sql immutable parallel safe
as $$
    select row(
        'invalid_input',
        jsonb_build_object('field', w.field, 'reason', w.reason, 'value', left(w.value, 200)))::flowfabric.ff_refusal
    from (
        select
            case w.number when 1 then 'policy_kind' when 2 then 'k' else 'on_satisfied' end as field,
            case w.number
                when 1 then 'unsupported_policy_variant: ' || left(coalesce(p_policy_kind, 'null'), 200)
                when 2 then 'quorum k must be >= 1'
                else 'on_satisfied required for any_of/quorum: cancel_remaining | let_run'
            end as reason,
            case w.number when 1 then p_policy_kind when 2 then p_k::text else p_on_satisfied end as value
        from (
            select case
                when (p_policy_kind = any (flowfabric._ff_legal_values('policy_kind'))) is not true then 1
                when p_policy_kind = 'quorum' and (p_k >= 1) is not true then 2
                when p_policy_kind <> 'all_of'
                    and (p_on_satisfied = any (flowfabric._ff_legal_values('on_satisfied'))) is not true then 3
            end as number
        ) as w
        where w.number is not null
    ) as w
$$;
comment on function flowfabric._ff_wrong_join_policy(text, text, numeric) is
'Internal: what is wrong with a join policy, as invalid_input; no row if nothing is.';
