-- The moves of a quota.

-- Needs no lock on the policy: a release only lowers the count, and admissions are serialised by the policy's lock,
-- so the cap is never exceeded.
create or replace function flowfabric._ff_release_quota_slot(p_partition_key smallint, p_execution_id uuid)
returns void
language sql volatile
as $$
    update flowfabric.ff_quota_admitted as q
    set slot_held = false
    where q.partition_key = p_partition_key and q.execution_id = p_execution_id and q.slot_held
$$;
comment on function flowfabric._ff_release_quota_slot(smallint, uuid) is
'Internal: gives back the concurrency slots of an execution that stopped being active.';
