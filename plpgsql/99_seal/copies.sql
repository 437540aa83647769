-- What is kept in a second place for the hot path's sake, brought in step: functions of an earlier release know nothing
-- of it.
do $$
begin
    perform flowfabric._ff_copy_settings();
    perform flowfabric._ff_place_lanes();
    perform flowfabric._ff_expect_waiters(
        array_agg(w.key) filter (where w.channel = 'ff_eligible'),
        bool_or(w.channel in ('ff_lease_event', 'ff_completion')), max(w.until_ms))
    from flowfabric.ff_waiter as w;
    update flowfabric.ff_partition_config as c
    set has_late_tags = true
    where not c.has_late_tags and exists (select from flowfabric.ff_exec_tag);
    update flowfabric.ff_exec_core as e
    set delay_until_ms = flowfabric._ff_takeover_at_ms(e, null)
    where e.ownership_state in ('lease_expired_reclaimable', 'lease_revoked') and e.delay_until_ms is null;
end;
$$;
