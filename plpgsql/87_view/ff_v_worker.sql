-- ff_v_worker: registered workers for people. See ff_v_execution for what holds for all views.
create or replace view flowfabric.ff_v_worker
with (security_barrier = true)
as
with holder as (
    select
        e.current_worker_instance_id,
        count(*) as leases
    from flowfabric.ff_exec_core as e
    where e.ownership_state = 'leased'
    group by e.current_worker_instance_id
)

select -- noqa: ST06
    w.namespace,
    w.worker_id as worker,
    w.worker_instance_id as instance,
    w.lanes,
    w.capabilities,
    w.last_heartbeat_ms > flowfabric.ff_now_ms() - greatest(w.liveness_ttl_ms, 0) as live,
    w.draining,
    flowfabric.ff_timestamp(w.last_heartbeat_ms) as last_heartbeat,
    coalesce(h.leases, 0) as leases
from flowfabric.ff_worker_registry as w
left join holder as h on w.worker_instance_id = h.current_worker_instance_id;

comment on view flowfabric.ff_v_worker is
'Registered worker processes: what they serve, and whether they live.';
comment on column flowfabric.ff_v_worker.namespace is 'Tenant scope.';
comment on column flowfabric.ff_v_worker.worker is 'Logical worker.';
comment on column flowfabric.ff_v_worker.instance is 'Process.';
comment on column flowfabric.ff_v_worker.lanes is 'Lanes it serves.';
comment on column flowfabric.ff_v_worker.capabilities is 'Capabilities it offers.';
comment on column flowfabric.ff_v_worker.live is 'Whether it has sent a heartbeat in time.';
comment on column flowfabric.ff_v_worker.draining is 'Whether it was asked to take no more work.';
comment on column flowfabric.ff_v_worker.last_heartbeat is 'When it was last heard of.';
comment on column flowfabric.ff_v_worker.leases is 'Leases that a process of this name holds.';

grant select on flowfabric.ff_v_worker to flowfabric_reader, flowfabric_operator;
