-- ff_v_scanner: background scanners for people. See ff_v_execution for what holds for all views.
create or replace view flowfabric.ff_v_scanner
with (security_barrier = true)
as
select -- noqa: ST06
    s.scanner,
    s.enabled,
    least(greatest(s.interval_ms, 0), 31536000000000) * interval '1 millisecond' as every,
    flowfabric.ff_timestamp(s.last_run_at_ms) as last_run,
    flowfabric.ff_timestamp(nullif(s.next_due_at_ms, 0)) as next_due,
    s.total_processed as processed,
    s.last_errors as errors,
    case when s.consecutive_failures > 0 then s.last_error end as last_error
from flowfabric.ff_scanner as s;

comment on view flowfabric.ff_v_scanner is
'Background scanners: when they run and how they fare.';
comment on column flowfabric.ff_v_scanner.scanner is 'The scanner.';
comment on column flowfabric.ff_v_scanner.enabled is 'Whether the tick runs it.';
comment on column flowfabric.ff_v_scanner.every is 'Pause after a run that left nothing over.';
comment on column flowfabric.ff_v_scanner.last_run is 'When it ran last.';
comment on column flowfabric.ff_v_scanner.next_due is 'When it should run next; NULL before its first run.';
comment on column flowfabric.ff_v_scanner.processed is 'Items changed since installation.';
comment on column flowfabric.ff_v_scanner.errors is 'Items of the last run that failed.';
comment on column flowfabric.ff_v_scanner.last_error is 'Why the last run failed as a whole; NULL when it did not.';

grant select on flowfabric.ff_v_scanner to flowfabric_reader, flowfabric_operator;
