-- ff_v_flow: flows for people. See ff_v_execution for what holds for all views.
--
-- The counts are those of the last summary, which the scanner flow_summary makes; NULL before the first.
create or replace view flowfabric.ff_v_flow
with (security_barrier = true)
as
select -- noqa: ST06
    f.flow_id,
    f.flow_kind as kind,
    f.namespace,
    f.public_flow_state as state,
    s.public_flow_state as derived_state,
    f.node_count as members,
    f.edge_count as edges,
    s.members_completed as completed,
    s.members_failed as failed,
    s.members_active as running,
    s.members_waiting + s.members_delayed + s.members_rate_limited + s.members_waiting_children
    + s.members_suspended as waiting,
    flowfabric.ff_timestamp(f.created_at_ms) as created_at,
    flowfabric.ff_timestamp(f.cancelled_at_ms) as cancelled_at,
    f.tags || coalesce(t.tags, '{}') as tags
from flowfabric.ff_flow_core as f
left join flowfabric.ff_flow_summary as s on f.partition_key = s.partition_key and f.flow_id = s.flow_id
left join flowfabric.ff_flow_tag as t on f.partition_key = t.partition_key and f.flow_id = t.flow_id;

comment on view flowfabric.ff_v_flow is
'Flows: how they stand and how their members fare.';
comment on column flowfabric.ff_v_flow.flow_id is 'The flow.';
comment on column flowfabric.ff_v_flow.kind is 'What kind of flow it is, as its creator says.';
comment on column flowfabric.ff_v_flow.namespace is 'Tenant scope.';
comment on column flowfabric.ff_v_flow.state is 'open, or how it ended.';
comment on column flowfabric.ff_v_flow.derived_state is 'State derived from the members when they were last counted.';
comment on column flowfabric.ff_v_flow.members is 'Members it has had.';
comment on column flowfabric.ff_v_flow.edges is 'Edges it has had.';
comment on column flowfabric.ff_v_flow.completed is 'Members that succeeded.';
comment on column flowfabric.ff_v_flow.failed is 'Members that failed.';
comment on column flowfabric.ff_v_flow.running is 'Members held by a worker.';
comment on column flowfabric.ff_v_flow.waiting is 'Members that neither run nor have ended.';
comment on column flowfabric.ff_v_flow.created_at is 'When it was created.';
comment on column flowfabric.ff_v_flow.cancelled_at is 'When it was cancelled.';
comment on column flowfabric.ff_v_flow.tags is 'Its tags.';

grant select on flowfabric.ff_v_flow to flowfabric_reader, flowfabric_operator;
