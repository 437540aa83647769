-- Undoes 0021.fewer-rows: the functions of the release before find the row of every payload and of every ended attempt.
-- Their load makes the view anew. The lock comes first: what is committed while it is waited for must be moved too.
lock table flowfabric.ff_exec_core in access exclusive mode;
drop view if exists flowfabric.ff_v_attempt;
insert into flowfabric.ff_exec_payload as p (partition_key, execution_id, payload)
select
    e.partition_key,
    e.execution_id,
    nullif(e.small_payload, '') as payload
from flowfabric.ff_exec_core as e
where e.small_payload is not null
on conflict (partition_key, execution_id) do update set payload = excluded.payload;
insert into flowfabric.ff_attempt (
    partition_key, execution_id, attempt_index, attempt_type, attempt_state, attempt_id, lease_id, lease_epoch,
    worker_id, worker_instance_id, created_at_ms, started_at_ms, ended_at_ms)
select
    e.partition_key,
    e.execution_id,
    e.total_attempt_count - 1 as attempt_index,
    'initial' as attempt_type,
    'ended_success' as attempt_state,
    e.current_attempt_id,
    e.ended_lease_id,
    e.current_lease_epoch,
    e.ended_worker_id,
    e.ended_worker_instance_id,
    e.started_at_ms as created_at_ms,
    e.started_at_ms,
    e.terminal_at_ms as ended_at_ms
from flowfabric.ff_exec_core as e
where e.attempt_is_deferred and e.lifecycle_phase = 'terminal';
update flowfabric.ff_exec_core as e
set attempt_is_deferred = false
where e.attempt_is_deferred and e.lifecycle_phase = 'terminal';
alter table flowfabric.ff_exec_core
drop column if exists ended_lease_id,
drop column if exists ended_worker_id,
drop column if exists ended_worker_instance_id,
drop column if exists small_payload;
delete from flowfabric.ff_migration_annotation where version = 21;
