-- Leases are found by lane, and lost ones by the time from which they may be taken over.
--
-- The index of leases that are out began with the expiry: a reclaim read what all other lanes had lost. Now it begins
-- with the lane. The key of the execution leaves it: leases of one batch share their expiry, and comparing their keys
-- took more time than the lane does. The scanner, which serves all lanes, probes each of them.
--
-- A lease that was lost repeatedly without progress is taken over after a back-off. The mark of an expired or revoked
-- lease writes that time to `delay_until_ms`, and the index of marked leases is ordered by it: a reclaim reads what is
-- due in its lanes and nothing else. Its predicate is one comparison, which costs a statement less than a list does.
--
-- Locks:  ff_exec_core, ACCESS EXCLUSIVE while the two indexes are replaced; they hold active executions only, but the
--         whole table is read once for each.
-- Beside: the functions of the previous release go on working, except ff_list_expired_leases, whose rows get a field.
--         Marks that they make get their time when the functions of this release are loaded.
-- depends: 0027.tags-apart

comment on column flowfabric.ff_exec_core.lease_reclaim_count is
'Takeovers of a lost lease in a row, without recorded progress between them; a revoked lease does not count.';
comment on column flowfabric.ff_exec_core.delay_until_ms is
'Earliest start while delayed; earliest takeover while a lost lease is marked.';

-- squawk-ignore require-concurrent-index-deletion
drop index if exists flowfabric.ff_exec_core_lease_expiry_idx;
-- ff_reclaim_next, ff_scan_expired_leases, ff_list_expired_leases, ff_list_worker_leases. Marked leases are not in it,
-- so that leases that no worker takes over do not pile up at its head. Lanes are compared byte by byte.
-- squawk-ignore require-concurrent-index-creation
create index if not exists ff_exec_core_lease_expiry_idx on flowfabric.ff_exec_core (
    lane_id text_pattern_ops, lease_expires_at_ms)
with (deduplicate_items = false)
where ownership_state = 'leased';

-- squawk-ignore require-concurrent-index-deletion
drop index if exists flowfabric.ff_exec_core_reclaimable_idx;
-- ff_reclaim_next, ff_list_expired_leases, ff_list_worker_leases. After leased come lease_expired_reclaimable and
-- lease_revoked; the planner finds that a query for these implies the predicate.
-- squawk-ignore require-concurrent-index-creation
create index if not exists ff_exec_core_reclaimable_idx on flowfabric.ff_exec_core (lane_id, delay_until_ms)
where ownership_state > 'leased';

do $$
begin
    if not exists (
        select from pg_attribute as a
        where a.attrelid = 'flowfabric.ff_expired_lease_listing'::regclass and a.attname = 'takeover_at_ms')
    then
        alter type flowfabric.ff_expired_lease_listing add attribute takeover_at_ms bigint;
    end if;
end;
$$;

insert into flowfabric.ff_migration_annotation (version, name, applied_at_ms, backward_compatible)
values (28, 'lost-lease-order', floor(extract(epoch from clock_timestamp()) * 1000)::bigint, true)
on conflict (version) do nothing;
