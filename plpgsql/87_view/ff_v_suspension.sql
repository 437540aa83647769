-- ff_v_suspension: what waits for an answer, for people. See ff_v_execution for what holds for all views.
create or replace view flowfabric.ff_v_suspension
with (security_barrier = true)
as
select -- noqa: ST06
    flowfabric.ff_format_execution_id(u.partition_key, u.execution_id) as execution_id,
    u.reason_code as reason,
    flowfabric.ff_timestamp(u.suspended_at_ms) as since,
    flowfabric.ff_timestamp(u.timeout_at_ms) as times_out_at,
    u.timeout_behavior as on_timeout,
    w.waitpoints,
    w.signals
from flowfabric.ff_suspension_current as u
cross join lateral (
    select
        count(*) as waitpoints,
        coalesce(sum(p.signal_count), 0) as signals
    from flowfabric.ff_waitpoint_pending as p
    where p.partition_key = u.partition_key and p.suspension_id = u.suspension_id
) as w
where u.closed_at_ms is null;

comment on view flowfabric.ff_v_suspension is
'Open suspensions: what they wait for and until when.';
comment on column flowfabric.ff_v_suspension.execution_id is 'The execution, as calls take it.';
comment on column flowfabric.ff_v_suspension.reason is 'What it waits for.';
comment on column flowfabric.ff_v_suspension.since is 'When it was suspended.';
comment on column flowfabric.ff_v_suspension.times_out_at is 'When it stops waiting; NULL for never.';
comment on column flowfabric.ff_v_suspension.on_timeout is 'What happens then.';
comment on column flowfabric.ff_v_suspension.waitpoints is 'Waitpoints of the suspension.';
comment on column flowfabric.ff_v_suspension.signals is 'Signals they have received.';

grant select on flowfabric.ff_v_suspension to flowfabric_reader, flowfabric_operator;
