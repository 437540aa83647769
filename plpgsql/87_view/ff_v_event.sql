-- ff_v_event: events of all streams for people. See ff_v_execution for what holds for all views.
--
-- Shows events that readers of the streams cannot have yet, and in no order: to follow a stream without missing
-- anything, use ff_read_events.
create or replace view flowfabric.ff_v_event
with (security_barrier = true)
as
select
    'completion' as stream,
    flowfabric.ff_timestamp(v.occurred_at_ms) as occurred_at,
    v.outcome::text as what,
    flowfabric.ff_format_execution_id(v.partition_key, v.execution_id) as execution_id,
    v.flow_id,
    null::text as worker,
    null::text as reason,
    jsonb_build_object('lane', v.lane_id, 'attempt', v.attempt_index) as detail
from flowfabric.ff_completion_event as v
union all
select
    'lease' as stream,
    flowfabric.ff_timestamp(v.occurred_at_ms) as occurred_at,
    v.event_type as what,
    flowfabric.ff_format_execution_id(v.partition_key, v.execution_id) as execution_id,
    null::uuid as flow_id,
    v.worker_instance_id as worker,
    v.reason,
    jsonb_build_object('attempt', v.attempt_index, 'lease_epoch', v.lease_epoch) as detail
from flowfabric.ff_lease_event as v
union all
select
    'signal' as stream,
    flowfabric.ff_timestamp(v.occurred_at_ms) as occurred_at,
    v.signal_name as what,
    flowfabric.ff_format_execution_id(v.partition_key, v.execution_id) as execution_id,
    null::uuid as flow_id,
    null::text as worker,
    v.effect as reason,
    jsonb_build_object('source_type', v.source_type, 'source_identity', v.source_identity) as detail
from flowfabric.ff_signal_event as v
union all
select
    'operator' as stream,
    flowfabric.ff_timestamp(v.occurred_at_ms) as occurred_at,
    v.event_type as what,
    case
        when v.execution_id is not null then flowfabric.ff_format_execution_id(v.partition_key, v.execution_id)
    end as execution_id,
    v.flow_id,
    null::text as worker,
    v.details ->> 'reason' as reason,
    v.details as detail
from flowfabric.ff_operator_event as v
union all
select
    'worker' as stream,
    flowfabric.ff_timestamp(v.occurred_at_ms) as occurred_at,
    v.event_kind as what,
    null::text as execution_id,
    null::uuid as flow_id,
    v.worker_instance_id as worker,
    v.reason,
    jsonb_build_object('namespace', v.namespace, 'worker_id', v.worker_id) as detail
from flowfabric.ff_worker_registry_event as v;

comment on view flowfabric.ff_v_event is
'Events of all five streams, in no order.';
comment on column flowfabric.ff_v_event.stream is 'Which of the five streams.';
comment on column flowfabric.ff_v_event.occurred_at is 'Time of the operation; not of its commit.';
comment on column flowfabric.ff_v_event.what is 'What happened.';
comment on column flowfabric.ff_v_event.execution_id is 'The execution it happened to.';
comment on column flowfabric.ff_v_event.flow_id is 'The flow it happened to or in.';
comment on column flowfabric.ff_v_event.worker is 'Process concerned.';
comment on column flowfabric.ff_v_event.reason is 'Which operation did it, or the words of whoever did.';
comment on column flowfabric.ff_v_event.detail is 'What else the stream has to say.';

grant select on flowfabric.ff_v_event to flowfabric_reader, flowfabric_operator;
