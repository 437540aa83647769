-- ff_record_spend: add usage to a budget and to the ledger of the execution that spent it.
--
-- Fence:  the whole triple of the current, unexpired lease of the execution; an operator may leave it out with source
--         operator_override, and the execution need then not exist any more.
-- Locks:  the ff_exec_core row, unless an operator leaves the fence out, then the ff_budget_policy row.
-- Writes: ff_budget_usage, ff_budget_usage_by_exec, the breach counters of ff_budget_policy, ff_budget_usage_dedup.
-- Raises: invalid_input, budget_not_found and the codes of _ff_check_fence. A breach is an outcome.
-- Retry:  safe with a key: the repeat answers already_applied for 24 hours after the spend was booked.
--
-- ff_report_usage_and_check with a ledger, so that ff_release_budget can give everything back that one execution spent.
create or replace function flowfabric.ff_record_spend(
    p_budget_id text,
    p_dimensions text[],
    p_deltas bigint[],
    p_execution_id text,
    p_idempotency_key text default null,
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
    c_fn constant text := 'ff_record_spend';
    v_key flowfabric.ff_execution_key := flowfabric._ff_parse_execution_id(p_execution_id, c_fn);
    v_override boolean := flowfabric._ff_is_override(p_source, c_fn);
    v_idempotency_key text := nullif(p_idempotency_key, '');
    v_exec flowfabric.ff_exec_core;
    v_policy flowfabric.ff_budget_policy;
    v_now_ms bigint;
begin
    perform flowfabric._ff_check_budget_id(p_budget_id, c_fn);
    perform flowfabric._ff_check_amounts(p_dimensions, p_deltas, 'deltas', 0, c_fn);
    perform flowfabric._ff_check_key(v_idempotency_key, 'idempotency_key', c_fn);

    if v_override and num_nonnulls(p_lease_id, p_lease_epoch, p_attempt_id) = 0 then
        perform flowfabric._ff_require_role('flowfabric_operator', c_fn);
    else
        v_exec := flowfabric._ff_lock_execution(v_key, c_fn);
        v_now_ms := flowfabric.ff_now_ms();
        perform flowfabric._ff_check_fence(
            v_exec, p_lease_id, p_lease_epoch, p_attempt_id, v_override, v_now_ms, c_fn);
    end if;

    v_policy := flowfabric._ff_lock_budget(p_budget_id, c_fn);
    return flowfabric._ff_spend(
        v_policy, v_key, p_dimensions, p_deltas, v_idempotency_key, coalesce(v_now_ms, flowfabric.ff_now_ms()), c_fn);
end;
$$;

comment on function flowfabric.ff_record_spend(text, text[], bigint[], text, text, uuid, bigint, uuid, text) is
'Adds what an execution spent to a budget and to its ledger, once per key, unless that would pass a hard limit.';

grant execute on function flowfabric.ff_record_spend(text, text[], bigint[], text, text, uuid, bigint, uuid, text)
to flowfabric_worker, flowfabric_operator;
