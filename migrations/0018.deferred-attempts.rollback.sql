-- Undoes 0018.deferred-attempts: the functions of the release before find the row of every attempt. Their load makes
-- the view anew.
drop view if exists flowfabric.ff_v_attempt;
insert into flowfabric.ff_attempt (
    partition_key, execution_id, attempt_index, attempt_type, attempt_state, attempt_id, lease_id, lease_epoch,
    worker_id, worker_instance_id, created_at_ms, started_at_ms)
select
    e.partition_key,
    e.execution_id,
    e.total_attempt_count - 1 as attempt_index,
    'initial' as attempt_type,
    'started' as attempt_state,
    e.current_attempt_id,
    e.current_lease_id,
    e.current_lease_epoch,
    e.current_worker_id,
    e.current_worker_instance_id,
    e.started_at_ms as created_at_ms,
    e.started_at_ms
from flowfabric.ff_exec_core as e
where e.attempt_is_deferred;
alter table flowfabric.ff_attempt
set (fillfactor = 50),
add constraint ff_attempt_index_is_not_negative check (attempt_index >= 0);
alter table flowfabric.ff_exec_core drop column if exists attempt_is_deferred;
delete from flowfabric.ff_migration_annotation where version = 18;
