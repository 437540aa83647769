-- ff_v_execution: executions for people.
--
-- Views for people run with the rights of their owner and are barriers: a condition that might tell something about a
-- row is evaluated after the view has decided to show it. They call nothing but functions that readers may call,
-- because those are checked against the reader: so the public state is spelled out here, which a test holds equal to
-- _ff_public_state. None shows a payload, a result, a token, a key or a policy. Columns
-- stand in the order in which people read them.
create or replace view flowfabric.ff_v_execution
with (security_barrier = true)
as
select -- noqa: ST06
    flowfabric.ff_format_execution_id(e.partition_key, e.execution_id) as execution_id,
    e.namespace,
    e.lane_id as lane,
    e.execution_kind as kind,
    case e.lifecycle_phase
        when 'runnable' then
            case e.eligibility_state
                when 'not_eligible_until_time' then 'delayed'::flowfabric.ff_public_state
                when 'blocked_by_dependencies' then 'waiting_children'
                when 'blocked_by_budget' then 'rate_limited'
                when 'blocked_by_quota' then 'rate_limited'
                else 'waiting'
            end
        when 'active' then 'active'
        when 'suspended' then 'suspended'
        else
            case e.terminal_outcome
                when 'success' then 'completed'::flowfabric.ff_public_state
                when 'failed' then 'failed'
                when 'cancelled' then 'cancelled'
                when 'expired' then 'expired'
                when 'skipped' then 'skipped'
            end
    end as state,
    e.lifecycle_phase as phase,
    nullif(e.blocking_reason, 'none') as why,
    e.priority,
    e.flow_id,
    e.total_attempt_count as attempts,
    e.retry_count as retries,
    e.current_worker_id as worker,
    flowfabric.ff_timestamp(e.lease_expires_at_ms) as lease_expires_at,
    e.lease_expires_at_ms <= flowfabric.ff_now_ms() as lease_is_expired,
    n.progress_pct as progress,
    flowfabric.ff_timestamp(e.created_at_ms) as created_at,
    flowfabric.ff_timestamp(e.started_at_ms) as started_at,
    flowfabric.ff_timestamp(e.terminal_at_ms) as ended_at,
    flowfabric.ff_timestamp(e.delay_until_ms) as delayed_until,
    flowfabric.ff_timestamp(e.deadline_at_ms) as deadline_at,
    nullif(e.terminal_outcome, 'none') as outcome,
    n.failure_reason,
    coalesce(p.tags, '{}') || coalesce(t.tags, '{}') as tags
from flowfabric.ff_exec_core as e
left join flowfabric.ff_exec_payload as p on e.partition_key = p.partition_key and e.execution_id = p.execution_id
left join flowfabric.ff_exec_tag as t on e.partition_key = t.partition_key and e.execution_id = t.execution_id
left join flowfabric.ff_exec_note as n on e.partition_key = n.partition_key and e.execution_id = n.execution_id;

comment on view flowfabric.ff_v_execution is
'Executions: what each is, how it stands and how it ended.';
comment on column flowfabric.ff_v_execution.execution_id is 'The execution, as calls take it.';
comment on column flowfabric.ff_v_execution.namespace is 'Tenant scope.';
comment on column flowfabric.ff_v_execution.lane is 'The queue it belongs to.';
comment on column flowfabric.ff_v_execution.kind is 'Which handler runs it.';
comment on column flowfabric.ff_v_execution.state is 'How it stands, in one word.';
comment on column flowfabric.ff_v_execution.phase is 'What phase of life it is in.';
comment on column flowfabric.ff_v_execution.why is 'Why it makes no progress; NULL when nothing blocks it.';
comment on column flowfabric.ff_v_execution.priority is '0 to 9000, the higher first.';
comment on column flowfabric.ff_v_execution.flow_id is 'The flow it is a member of.';
comment on column flowfabric.ff_v_execution.attempts is 'Attempts started.';
comment on column flowfabric.ff_v_execution.retries is 'Failures that led to a retry.';
comment on column flowfabric.ff_v_execution.worker is 'Logical worker that holds, or has lost, the lease.';
comment on column flowfabric.ff_v_execution.lease_expires_at is 'End of the lease, unless it is renewed.';
comment on column flowfabric.ff_v_execution.lease_is_expired is 'Whether the lease is over; NULL without one.';
comment on column flowfabric.ff_v_execution.progress is 'Last reported progress, 0 to 100.';
comment on column flowfabric.ff_v_execution.created_at is 'When it was created.';
comment on column flowfabric.ff_v_execution.started_at is 'First claim of its life.';
comment on column flowfabric.ff_v_execution.ended_at is 'When it ended.';
comment on column flowfabric.ff_v_execution.delayed_until is 'Earliest start while it is delayed.';
comment on column flowfabric.ff_v_execution.deadline_at is 'When it is ended at the latest.';
comment on column flowfabric.ff_v_execution.outcome is 'How it ended.';
comment on column flowfabric.ff_v_execution.failure_reason is 'Why the last failure happened, or why it expired.';
comment on column flowfabric.ff_v_execution.tags is 'Its tags.';

grant select on flowfabric.ff_v_execution to flowfabric_reader, flowfabric_operator;
