-- The scanner of claim floors: it moves what claims have left alone, and forgets what nobody uses.
begin;
\ir ../helpers.sql
select plan(21);

create function ff_tap.id(p_number integer)
returns text
language sql immutable
as $$ select '{fp:86}:00000000-0000-4000-8000-' || lpad(p_number::text, 12, '0') $$;

create function ff_tap.floors()
returns text
language sql stable
as $$
    select coalesce(string_agg(
        format('%s: %s checked %s raised %s', s.lane_id, s.floors, s.checked_at_ms, s.raised_at_ms), '; '
        order by s.lane_id), 'none')
    from (
        select
            f.lane_id, string_agg(f.floor_ms::text, ',' order by f.side) filter (where f.side > 0) as floors,
            max(f.checked_at_ms) filter (where f.side = 0) as checked_at_ms, max(f.raised_at_ms) as raised_at_ms
        from flowfabric.ff_lane_floor as f
        group by f.lane_id
    ) as s
$$;

prepare scan (integer) as select s.* from flowfabric.ff_scan_claim_floors($1) as s;

select ff_tap.freeze_time(10000);
select results_eq('execute scan(200)', $$ values (0, 0, 0, false, 0) $$, 'without floors there is nothing to do');
select ff_tap.execution(ff_tap.id(n), p_lane_id => 'busy') from generate_series(1, 3) as n;
select ff_tap.execution(ff_tap.id(4), p_lane_id => 'idle');
select flowfabric.ff_claim_next('{busy}', 'pool', 'pool-1'), flowfabric.ff_claim_next('{idle}', 'pool', 'pool-1');
select is(
    ff_tap.floors(), 'busy: 0,0 checked 10000 raised 10000; idle: 0,0 checked 10000 raised 10000', 'two lanes have floors');
select ff_tap.freeze_time(10999);
select results_eq('execute scan(200)', $$ values (0, 0, 0, false, 0) $$, 'before the recheck is due it does nothing');
select ff_tap.freeze_time(11500);
savepoint due;
select results_eq('execute scan(200)', $$ values (2, 0, 0, false, 0) $$, 'then it moves both');
select is(
    ff_tap.floors(), 'busy: 10000,0 checked 11500 raised 11500; idle: 11400,0 checked 11500 raised 10000',
    'to the oldest that waits, or up to now less the lag');
select results_eq('execute scan(200)', $$ values (0, 0, 0, false, 0) $$, 'and has done');
rollback to due;
select results_eq('execute scan(1)', $$ values (1, 0, 0, true, 0) $$, 'a limit leaves the rest to the next call');
select results_eq('execute scan(1)', $$ values (1, 0, 0, true, 0) $$, 'which goes on with the longest unchecked');
select results_eq('execute scan(1)', $$ values (0, 0, 0, false, 0) $$, 'until there is none');

select ff_tap.freeze_time(3609999);
select results_eq('execute scan(200)', $$ values (2, 0, 0, false, 0) $$, 'within the hour nothing is forgotten');
select ff_tap.freeze_time(3611000);
select results_eq(
    'execute scan(200)', $$ values (2, 0, 0, false, 1) $$,
    'an hour after its floor last grew, a segment without work is forgotten');
select is(ff_tap.floors(), 'busy: 10000,10000 checked 3611000 raised 3609999', 'one with work is not');
select flowfabric.ff_claim_next('{busy}', 'pool', 'pool-1', p_max => 9);
select ff_tap.freeze_time(7300000);
select results_eq('execute scan(200)', $$ values (1, 0, 0, false, 1) $$, 'until its work is done');
select is(ff_tap.floors(), 'none', 'nothing is left');

-- An announcement into a segment without floors leaves one of its own.
select ff_tap.execution(ff_tap.id(5), p_lane_id => 'unserved');
select flowfabric.ff_change_priority(ff_tap.id(5), 3);
select is(ff_tap.floors(), 'unserved: 0 checked  raised 7300000', 'what comes into a segment without floors leaves one');
select ff_tap.freeze_time(10899999);
select results_eq('execute scan(200)', $$ values (0, 0, 0, false, 0) $$, 'it stays for an hour');
select ff_tap.freeze_time(10900000);
select results_eq('execute scan(200)', $$ values (0, 0, 0, false, 0) $$, 'and while something waits there');
select flowfabric.ff_change_priority(ff_tap.id(5), 4);
delete from flowfabric.ff_lane_floor as f where f.priority = 4;
select results_eq('execute scan(200)', $$ values (0, 0, 0, false, 1) $$, 'then it is forgotten, too');

select throws_ok('execute scan(0)', 'ZV001', 'invalid_input', 'a limit is positive');
select throws_ok('execute scan(10001)', 'ZV001', 'invalid_input', 'and bounded');
select throws_ok('execute scan(null)', 'ZV001', 'invalid_input', 'and given');

select * from finish();
rollback;
