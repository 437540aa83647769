-- ff_release_admission: undo a recorded admission whose grant or claim did not happen.
--
-- Fence:  none.
-- Locks:  the ff_exec_core row, if there is one, then the ff_quota_admitted row.
-- Writes: deletes the ff_quota_admitted row, unless the execution runs or is granted to somebody.
-- Raises: invalid_input.
-- Retry:  safe; there is nothing left to release, and nobody else's slot is touched.
--
-- The rate token stays spent: its window entry is reused if the execution is admitted again, and counted once. A
-- scheduler whose grant is refused because somebody else was faster calls this too; the admission is then that of the
-- faster one, and without its slot the execution would run above the cap. It goes back with the end of the activity or
-- the sweep of the grant.
create or replace function flowfabric.ff_release_admission(p_quota_policy_id text, p_execution_id text)
returns flowfabric.ff_outcome
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off -- these two: 10_execution/_moves.sql
set jit = off
as $$
declare
    c_fn constant text := 'ff_release_admission';
    v_key flowfabric.ff_execution_key := flowfabric._ff_parse_execution_id(p_execution_id, c_fn);
    v_phase flowfabric.ff_lifecycle_phase;
    v_now_ms bigint;
begin
    if not flowfabric._ff_is_name(p_quota_policy_id) then
        perform flowfabric._ff_raise_invalid_name(p_quota_policy_id, 'quota_policy_id', c_fn);
    end if;

    select e.lifecycle_phase into v_phase
    from flowfabric.ff_exec_core as e
    where e.partition_key = v_key.partition_key and e.execution_id = v_key.execution_id
    for no key update;
    v_now_ms := flowfabric.ff_now_ms();
    if v_phase is distinct from 'active' then
        delete from flowfabric.ff_quota_admitted as a
        where a.quota_policy_id = p_quota_policy_id
            and a.partition_key = v_key.partition_key and a.execution_id = v_key.execution_id
            and not exists (
                select from flowfabric.ff_claim_grant as g
                where g.partition_key = a.partition_key and g.execution_id = a.execution_id
                    and g.expires_at_ms >= v_now_ms);
    end if;
    return row('released')::flowfabric.ff_outcome;
end;
$$;

comment on function flowfabric.ff_release_admission(text, text) is
'Gives back the slot of an admission whose grant or claim did not happen; the rate token stays spent.';

grant execute on function flowfabric.ff_release_admission(text, text) to flowfabric_operator;
