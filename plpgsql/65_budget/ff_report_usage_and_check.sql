-- ff_report_usage_and_check: add usage to a budget, all dimensions or none.
--
-- Fence:  the whole triple of the current, unexpired lease of the execution that used it; an operator may report with
--         source operator_override, for an execution or for none.
-- Locks:  the ff_exec_core row if an execution is given, then the ff_budget_policy row.
-- Writes: ff_budget_usage, the breach counters of ff_budget_policy, ff_budget_usage_dedup.
-- Raises: invalid_input, budget_not_found and the codes of _ff_check_fence. A breach is an outcome.
-- Retry:  safe with a key: the repeat answers already_applied for 24 hours after the report was booked.
--
-- The lock of the policy serialises all changes of a budget, so parallel reports together never pass a hard limit. A
-- refused report keeps its breach count and leaves no key: the same report counts once there is room again. Usage
-- reported here belongs to no ledger and cannot be given back; that is ff_record_spend.
create or replace function flowfabric.ff_report_usage_and_check(
    p_budget_id text,
    p_dimensions text[],
    p_deltas bigint[],
    p_dedup_key text default null,
    p_execution_id text default null,
    p_lease_id uuid default null,
    p_lease_epoch bigint default null,
    p_attempt_id uuid default null,
    p_source text default null
)
returns flowfabric.ff_usage_report
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off -- these two: 10_execution/_moves.sql
set jit = off
as $$
declare
    c_fn constant text := 'ff_report_usage_and_check';
    v_override boolean := flowfabric._ff_is_override(p_source, c_fn);
    v_execution_id text := nullif(p_execution_id, '');
    v_dedup_key text := nullif(p_dedup_key, '');
    v_exec flowfabric.ff_exec_core;
    v_policy flowfabric.ff_budget_policy;
    v_now_ms bigint;
begin
    perform flowfabric._ff_check_budget_id(p_budget_id, c_fn);
    perform flowfabric._ff_check_amounts(p_dimensions, p_deltas, 'deltas', 0, c_fn);
    perform flowfabric._ff_check_key(v_dedup_key, 'dedup_key', c_fn);

    if v_execution_id is not null or num_nonnulls(p_lease_id, p_lease_epoch, p_attempt_id) > 0 then
        v_exec := flowfabric._ff_lock_execution(flowfabric._ff_parse_execution_id(v_execution_id, c_fn), c_fn);
        v_now_ms := flowfabric.ff_now_ms();
        perform flowfabric._ff_check_fence(
            v_exec, p_lease_id, p_lease_epoch, p_attempt_id, v_override, v_now_ms, c_fn);
    elsif v_override then
        perform flowfabric._ff_require_role('flowfabric_operator', c_fn);
    else
        perform flowfabric._ff_raise('fence_required', c_fn);
    end if;

    v_policy := flowfabric._ff_lock_budget(p_budget_id, c_fn);
    return flowfabric._ff_spend(
        v_policy, null, p_dimensions, p_deltas, v_dedup_key, coalesce(v_now_ms, flowfabric.ff_now_ms()), c_fn);
end;
$$;

comment on function flowfabric.ff_report_usage_and_check(
    text, text[], bigint[], text, text, uuid, bigint, uuid, text) is
'Adds usage to a budget once per key, unless that would pass a hard limit; breaches are outcomes.';

grant execute on function flowfabric.ff_report_usage_and_check(
    text, text[], bigint[], text, text, uuid, bigint, uuid, text)
to flowfabric_worker, flowfabric_operator;
