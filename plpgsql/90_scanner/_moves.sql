-- What all scanners share: the rules of spec 50 section 3.2, stated once.
--
-- A scanner reads its candidates without locks, from a partial index and earliest due first, and hands them to
-- _ff_scan_executions, which takes them one by one: lock without waiting, read the clock, look again, act. Every public
-- scanner carries `set lock_timeout = '100ms'`: a wait inside an item's action ends before the deadlock detector
-- (1 s) would choose a victim, so a scanner never costs anybody else its transaction. A clause of the function rather
-- than set_config, which would leave the caller's transaction with the short timeout. After one such wait the rest of a
-- run waits 1 ms for each item: a budget that another session holds is wanted by many of them.

create or replace function flowfabric._ff_check_scan_limit(p_limit integer, p_fn text)
returns void
language plpgsql stable
as $$
begin
    if p_limit is null or p_limit not between 1 and 10000 then
        perform flowfabric._ff_raise_invalid(
            p_fn, 'limit', case when p_limit is null then 'null' else 'out_of_range' end, p_limit::text);
    end if;
end;
$$;
comment on function flowfabric._ff_check_scan_limit(integer, text) is
'Internal: raises invalid_input unless the limit of a scanner is within 1 to 10000.';

-- Others may hold the head of the line, or it may be another caller of the same scanner: reading further than the
-- limit lets callers side by side share the work.
create or replace function flowfabric._ff_scan_window(p_limit integer)
returns integer
language sql immutable parallel safe
as $$
    select 10 * p_limit
$$;
comment on function flowfabric._ff_scan_window(integer) is
'Internal: how many candidates a scanner reads in order to change so many.';

-- Items that keep failing

create or replace function flowfabric._ff_scanner_item_ok(p_scanner text, p_item_key text)
returns void
language sql volatile
as $$
    delete from flowfabric.ff_scanner_failure as f
    where f.scanner = p_scanner and f.item_key = p_item_key
$$;
comment on function flowfabric._ff_scanner_item_ok(text, text) is
'Internal: forgets the failures of an item that a scanner could deal with.';

-- From the third failure in a row on, an item is left out for ten intervals and then gets one try. A scanner that
-- no tick runs has no row and no interval; a second then stands for it.
create or replace function flowfabric._ff_scanner_item_failed(
    p_scanner text,
    p_item_key text,
    p_error text,
    p_now_ms bigint
)
returns void
language plpgsql volatile
as $$
declare
    v_interval_ms bigint;
begin
    if left(p_error, 5) = '40001' then
        -- Nothing is wrong with the item. Only a transaction of the caller's that begins anew sees its present state.
        raise serialization_failure using message = substr(p_error, 7);
    end if;
    select s.interval_ms into v_interval_ms from flowfabric.ff_scanner as s where s.scanner = p_scanner;
    insert into flowfabric.ff_scanner_failure as f (scanner, item_key, failures, last_error, last_failed_at_ms)
    values (p_scanner, p_item_key, 1, left(p_error, 1000), p_now_ms)
    on conflict (scanner, item_key) do update
    set failures = f.failures + 1,
        skip_until_ms = case
            when f.failures >= 2 then excluded.last_failed_at_ms + 10 * coalesce(v_interval_ms, 1000)
        end,
        last_error = excluded.last_error,
        last_failed_at_ms = excluded.last_failed_at_ms;
exception when lock_not_available then
    -- The failed item is unlocked again, so another caller may be failing at it too, and then counts this failure.
    null;
end;
$$;
comment on function flowfabric._ff_scanner_item_failed(text, text, text, bigint) is
'Internal: counts a failure of a scanner at one item, and pauses the item from the third in a row on.';

-- Locks

-- Not found by SKIP LOCKED is busy or gone, which the caller need not tell apart: there is nothing to do now. A flow
-- row that is gone does not keep a member from its end, so there a second, unlocked look decides.
create or replace function flowfabric._ff_scanner_lock_execution(
    p_key flowfabric.ff_execution_key,
    p_with_flow boolean
)
returns flowfabric.ff_exec_core
language plpgsql volatile
as $$
declare
    v_flow_id uuid;
    v_exec flowfabric.ff_exec_core;
begin
    if p_with_flow then
        select e.flow_id into v_flow_id
        from flowfabric.ff_exec_core as e
        where e.partition_key = p_key.partition_key and e.execution_id = p_key.execution_id;
        if v_flow_id is not null then
            perform from flowfabric.ff_flow_core as f
            where f.partition_key = p_key.partition_key and f.flow_id = v_flow_id
            for no key update skip locked;
            if not found and exists (
                select from flowfabric.ff_flow_core as f
                where f.partition_key = p_key.partition_key and f.flow_id = v_flow_id)
            then
                raise lock_not_available;
            end if;
        end if;
    end if;
    select e.* into v_exec
    from flowfabric.ff_exec_core as e
    where e.partition_key = p_key.partition_key and e.execution_id = p_key.execution_id
    for no key update skip locked;
    if not found or (p_with_flow and v_exec.flow_id is distinct from v_flow_id) then
        raise lock_not_available;
    end if;
    return v_exec;
