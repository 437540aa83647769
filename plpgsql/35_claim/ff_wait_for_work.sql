-- ff_wait_for_work: record that an idle worker wants to be woken when there is work in its lanes.
--
-- Fence:  none.
-- Locks:  its own ff_waiter rows, ascending; ff_lane_registry rows now and then, SKIP LOCKED.
-- Writes: ff_waiter; once in ten minutes how long its lanes may be waited for.
-- Raises: invalid_input.
-- Retry:  safe; each call replaces the time.
--
-- It waits for nothing and claims nothing. Who makes an execution eligible notifies only while somebody is recorded
-- here, so a busy system sends nothing. The order in which a worker must do things, so that nothing stays unseen:
-- LISTEN ff_eligible; ff_claim_next finds nothing; this call, committed; ff_claim_next once more; only then wait, and
-- look again after 100 ms and with every poll (spec 40, section 3.6). A registration needs no withdrawal: a worker that
-- found work stops refreshing it.
create or replace function flowfabric.ff_wait_for_work(
    p_lanes text[],
    p_waiter_id text,
    p_wait_ms bigint default 2000
)
returns flowfabric.ff_work_wait
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    c_fn constant text := 'ff_wait_for_work';
    c_channel constant text := 'ff_eligible';
    v_setting bigint;
    v_until_ms bigint;
begin
    perform flowfabric._ff_check_lanes(p_lanes, c_fn);
    if not flowfabric._ff_is_name(p_waiter_id) then
        perform flowfabric._ff_raise_invalid_name(p_waiter_id, 'waiter_id', c_fn);
    end if;
    if (p_wait_ms between 0 and 60000) is not true then
        perform flowfabric._ff_raise_invalid(
            c_fn, 'wait_ms', case when p_wait_ms is null then 'null' else 'out_of_range' end, p_wait_ms::text);
    end if;

    v_setting := flowfabric._ff_setting_value('notify_eligible');
    delete from flowfabric.ff_waiter as w
    where w.channel = c_channel and w.waiter_id = p_waiter_id and (p_wait_ms = 0 or w.key <> all (p_lanes));
    if p_wait_ms > 0 then
        v_until_ms := flowfabric.ff_now_ms() + p_wait_ms;
        perform flowfabric._ff_expect_waiters(p_lanes, false, v_until_ms);
        insert into flowfabric.ff_waiter as w (channel, key, waiter_id, until_ms, at_once)
        select c_channel, l.lane_id, p_waiter_id, v_until_ms, v_setting = 1
        from unnest(p_lanes) as l (lane_id)
        order by l.lane_id collate "C"
        on conflict (channel, key, waiter_id) do update set until_ms = excluded.until_ms, at_once = excluded.at_once;
    end if;
    return row(v_until_ms, v_setting <> 0)::flowfabric.ff_work_wait;
end;
$$;

comment on function flowfabric.ff_wait_for_work(text[], text, bigint) is
'Records for a short time that a worker wants to be notified of new work in its lanes; 0 withdraws it.';

grant execute on function flowfabric.ff_wait_for_work(text[], text, bigint) to flowfabric_worker;
