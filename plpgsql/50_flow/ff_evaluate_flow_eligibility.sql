-- ff_evaluate_flow_eligibility: whether an execution could run as far as its dependencies go.
--
-- Fence:  none.
-- Locks:  nothing.
-- Writes: nothing.
-- Raises: invalid_input.
-- Retry:  safe.
--
-- An unknown execution is an answer: not_found. Delays, quotas and budgets are not asked here; ff_why knows them all.
-- Upstream's answers `owned` and `terminal` cannot occur: what is runnable has no owner and no end.
create or replace function flowfabric.ff_evaluate_flow_eligibility(p_execution_id text)
returns flowfabric.ff_flow_eligibility
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_key flowfabric.ff_execution_key
        := flowfabric._ff_parse_execution_id(p_execution_id, 'ff_evaluate_flow_eligibility');
    v_status text;
begin
    select
        case
            when e.lifecycle_phase <> 'runnable' then 'not_runnable'
            when g.n is null or g.n = 0 or g.group_state = 'satisfied' then 'eligible'
            when g.group_state = 'pending' then 'blocked_by_dependencies'
            else 'impossible'
        end
    into v_status
    from flowfabric.ff_exec_core as e
    left join flowfabric.ff_edge_group as g
        on g.partition_key = e.partition_key and g.flow_id = e.flow_id and g.downstream_eid = e.execution_id
    where e.partition_key = v_key.partition_key and e.execution_id = v_key.execution_id;
    return row(coalesce(v_status, 'not_found'))::flowfabric.ff_flow_eligibility;
end;
$$;

comment on function flowfabric.ff_evaluate_flow_eligibility(text) is
'Whether an execution could run as far as its dependencies go, in one word.';

grant execute on function flowfabric.ff_evaluate_flow_eligibility(text) to flowfabric_reader, flowfabric_operator;
