-- ff_v_edge: dependencies for people. See ff_v_execution for what holds for all views.
create or replace view flowfabric.ff_v_edge
with (security_barrier = true)
as
select -- noqa: ST06
    d.flow_id,
    flowfabric.ff_format_execution_id(d.partition_key, d.upstream_eid) as upstream,
    flowfabric.ff_format_execution_id(d.partition_key, d.downstream_eid) as downstream,
    d.dep_state as state,
    d.resolved_outcome as outcome,
    d.data_passing_ref is not null as passes_data,
    flowfabric.ff_timestamp(d.applied_at_ms) as applied_at,
    flowfabric.ff_timestamp(d.last_resolved_at_ms) as resolved_at,
    case
        when g.policy_kind = 'quorum' then 'quorum of ' || g.k::text
        else g.policy_kind
    end as join_policy,
    g.group_state
from flowfabric.ff_edge as d
left join flowfabric.ff_edge_group as g
    on d.partition_key = g.partition_key and d.flow_id = g.flow_id and d.downstream_eid = g.downstream_eid;

comment on view flowfabric.ff_v_edge is
'Dependencies between members of flows, with the join of the one that waits.';
comment on column flowfabric.ff_v_edge.flow_id is 'The flow of both ends.';
comment on column flowfabric.ff_v_edge.upstream is 'Execution that is waited for.';
comment on column flowfabric.ff_v_edge.downstream is 'Execution that waits.';
comment on column flowfabric.ff_v_edge.state is 'Whether the edge counts, and how it was resolved.';
comment on column flowfabric.ff_v_edge.outcome is 'How the upstream ended.';
comment on column flowfabric.ff_v_edge.passes_data is
'Whether the result of the upstream becomes the payload of the downstream.';
comment on column flowfabric.ff_v_edge.applied_at is 'When it began to count.';
comment on column flowfabric.ff_v_edge.resolved_at is 'When it was resolved.';
comment on column flowfabric.ff_v_edge.join_policy is 'How many upstreams of the downstream must succeed.';
comment on column flowfabric.ff_v_edge.group_state is 'Whether the downstream may run, as far as its dependencies go.';

grant select on flowfabric.ff_v_edge to flowfabric_reader, flowfabric_operator;
