-- ff_v_running: what workers hold now, for people. See ff_v_execution for what holds for all views.
create or replace view flowfabric.ff_v_running
with (security_barrier = true)
as
select -- noqa: ST06
    flowfabric.ff_format_execution_id(e.partition_key, e.execution_id) as execution_id,
    e.lane_id as lane,
    e.execution_kind as kind,
    e.current_worker_id as worker,
    e.current_worker_instance_id as worker_instance,
    flowfabric.ff_timestamp(flowfabric.ff_now_ms()) - flowfabric.ff_timestamp(e.lease_acquired_at_ms) as running_for,
    flowfabric.ff_timestamp(e.lease_expires_at_ms) as lease_expires_at,
    e.lease_expires_at_ms <= flowfabric.ff_now_ms() as lease_is_expired,
    n.progress_pct as progress,
    e.total_attempt_count - 1 as attempt
from flowfabric.ff_exec_core as e
left join flowfabric.ff_exec_note as n on e.partition_key = n.partition_key and e.execution_id = n.execution_id
-- Two terms, each that of an index: what runs is a handful, what has ended are millions.
where e.ownership_state = 'leased' or e.ownership_state in ('lease_expired_reclaimable', 'lease_revoked');

comment on view flowfabric.ff_v_running is
'Active executions: who runs them, for how long and until when.';
comment on column flowfabric.ff_v_running.execution_id is 'The execution, as calls take it.';
comment on column flowfabric.ff_v_running.lane is 'The queue it came from.';
comment on column flowfabric.ff_v_running.kind is 'Which handler runs it.';
comment on column flowfabric.ff_v_running.worker is 'Logical worker that holds, or has lost, the lease.';
comment on column flowfabric.ff_v_running.worker_instance is 'Process that holds, or has lost, the lease.';
comment on column flowfabric.ff_v_running.running_for is 'Time since the lease was issued.';
comment on column flowfabric.ff_v_running.lease_expires_at is 'End of the lease, unless it is renewed.';
comment on column flowfabric.ff_v_running.lease_is_expired is
'Whether the lease is over and waits for somebody to take over.';
comment on column flowfabric.ff_v_running.progress is 'Last reported progress, 0 to 100.';
comment on column flowfabric.ff_v_running.attempt is 'Number of the attempt, from 0.';

grant select on flowfabric.ff_v_running to flowfabric_reader, flowfabric_operator;
