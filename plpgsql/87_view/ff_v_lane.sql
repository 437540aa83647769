-- ff_v_lane: lanes for people. See ff_v_execution for what holds for all views.
--
-- Counts what has not ended, by indexes of exactly that; ff_metrics has the same numbers up to a cap.
create or replace view flowfabric.ff_v_lane
with (security_barrier = true)
as
select -- noqa: ST06
    l.lane_id as lane,
    l.lane_state as state,
    l.state_reason as reason,
    q.waiting + b.waiting as waiting,
    r.running,
    flowfabric.ff_timestamp(q.oldest_ms) as oldest_waiting_since,
    w.live_workers
from flowfabric.ff_lane_registry as l
cross join lateral (
    select
        count(*) as waiting,
        min(e.created_at_ms) as oldest_ms
    from flowfabric.ff_exec_core as e
    where e.eligibility_state = 'eligible_now' and e.lane_id = l.lane_id
) as q
cross join lateral (
    select count(*) as waiting
    from flowfabric.ff_exec_core as e
    where
        e.eligibility_state in ('blocked_by_route', 'blocked_by_lane_state', 'blocked_by_operator')
        and e.lane_id = l.lane_id
) as b
cross join lateral (
    select count(*) as running
    from flowfabric.ff_exec_core as e
    where e.ownership_state = 'leased' and e.lease_expires_at_ms > flowfabric.ff_now_ms() and e.lane_id = l.lane_id
) as r
cross join lateral (
    select count(*) as live_workers
    from flowfabric.ff_worker_registry as v
    where l.lane_id = any(v.lanes) and v.last_heartbeat_ms > flowfabric.ff_now_ms() - greatest(v.liveness_ttl_ms, 0)
) as w;

comment on view flowfabric.ff_v_lane is
'Lanes: their state, their queues and who serves them.';
comment on column flowfabric.ff_v_lane.lane is 'The lane.';
comment on column flowfabric.ff_v_lane.state is 'Whether it accepts and serves work.';
comment on column flowfabric.ff_v_lane.reason is 'Why an operator put it into its state.';
comment on column flowfabric.ff_v_lane.waiting is
'Executions that wait for a worker, a route, the lane or an operator.';
comment on column flowfabric.ff_v_lane.running is 'Executions that a worker holds.';
comment on column flowfabric.ff_v_lane.oldest_waiting_since is 'Creation of the oldest execution that can be claimed.';
comment on column flowfabric.ff_v_lane.live_workers is
'Registered workers that serve it and have sent a heartbeat in time.';

grant select on flowfabric.ff_v_lane to flowfabric_reader, flowfabric_operator;
