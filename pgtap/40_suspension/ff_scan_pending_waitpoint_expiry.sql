-- The scanner of pending waitpoints: it closes what no suspension took into use in time, and nothing else.
begin;
\ir helpers.sql
select plan(18);

select ff_tap.freeze_time(1000);
select ff_tap.signing_key();
prepare scan (integer) as
select s.processed, s.skipped, s.errors, s.more from flowfabric.ff_scan_pending_waitpoint_expiry($1) as s;
\set execution '{fp:86}:00000000-0000-4000-8000-000000000001'
select ff_tap.leased_execution(:'execution');
select ff_tap.pending_waitpoint(:'execution', 1, 'a', 300);
select ff_tap.pending_waitpoint(:'execution', 2, 'b', 100);
select ff_tap.pending_waitpoint(:'execution', 3, 'c', 200);
select ff_tap.buffer('x', 2);
\set active '{fp:86}:00000000-0000-4000-8000-000000000002'
select ff_tap.paused_execution(:'active', p_first_waitpoint => 21, p_timeout_at_ms => 1100);

select ff_tap.freeze_time(1099);
select results_eq('execute scan(100)', 'values (0, 0, 0, false)', 'before its time nothing is swept');
select ff_tap.freeze_time(1100);
create temporary table before as select to_jsonb(ff_tap.waitpoint(2)) as waitpoint, ff_tap.core(:'execution') as core;
select results_eq('execute scan(100)', 'values (1, 0, 0, false)', 'at its instant a waitpoint is over');
select is(
    to_jsonb(ff_tap.waitpoint(2)),
    (select b.waitpoint from before as b)
    || '{"state": "closed", "closed_at_ms": 1100, "close_reason": "never_committed"}', 'and is closed for good');
select is(ff_tap.core(:'execution'), (select b.core from before as b), 'the execution is not touched');
select is(
    ff_tap.signals(:'execution'), array['1:x:buffered_for_pending_waitpoint'],
    'what was buffered stays recorded and is not evaluated');
select is((ff_tap.waitpoint(21)).state, 'active', 'an active waitpoint is none of its business, whatever its expiry');
select is(
    flowfabric._ff_sweep_waitpoint(ff_tap.core(:'active'), ff_tap.waitpoint_id(21), 1100), false,
    'nor is one that became active after it was found');
select ff_tap.freeze_time(1300);
select results_eq('execute scan(1)', 'values (1, 0, 0, true)', 'a full batch says that there may be more');
select is(
    array[(ff_tap.waitpoint(3)).state, (ff_tap.waitpoint(1)).state], '{closed,pending}'::text[],
    'the longest overdue comes first');
select is(
    (select s.processed from flowfabric.ff_scan_pending_waitpoint_expiry(100, 85::smallint) as s), 0,
    'a scan can be of one partition');
select results_eq('execute scan(100)', 'values (1, 0, 0, false)', 'the next batch takes the rest');
select results_eq('execute scan(100)', 'values (0, 0, 0, false)', 'a second run finds nothing');
select is(
    ff_tap.error_of(format(
        $$select flowfabric.ff_suspend_execution(
            %L, ff_tap.lease_id(), 1, ff_tap.attempt_id(), ff_tap.single(null, 'a'), 'manual_pause',
            p_waitpoint_ids => array[ff_tap.waitpoint_id(1)], p_use_pending => true)$$, :'execution')) ->> 'code',
    'waitpoint_not_pending', 'a swept waitpoint is not pending any more');

-- One item that fails
select ff_tap.pending_waitpoint(:'execution', 4, 'd', 1);
select ff_tap.pending_waitpoint(:'execution', 5, 'e', 2);
select ff_tap.freeze_time(1400);
create function ff_tap.explode() returns trigger language plpgsql as $$
begin
    if new.waitpoint_id = ff_tap.waitpoint_id(4) then
        raise exception 'boom';
    end if;
    return new;
end;
$$;
create trigger explode before update on flowfabric.ff_waitpoint_pending for each row execute function ff_tap.explode();
select results_eq('execute scan(100)', 'values (1, 0, 1, false)', 'an item that fails does not stop the others');
select is(
    (select f.item_key from flowfabric.ff_scanner_failure as f where f.scanner = 'pending_waitpoint_expiry'),
    (:'execution' || '/' || ff_tap.waitpoint_id(4)::text) collate "C", 'the failure is recorded under its waitpoint');
select flowfabric.ff_scan_pending_waitpoint_expiry();
select flowfabric.ff_scan_pending_waitpoint_expiry();
select results_eq('execute scan(100)', 'values (0, 0, 0, false)', 'after the third failure in a row the item rests');

select throws_ok('execute scan(10001)', 'ZV001', 'invalid_input', 'a limit is 10000 at most');
select throws_ok('execute scan(null)', 'ZV001', 'invalid_input', 'a limit is required');

select * from finish();
rollback;
