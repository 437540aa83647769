-- ff_reconcile_quota: give back slots that nothing uses, and delete what no longer counts.
--
-- Fence:  none.
-- Locks:  the ff_exec_core row of each slot, and the ff_quota_window and ff_quota_admitted rows it deletes, all
--         without waiting.
-- Writes: ff_quota_admitted, ff_quota_window; ff_scanner_failure.
-- Raises: invalid_input; what goes wrong with one slot is counted and recorded.
-- Retry:  safe, and from any number of callers at once.
--
-- A safety net: every end of an activity gives its slot back by itself. What remains are slots that were admitted for a
-- claim that never came, of a scheduler that died before its grant, and rows that someone changed by hand. An admission
-- that is younger than the longest grant may still be on its way to one: freeing its slot would let the execution run
-- without it, above the cap.
create or replace function flowfabric.ff_reconcile_quota(p_limit integer default 500)
returns flowfabric.ff_quota_reconciliation
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off -- these two: 10_execution/_moves.sql
set jit = off
set lock_timeout = '100ms'
as $$
declare
    c_fn constant text := 'ff_reconcile_quota';
    c_scanner constant text := 'quota';
    v_now_ms bigint := flowfabric.ff_now_ms();
    v_result flowfabric.ff_quota_reconciliation :=
        row(0, 0, 0, false, 0, 0, 0)::flowfabric.ff_quota_reconciliation;
    v_slot record;
    v_item_key text;
    v_detail text;
begin
    perform flowfabric._ff_check_scan_limit(p_limit, c_fn);
    for v_slot in
        select a.quota_policy_id, a.partition_key, a.execution_id
        from flowfabric.ff_quota_admitted as a
        where a.slot_held and flowfabric._ff_is_idle_slot(a, v_now_ms)
            and not exists (
                select from flowfabric.ff_scanner_failure as f
                where f.scanner = c_scanner and f.skip_until_ms > v_now_ms
                    and f.item_key = flowfabric.ff_format_execution_id(a.partition_key, a.execution_id))
        order by a.admitted_at_ms
        limit flowfabric._ff_scan_window(p_limit)
    loop
        exit when v_result.slots_released + v_result.errors >= p_limit;
        v_item_key := flowfabric.ff_format_execution_id(v_slot.partition_key, v_slot.execution_id);
        begin
            -- Looked at again under the lock of the execution, under which its slots change.
            perform from flowfabric.ff_exec_core as e
            where e.partition_key = v_slot.partition_key and e.execution_id = v_slot.execution_id
            for no key update skip locked;
            if not found and exists (
                select from flowfabric.ff_exec_core as e
                where e.partition_key = v_slot.partition_key and e.execution_id = v_slot.execution_id)
            then
                raise lock_not_available;
            end if;
            update flowfabric.ff_quota_admitted as a
            set slot_held = false
            where a.quota_policy_id = v_slot.quota_policy_id
                and a.partition_key = v_slot.partition_key and a.execution_id = v_slot.execution_id
                and a.slot_held and flowfabric._ff_is_idle_slot(a, flowfabric.ff_now_ms());
            v_result.slots_released := v_result.slots_released + found::integer;
            perform flowfabric._ff_scanner_item_ok(c_scanner, v_item_key);
        exception
            when lock_not_available or deadlock_detected then
                v_result.skipped := v_result.skipped + 1;
            when others then
                get stacked diagnostics v_detail = pg_exception_detail;
                v_result.errors := v_result.errors + 1;
                perform flowfabric._ff_scanner_item_failed(
                    c_scanner, v_item_key, concat_ws(' ', sqlstate, sqlerrm, nullif(v_detail, '')),
                    flowfabric.ff_now_ms());
        end;
    end loop;

    with stale as (
        select w.quota_policy_id, w.partition_key, w.execution_id
        from flowfabric.ff_quota_policy as q
        join flowfabric.ff_quota_window as w on w.quota_policy_id = q.quota_policy_id
        where w.admitted_at_ms <= v_now_ms - q.requests_per_window_seconds * 1000 or w.admitted_at_ms > v_now_ms
        limit p_limit - v_result.slots_released
        for update of w skip locked
    ),
    deleted as (
        delete from flowfabric.ff_quota_window as w
        using stale as s
        where w.quota_policy_id = s.quota_policy_id
            and w.partition_key = s.partition_key and w.execution_id = s.execution_id
        returning w.execution_id
    )
    select count(*)::integer into v_result.window_entries_deleted from deleted;

    with stale as (
        select a.quota_policy_id, a.partition_key, a.execution_id
        from flowfabric.ff_quota_admitted as a
        where a.expires_at_ms <= v_now_ms and not a.slot_held
        order by a.expires_at_ms
        limit p_limit - v_result.slots_released - v_result.window_entries_deleted
        for update of a skip locked
    ),
    deleted as (
        delete from flowfabric.ff_quota_admitted as a
        using stale as s
        where a.quota_policy_id = s.quota_policy_id
            and a.partition_key = s.partition_key and a.execution_id = s.execution_id
        returning a.execution_id
    )
    select count(*)::integer into v_result.admissions_deleted from deleted;

    v_result.processed := v_result.slots_released + v_result.window_entries_deleted + v_result.admissions_deleted;
    v_result.more := v_result.processed >= p_limit;
    return v_result;
end;
$$;

comment on function flowfabric.ff_reconcile_quota(integer) is
'Scanner: frees slots of executions that do not run, and deletes lapsed window entries and admissions.';

grant execute on function flowfabric.ff_reconcile_quota(integer) to flowfabric_operator;

create or replace function flowfabric._ff_is_idle_slot(p_admitted flowfabric.ff_quota_admitted, p_now_ms bigint)
returns boolean
language sql stable
as $$
    select not exists (
        select from flowfabric.ff_exec_core as e
        where e.partition_key = p_admitted.partition_key and e.execution_id = p_admitted.execution_id
            and (
                e.lifecycle_phase = 'active'
                or (
                    e.lifecycle_phase = 'runnable'
                    and (
                        p_admitted.admitted_at_ms between p_now_ms - 59999 and p_now_ms
                        or exists (
                            select from flowfabric.ff_claim_grant as g
                            where g.partition_key = e.partition_key and g.execution_id = e.execution_id
                                and g.expires_at_ms >= p_now_ms)))))
$$;
comment on function flowfabric._ff_is_idle_slot(flowfabric.ff_quota_admitted, bigint) is
'Internal: whether the execution of a held slot neither runs nor can be about to.';
