-- ff_v_attempt: attempts for people. See ff_v_execution for what holds for all views.
create or replace view flowfabric.ff_v_attempt
with (security_barrier = true)
as
select -- noqa: ST06
    flowfabric.ff_format_execution_id(a.partition_key, a.execution_id) as execution_id,
    a.attempt_index as attempt,
    a.attempt_type as type,
    a.attempt_state as state,
    a.worker_id as worker,
    flowfabric.ff_timestamp(a.started_at_ms) as started_at,
    flowfabric.ff_timestamp(a.ended_at_ms) as ended_at,
    flowfabric.ff_timestamp(coalesce(a.ended_at_ms, flowfabric.ff_now_ms()))
    - flowfabric.ff_timestamp(a.started_at_ms) as run_time,
    a.failure_reason,
    a.failure_category
from (
    select
        w.partition_key,
        w.execution_id,
        w.attempt_index,
        w.attempt_type,
        w.attempt_state,
        w.worker_id,
        w.started_at_ms,
        w.ended_at_ms,
        w.failure_reason,
        w.failure_category
    from flowfabric.ff_attempt as w
    union all
    -- As _ff_all_attempts, which a reader of the view may not call.
    select
        e.partition_key,
        e.execution_id,
        e.total_attempt_count - 1 as attempt_index,
        'initial'::flowfabric.ff_attempt_type as attempt_type,
        case e.lifecycle_phase
            when 'terminal' then 'ended_success'::flowfabric.ff_attempt_row_state else 'started'
        end as attempt_state,
        coalesce(e.current_worker_id, e.ended_worker_id) as worker_id,
        e.started_at_ms,
        e.terminal_at_ms as ended_at_ms,
        null::text as failure_reason,
        null::text as failure_category
    from flowfabric.ff_exec_core as e
    where e.attempt_is_deferred
) as a;

comment on view flowfabric.ff_v_attempt is
'Attempts: the concrete runs of executions.';
comment on column flowfabric.ff_v_attempt.execution_id is 'The execution, as calls take it.';
comment on column flowfabric.ff_v_attempt.attempt is 'Number of the attempt, from 0.';
comment on column flowfabric.ff_v_attempt.type is 'Why it exists.';
comment on column flowfabric.ff_v_attempt.state is 'Running, paused, or how it ended.';
comment on column flowfabric.ff_v_attempt.worker is 'Logical worker of its latest lease.';
comment on column flowfabric.ff_v_attempt.started_at is 'When it first ran.';
comment on column flowfabric.ff_v_attempt.ended_at is 'When it ended.';
comment on column flowfabric.ff_v_attempt.run_time is 'From its start to its end, or until now; with its pauses.';
comment on column flowfabric.ff_v_attempt.failure_reason is 'Why it failed, was cancelled or was taken over.';
comment on column flowfabric.ff_v_attempt.failure_category is 'Category given with the failure.';

grant select on flowfabric.ff_v_attempt to flowfabric_reader, flowfabric_operator;
