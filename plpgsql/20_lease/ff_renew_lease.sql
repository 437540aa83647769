-- ff_renew_lease: extend a lease that the caller still holds.
--
-- Fence:  lease id, lease epoch and attempt id must all name the current, unexpired lease; so must the attempt index,
--         if it is given. Operators have no override here.
-- Locks:  the ff_exec_core row.
-- Writes: the lease times of ff_exec_core; ff_lease_event only while the setting emit_lease_renewed is 1.
-- Raises: invalid_input and the codes of _ff_check_fence.
-- Retry:  safe; a repeated call extends again from the time of the repeat.
--
-- An expired lease is refused here and marked by ff_mark_lease_expired_if_due: a mark written before the raise would be
-- rolled back together with it. The new expiry replaces the old one even if it is earlier.
--
-- Every worker calls this all the time, so the row is read into scalars and the whole fence compared in one IF; only a
-- fence that fails it pays for the composite row and for finding out why (HOTPATH 2.7, 2.10; reading 22). The planner
-- settings keep a plan made for a table of a few pages from scanning it when it has grown (HOTPATH 4).
create or replace function flowfabric.ff_renew_lease(
    p_execution_id text,
    p_lease_id uuid default null,
    p_lease_epoch bigint default null,
    p_attempt_id uuid default null,
    p_lease_ttl_ms bigint default 30000,
    p_attempt_index integer default null
)
returns flowfabric.ff_renewal
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    c_fn constant text := 'ff_renew_lease';
    v_key flowfabric.ff_execution_key := flowfabric._ff_parse_execution_id(p_execution_id, c_fn);
    v_ownership flowfabric.ff_ownership_state;
    v_lease_id uuid;
    v_lease_epoch bigint;
    v_attempt_id uuid;
    v_attempt_index integer;
    v_lease_expires_at_ms bigint;
    v_emits_event boolean;
    v_now_ms bigint;
begin
    if (p_lease_ttl_ms between 1 and 86400000) is not true then
        perform flowfabric._ff_raise_invalid(
            c_fn, 'lease_ttl_ms', case when p_lease_ttl_ms is null then 'null' else 'out_of_range' end,
            p_lease_ttl_ms::text);
    end if;

    select
        e.ownership_state, e.current_lease_id, e.current_lease_epoch, e.current_attempt_id, e.total_attempt_count - 1,
        e.lease_expires_at_ms,
        (select s.value = 1 from flowfabric.ff_setting as s where s.name = 'emit_lease_renewed')
    into
        v_ownership, v_lease_id, v_lease_epoch, v_attempt_id, v_attempt_index, v_lease_expires_at_ms, v_emits_event
    from flowfabric.ff_exec_core as e
    where e.partition_key = v_key.partition_key and e.execution_id = v_key.execution_id
    for no key update;
    v_now_ms := flowfabric.ff_now_ms();
    if (v_ownership = 'leased' and p_lease_id = v_lease_id and p_lease_epoch = v_lease_epoch
        and p_attempt_id = v_attempt_id and v_lease_expires_at_ms > v_now_ms
        and coalesce(p_attempt_index, v_attempt_index) = v_attempt_index) is not true
    then
        perform flowfabric._ff_refuse_fence(
            v_key, p_lease_id, p_lease_epoch, p_attempt_id, p_attempt_index, v_now_ms, c_fn);
    end if;

    update flowfabric.ff_exec_core as e
    set lease_expires_at_ms = v_now_ms + p_lease_ttl_ms,
        lease_last_renewed_at_ms = v_now_ms,
        last_mutation_at_ms = v_now_ms
    where e.partition_key = v_key.partition_key and e.execution_id = v_key.execution_id;
    if v_emits_event then
        perform flowfabric._ff_emit_lease(
            e, 'renewed', e.current_lease_id, e.current_lease_epoch, v_attempt_index, e.current_attempt_id,
            e.current_worker_id, e.current_worker_instance_id, null, v_now_ms)
        from flowfabric.ff_exec_core as e
        where e.partition_key = v_key.partition_key and e.execution_id = v_key.execution_id;
    end if;
    return row(
        'renewed', flowfabric.ff_format_execution_id(v_key.partition_key, v_key.execution_id),
        v_now_ms + p_lease_ttl_ms, v_now_ms + p_lease_ttl_ms * 2 / 3, v_lease_epoch)::flowfabric.ff_renewal;
end;
$$;

comment on function flowfabric.ff_renew_lease(text, uuid, bigint, uuid, bigint, integer) is
'Extends a lease the caller still holds and returns it with its new expiry.';

grant execute on function flowfabric.ff_renew_lease(text, uuid, bigint, uuid, bigint, integer)
to flowfabric_worker;

-- For hot paths whose quick comparison failed: finds the check that failed and raises its code.
create or replace function flowfabric._ff_refuse_fence(
    p_key flowfabric.ff_execution_key,
    p_lease_id uuid,
    p_lease_epoch bigint,
    p_attempt_id uuid,
    p_attempt_index integer,
    p_now_ms bigint,
    p_fn text
)
returns void
language plpgsql volatile
as $$
begin
    perform flowfabric._ff_check_fence(
        flowfabric._ff_lock_execution(p_key, p_fn), p_lease_id, p_lease_epoch, p_attempt_id, false, p_now_ms, p_fn,
        p_attempt_index);
    perform flowfabric._ff_raise(
        'internal_error', p_fn, jsonb_build_object('reason', 'the quick comparison of a fence refused a good one'));
end;
$$;
comment on function flowfabric._ff_refuse_fence(
    flowfabric.ff_execution_key, uuid, bigint, uuid, integer, bigint, text) is
'Internal: raises why a fence does not hold the lease of an execution that the caller has locked.';