end;
$$;
comment on function flowfabric._ff_scanner_lock_execution(flowfabric.ff_execution_key, boolean) is
'Internal: locks an execution, and its flow first if asked, without waiting; raises lock_not_available.';

-- Items

-- What each scanner does with a locked execution, after a second look: done, unfinished (the rest is for the next
-- call), or not_due, because somebody was faster.
create or replace function flowfabric._ff_scan_item(
    p_scanner text,
    p_exec flowfabric.ff_exec_core,
    p_retention_ms bigint,
    p_now_ms bigint
)
returns text
language plpgsql volatile
as $$
begin
    case p_scanner
        when 'lease_expiry' then
            if p_exec.ownership_state = 'leased' and p_exec.lease_expires_at_ms <= p_now_ms then
                perform flowfabric._ff_lose_lease(p_exec, 'lease_expired_reclaimable', null, p_now_ms);
                return 'done';
            end if;
        when 'attempt_timeout', 'execution_deadline' then
            if flowfabric._ff_is_due(p_exec, p_scanner, p_now_ms) then
                perform flowfabric._ff_expire(p_exec, p_scanner, p_now_ms);
                return 'done';
            end if;
        when 'delayed' then
            if p_exec.eligibility_state = 'not_eligible_until_time' and p_exec.delay_until_ms <= p_now_ms then
                perform flowfabric._ff_become_eligible(p_exec, p_exec.attempt_state, null, p_now_ms);
                return 'done';
            end if;
        when 'retention' then
            if flowfabric._ff_is_purgeable(p_exec, p_retention_ms, p_now_ms) then
                -- A session that sets its tags keeps it from being deleted, but not from being locked.
                perform from flowfabric.ff_exec_core as e
                where e.partition_key = p_exec.partition_key and e.execution_id = p_exec.execution_id
                for update skip locked;
                if found then
                    return case when flowfabric._ff_purge_execution(p_exec) then 'done' else 'unfinished' end;
                end if;
            end if;
    end case;
    return 'not_due';
end;
$$;
comment on function flowfabric._ff_scan_item(text, flowfabric.ff_exec_core, bigint, bigint) is
'Internal: the action of a scanner on one locked execution, if it is still due.';

-- `more` asks for another call at once, so it is not set by a batch that moved nothing: that would spin.
create or replace function flowfabric._ff_scan_executions(
    p_scanner text,
    p_keys flowfabric.ff_execution_key[],
    p_limit integer,
    p_with_flow boolean,
    p_retention_ms bigint default null
)
returns flowfabric.ff_scan
language plpgsql volatile
as $$
declare
    v_scan flowfabric.ff_scan := row(0, 0, 0, false)::flowfabric.ff_scan;
    v_key flowfabric.ff_execution_key;
    v_item_key text;
    v_exec flowfabric.ff_exec_core;
    v_is_locked boolean;
    v_outcome text;
    v_tried integer := 0;
    v_detail text;
begin
    foreach v_key in array p_keys loop
        exit when v_tried >= p_limit;
        v_item_key := flowfabric.ff_format_execution_id(v_key.partition_key, v_key.execution_id);
        v_is_locked := false;
        begin
            v_exec := flowfabric._ff_scanner_lock_execution(v_key, p_with_flow);
            v_is_locked := true;
            v_outcome := flowfabric._ff_scan_item(p_scanner, v_exec, p_retention_ms, flowfabric.ff_now_ms());
            perform flowfabric._ff_scanner_item_ok(p_scanner, v_item_key);
            v_tried := v_tried + (v_outcome <> 'not_due')::integer;
            v_scan.processed := v_scan.processed + (v_outcome = 'done')::integer;
            v_scan.more := v_scan.more or v_outcome = 'unfinished';
        exception
            when lock_not_available or deadlock_detected then
                -- A row that is busy costs nothing; a wait that ran into the timeout counts as a try.
                v_tried := v_tried + v_is_locked::integer;
                v_scan.skipped := v_scan.skipped + 1;
                if v_is_locked then
                    -- Ends with the clause of the public scanner.
                    perform set_config('lock_timeout', '1ms', true);
                end if;
            when others then
                get stacked diagnostics v_detail = pg_exception_detail;
                v_tried := v_tried + 1;
                v_scan.errors := v_scan.errors + 1;
                perform flowfabric._ff_scanner_item_failed(
                    p_scanner, v_item_key, concat_ws(' ', sqlstate, sqlerrm, nullif(v_detail, '')),
                    flowfabric.ff_now_ms());
        end;
    end loop;
    v_scan.more := v_scan.more or (v_scan.processed > 0 and v_tried >= p_limit);
    return v_scan;
end;
$$;
comment on function flowfabric._ff_scan_executions(
    text, flowfabric.ff_execution_key[], integer, boolean, bigint) is
'Internal: runs a scanner over its candidates, each in a block of its own, until the limit is reached.';
