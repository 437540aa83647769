-- ff_sweep_expired_grants: delete grants that nobody consumed in time, longest expired first.
--
-- Fence:  none.
-- Locks:  the ff_exec_core row of each grant, SKIP LOCKED, then its quota rows; whatever takes longer than 100 ms is
--         left to the next sweep.
-- Writes: deletes ff_claim_grant rows; gives back the quota slots of executions that nobody owns.
-- Raises: invalid_input.
-- Retry:  safe.
--
-- An expired grant counts as absent everywhere, so only one thing depends on this: an admission that was recorded for
-- a worker that never claimed would hold its concurrency slot. A lost lease keeps the slot, and its reclaim too. So
-- does an execution that was admitted again since the grant was issued: the slot is that of a grant to come.
create or replace function flowfabric.ff_sweep_expired_grants(p_limit integer default 500)
returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off -- these two: 10_execution/_moves.sql
set jit = off
set lock_timeout = '100ms'
as $$
declare
    c_fn constant text := 'ff_sweep_expired_grants';
    -- The longest lifetime of a grant: one that ends later was issued before the clock went back.
    c_longest_ms constant bigint := 60000::bigint;
    v_now_ms bigint := flowfabric.ff_now_ms();
    v_exec record;
    v_issued_at_ms bigint;
    v_swept integer := 0;
begin
    perform flowfabric._ff_check_scan_limit(p_limit, c_fn);
    for v_exec in
        select e.partition_key, e.execution_id, e.ownership_state, e.quota_policy_id
        from flowfabric.ff_claim_grant as g
        join flowfabric.ff_exec_core as e on e.partition_key = g.partition_key and e.execution_id = g.execution_id
        where g.expires_at_ms < v_now_ms or g.expires_at_ms > v_now_ms + c_longest_ms
        order by g.expires_at_ms
        limit p_limit
        for no key update of e skip locked
    loop
        begin
            -- The grant was read before its execution was locked: it may have been replaced or consumed in between.
            delete from flowfabric.ff_claim_grant as g
            where g.partition_key = v_exec.partition_key and g.execution_id = v_exec.execution_id
                and (g.expires_at_ms < v_now_ms or g.expires_at_ms > v_now_ms + c_longest_ms)
            returning g.issued_at_ms into v_issued_at_ms;
            if found then
                if v_exec.ownership_state = 'unowned' and v_exec.quota_policy_id is not null then
                    perform flowfabric._ff_release_quota_slot(
                        v_exec.partition_key, v_exec.execution_id, v_issued_at_ms);
                end if;
                v_swept := v_swept + 1;
            end if;
        exception when lock_not_available or deadlock_detected then
            -- Somebody works on its quota; the next sweep comes by again.
            null;
        end;
    end loop;
    return v_swept;
end;
$$;

comment on function flowfabric.ff_sweep_expired_grants(integer) is
'Deletes grants that expired unused, gives back the quota slots taken for them, and says how many it deleted.';

grant execute on function flowfabric.ff_sweep_expired_grants(integer) to flowfabric_operator;
