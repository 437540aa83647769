-- The scanner of suspension timeouts: it finds what is due, longest overdue first, and fails for one item only.
begin;
\ir helpers.sql
select plan(20);

select ff_tap.freeze_time(1000);
select ff_tap.signing_key();
prepare scan (integer) as
select s.processed, s.skipped, s.errors, s.more from flowfabric.ff_scan_suspension_timeouts($1) as s;
\set first '{fp:86}:00000000-0000-4000-8000-000000000001'
\set second '{fp:86}:00000000-0000-4000-8000-000000000002'
\set third '{fp:87}:00000000-0000-4000-8000-000000000003'
\set never '{fp:86}:00000000-0000-4000-8000-000000000004'
select ff_tap.paused_execution(
    :'first', p_first_waitpoint => 1, p_timeout_at_ms => 3000, p_timeout_behavior => 'cancel');
select ff_tap.paused_execution(
    :'second', p_first_waitpoint => 2, p_timeout_at_ms => 2000, p_timeout_behavior => 'auto_resume');
select ff_tap.paused_execution(
    :'third', p_first_waitpoint => 3, p_timeout_at_ms => 2500, p_timeout_behavior => 'escalate');
select ff_tap.paused_execution(:'never', p_first_waitpoint => 4);

select ff_tap.freeze_time(1999);
select results_eq('execute scan(50)', 'values (0, 0, 0, false)', 'before its time nothing is due');
select ff_tap.freeze_time(2000);
select results_eq('execute scan(50)', 'values (1, 0, 0, false)', 'at its instant a timeout is due');
select is(ff_tap.public_state(ff_tap.core(:'second'))::text, 'waiting', 'and its behaviour applies');
select ff_tap.freeze_time(3000);
select results_eq('execute scan(1)', 'values (1, 0, 0, true)', 'a full batch says that there may be more');
select is((ff_tap.core(:'third')).blocking_reason::text, 'paused_by_operator', 'the longest overdue comes first');
select is(ff_tap.public_state(ff_tap.core(:'first'))::text, 'suspended', 'the others wait for the next batch');
select results_eq('execute scan(50)', 'values (1, 0, 0, false)', 'which takes them');
select is(ff_tap.completions(:'first'), array['cancelled'], 'an end goes through the terminal hook');
select results_eq('execute scan(50)', 'values (0, 0, 0, false)', 'a second run finds nothing, also no escalated one');
select is(ff_tap.public_state(ff_tap.core(:'never'))::text, 'suspended', 'what has no timeout is left alone');

-- One partition
\set here '{fp:86}:00000000-0000-4000-8000-000000000005'
\set there '{fp:87}:00000000-0000-4000-8000-000000000006'
select ff_tap.paused_execution(:'here', p_first_waitpoint => 5, p_timeout_at_ms => 3000);
select ff_tap.paused_execution(:'there', p_first_waitpoint => 6, p_timeout_at_ms => 3000);
select is(
    (select s.processed from flowfabric.ff_scan_suspension_timeouts(50, 87::smallint) as s), 1,
    'a scan can be of one partition');
select is(ff_tap.public_state(ff_tap.core(:'here'))::text, 'suspended', 'and then leaves the others alone');

-- One item that fails
\set broken '{fp:86}:00000000-0000-4000-8000-000000000007'
select ff_tap.paused_execution(:'broken', p_first_waitpoint => 7, p_timeout_at_ms => 2900);
create function ff_tap.explode() returns trigger language plpgsql as $$
begin
    if new.execution_id = '00000000-0000-4000-8000-000000000007' and new.lifecycle_phase = 'terminal' then
        raise exception 'boom';
    end if;
    return new;
end;
$$;
create trigger explode before update on flowfabric.ff_exec_core for each row execute function ff_tap.explode();
select results_eq('execute scan(50)', 'values (1, 0, 1, false)', 'an item that fails does not stop the others');
select is(
    (select to_jsonb(f) - 'last_error' from flowfabric.ff_scanner_failure as f),
    jsonb_build_object(
        'scanner', 'suspension_timeout', 'item_key', :'broken', 'failures', 1, 'skip_until_ms', null,
        'last_failed_at_ms', 3000), 'the failure is recorded');
select is(ff_tap.public_state(ff_tap.core(:'broken'))::text, 'suspended', 'and nothing of it is left');
select flowfabric.ff_scan_suspension_timeouts();
select flowfabric.ff_scan_suspension_timeouts();
select results_eq('execute scan(50)', 'values (0, 0, 0, false)', 'after the third failure in a row the item rests');
drop trigger explode on flowfabric.ff_exec_core;
select ff_tap.freeze_time(1000000);
select results_eq('execute scan(50)', 'values (1, 0, 0, false)', 'and then gets another try');
select is((select count(*) from flowfabric.ff_scanner_failure), 0::bigint, 'a success is forgotten as a failure');

select throws_ok('execute scan(0)', 'ZV001', 'invalid_input', 'a limit is at least 1');
select throws_ok('execute scan(null)', 'ZV001', 'invalid_input', 'a limit is required');

select * from finish();
rollback;
