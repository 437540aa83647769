-- The moves read by key, whatever a planner thinks of tables that have a few pages when it first looks.
begin;
\ir ../helpers.sql
select plan(10);

select ff_tap.freeze_time(1000);
create function ff_tap.id(p_number integer)
returns text
language sql immutable
as $$ select '{fp:86}:00000000-0000-4000-8000-0000000' || to_char(p_number, 'FM00000') $$;
select ff_tap.execution(
    ff_tap.id(n), '{"retry_policy": {"max_retries": 9, "backoff": {"type": "fixed", "delay_ms": 0}}}')
from generate_series(1, 50) as n;

-- Each statement calls its function on executions 1 to 10, so that the session's plans are made and then reused.
prepare claim as
select count(flowfabric.ff_issue_grant_and_claim(
    ff_tap.id(n), 30000, p_lease_id => ff_tap.lease_id(), p_attempt_id => ff_tap.attempt_id()))
from generate_series(1, 10) as n;
select is(ff_tap.sequential_scans('execute claim'), 0::bigint, 'a claim reads no table from end to end');
select is(
    ff_tap.sequential_scans($$
        select flowfabric.ff_update_progress(ff_tap.id(n), ff_tap.lease_id(), 1, ff_tap.attempt_id(), 50)
        from generate_series(1, 10) as n $$),
    0::bigint, 'nor does progress');
select is(
    ff_tap.sequential_scans($$
        select flowfabric.ff_fail_execution(ff_tap.id(n), ff_tap.lease_id(), 1, ff_tap.attempt_id(), 'broken')
        from generate_series(1, 10) as n $$),
    0::bigint, 'nor a failure with a retry');
select is(
    ff_tap.sequential_scans($$
        select flowfabric.ff_promote_delayed(ff_tap.id(n)) from generate_series(1, 10) as n $$),
    0::bigint, 'nor a promotion');
select is(ff_tap.sequential_scans('execute claim'), 0::bigint, 'nor the claim of a retry');
select is(
    ff_tap.sequential_scans($$
        select flowfabric.ff_delay_execution(
            ff_tap.id(n), 1000, p_lease_id => ff_tap.lease_id(), p_lease_epoch => 2,
            p_attempt_id => ff_tap.attempt_id())
        from generate_series(1, 10) as n $$),
    0::bigint, 'nor a delay');
select flowfabric.ff_promote_delayed(ff_tap.id(n)) from generate_series(1, 10) as n;
select is(ff_tap.sequential_scans('execute claim'), 0::bigint, 'nor the claim of a paused attempt');
select is(
    ff_tap.sequential_scans($$
        select flowfabric.ff_revoke_lease(ff_tap.id(n)) from generate_series(1, 10) as n $$),
    0::bigint, 'nor a revocation');
select is(
    ff_tap.sequential_scans($$
        select flowfabric.ff_cancel_execution(ff_tap.id(n), 'enough', 'operator_override')
        from generate_series(1, 10) as n $$),
    0::bigint, 'nor a cancellation');
select is(
    ff_tap.sequential_scans($$
        select flowfabric.ff_create_execution('test', p_execution_id => ff_tap.id(100 + n))
        from generate_series(1, 10) as n $$),
    0::bigint, 'nor a creation');
select * from finish();
rollback;
