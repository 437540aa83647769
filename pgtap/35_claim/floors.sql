-- Claim floors: where a claim starts to read, and that nothing which comes back or comes late stays unseen.
begin;
\ir ../helpers.sql
select plan(68);

create function ff_tap.id(p_number integer)
returns text
language sql immutable
as $$ select '{fp:86}:00000000-0000-4000-8000-' || lpad(p_number::text, 12, '0') $$;

create function ff_tap.claimed(
    p_max integer default 1,
    p_lanes text[] default '{default}',
    p_namespace text default null
)
returns integer[]
language sql volatile
as $$
    select coalesce(array_agg(right(c.execution_id, 12)::integer), '{}')
    from flowfabric.ff_claim_next(p_lanes, 'pool', 'pool-1', p_max => p_max, p_namespace => p_namespace) as c
$$;

create function ff_tap.floors()
returns text
language sql stable
as $$
    select coalesce(string_agg(
        format('%s/%s/%s: %s checked %s raised %s', f.lane_id, f.capability_set_id, f.priority, f.floor_ms,
            f.checked_at_ms, f.raised_at_ms), '; '
        order by f.lane_id, f.capability_set_id, f.priority desc), 'none')
    from flowfabric.ff_lane_floor as f
$$;

create function ff_tap.fence(p_number integer)
returns text
language sql stable
as $$
    select format(
        'p_execution_id => %L, p_lease_id => %L, p_lease_epoch => %s, p_attempt_id => %L', ff_tap.id(p_number),
        e.current_lease_id, e.current_lease_epoch, e.current_attempt_id)
    from ff_tap.core(ff_tap.id(p_number)) as e
$$;

create function ff_tap.run(p_call text)
returns void
language plpgsql volatile
as $$ begin execute p_call; end; $$;

create function ff_tap.execution_of(p_created_at_ms bigint, p_number integer, p_namespace text default 'default')
returns text
language plpgsql volatile
as $$
declare
    v_now_ms bigint := flowfabric.ff_now_ms();
begin
    perform ff_tap.freeze_time(p_created_at_ms);
    perform ff_tap.execution(ff_tap.id(p_number), p_namespace => p_namespace);
    perform ff_tap.freeze_time(v_now_ms);
    return ff_tap.id(p_number);
end;
$$;

comment on function ff_tap.execution_of(bigint, integer, text) is
'An execution whose creation commits only now, as far as anybody can tell.';

create function ff_tap.saturated_claim()
returns integer[]
language plpgsql volatile
as $$
begin
    perform ff_tap.execution(ff_tap.id(900)), ff_tap.execution(ff_tap.id(901));
    return ff_tap.claimed();
end;
$$;

comment on function ff_tap.saturated_claim() is 'What a claim gets from a lane that has enough new work.';

-- Creating and moving (R3, R4)
select ff_tap.freeze_time(100000);
select ff_tap.execution_of(90000 + n, n) from generate_series(1, 9) as n;
select is(ff_tap.floors(), 'none', 'a queue that was never claimed from has no floor');
select is(ff_tap.claimed(), '{1}', 'the first claim');
select is(ff_tap.floors(), 'default/1/0: 0 checked 100000 raised 100000', 'gives its segment a floor at the bottom');
select ff_tap.freeze_time(100249);
select is(ff_tap.claimed(), '{2}', 'for a quarter of the time between two checks');
select is(ff_tap.floors(), 'default/1/0: 0 checked 100000 raised 100000', 'the floor stays where it is');
select ff_tap.freeze_time(100250);
savepoint unmoved;
select ff_tap.execution_of(0, 20);
select is(ff_tap.claimed(), '{20}', 'the first claim after that finds what came late');
rollback to unmoved;
select is(ff_tap.claimed(), '{3}', 'the first claim after that');
select is(
    ff_tap.floors(), 'default/1/0: 90003 checked 100000 raised 100250',
    'moves the floor on to the oldest execution that it saw');
select ff_tap.execution_of(90002, 20);
select ff_tap.freeze_time(100999);
savepoint unchecked;
select is(ff_tap.claimed(), '{4}', 'which is no look below it');
rollback to unchecked;
select ff_tap.freeze_time(101000);
select is(ff_tap.claimed(), '{20}', 'until a check is due');
select is(
    ff_tap.floors(), 'default/1/0: 90002 checked 101000 raised 100250', 'which moves it down to what came late');
select is(ff_tap.claimed(), '{4}', 'behind it the queue goes on');
select ff_tap.freeze_time(102000);
select is(ff_tap.claimed(p_max => 100), '{5,6,7,8,9}', 'a batch that empties the queue');
select is(ff_tap.floors(), 'default/1/0: 90005 checked 102000 raised 102000', 'moves it as well');
select ff_tap.freeze_time(102099);
select is(ff_tap.claimed(), '{}', 'a call with room left looks below floors');
select is(
    ff_tap.floors(), 'default/1/0: 90005 checked 102000 raised 102000',
    'that were not checked for a tenth of the time');
select ff_tap.freeze_time(102100);
select is(ff_tap.claimed(), '{}', 'and then moves them');
select is(
    ff_tap.floors(), 'default/1/0: 102000 checked 102100 raised 102000',
    'an empty segment up to now less the lag, which is no growth that counts');
select ff_tap.execution(ff_tap.id(10), p_priority => 9);
select is(ff_tap.claimed(), '{10}', 'a priority without a floor is read from its beginning');
select is(
    ff_tap.floors(),
    'default/1/9: 0 checked 102100 raised 102100; default/1/0: 102000 checked 102100 raised 102000',
    'and gets a floor of its own');
select ff_tap.execution_of(102000, 11);
select is(ff_tap.claimed(), '{11}', 'an execution created at the floor is above it');

-- Late commits
select ff_tap.freeze_time(102199);
savepoint late;
select ff_tap.execution_of(95000, 12), ff_tap.execution(ff_tap.id(13)), ff_tap.execution(ff_tap.id(14));
select is(ff_tap.claimed(), '{13}', 'one that commits late is out of sight on a busy lane');
select ff_tap.freeze_time(103099);
select is(ff_tap.claimed(), '{14}', 'until the recheck is due');
select is(ff_tap.claimed(), '{12}', 'unless there is room left');
rollback to late;
select ff_tap.execution_of(95000, 12), ff_tap.execution(ff_tap.id(13)), ff_tap.execution(ff_tap.id(14));
select ff_tap.freeze_time(103100);
select is(ff_tap.claimed(), '{12}', 'then it is claimed first');
select is(
    (select f.floor_ms from flowfabric.ff_lane_floor as f where f.priority = 0), 95000::bigint,
    'because the floor has moved down to it');
rollback to late;
select ff_tap.execution_of(95000, 12);
select is(ff_tap.claimed(), '{}', 'on an idle lane it is out of sight');
select ff_tap.freeze_time(102200);
select is(ff_tap.claimed(), '{12}', 'for a tenth of that time');
rollback to late;
select ff_tap.execution_of(95000, 12), ff_tap.execution(ff_tap.id(13));
select ff_tap.freeze_time(102200);
select is(ff_tap.claimed(p_max => 9), '{13,12}', 'a batch with room left finds it at once, behind what it had already');
rollback to late;

-- A clock that goes back
select ff_tap.freeze_time(96000);
select ff_tap.execution(ff_tap.id(12)), ff_tap.execution(ff_tap.id(13));
savepoint back;
select is(ff_tap.claimed(), '{12}', 'what is created after the clock went back is seen at once');
select is(
    (select f.floor_ms from flowfabric.ff_lane_floor as f where f.priority = 0), 95900::bigint,
    'the floor has gone back with it');
rollback to back;
select is(
    (select s.processed from flowfabric.ff_scan_claim_floors() as s), 2, 'the scanner moves floors of the future too');
select is(ff_tap.claimed(p_max => 9), '{12,13}', 'so that nothing is hidden');
rollback to late;

-- What the engine itself makes eligible again is announced (R6)
select ff_tap.run(format(
    'select flowfabric.ff_fail_execution(%s, p_failure_reason => %L, p_retry_policy => %L)', ff_tap.fence(4), 'oops',
    '{"max_retries": 3, "backoff": {"type": "fixed", "delay_ms": 0}}'));
select is(ff_tap.saturated_claim(), '{4}', 'a retry of an old execution is claimed in its place by the next call');
rollback to late;
select ff_tap.run(format(
    'select flowfabric.ff_delay_execution(%s, p_delay_until_ms => 102300)', ff_tap.fence(5)));
select ff_tap.freeze_time(102300);
savepoint due;
select is(ff_tap.saturated_claim(), '{5}', 'so is a delayed one that the call promotes');
rollback to due;
select flowfabric.ff_promote_due();
select is(ff_tap.saturated_claim(), '{5}', 'or that a scanner has promoted');
rollback to late;
select ff_tap.run(format(
    'select flowfabric.ff_delay_execution(%s, p_delay_until_ms => 102200)', ff_tap.fence(6)));
select ff_tap.freeze_time(102200);
select flowfabric.ff_promote_due();
select flowfabric.ff_block_execution_for_admission(ff_tap.id(6), 'paused_by_operator');
select flowfabric.ff_unblock_execution(ff_tap.id(6));
select is(ff_tap.saturated_claim(), '{6}', 'or one that was unblocked');
rollback to late;
select ff_tap.run(format('select flowfabric.ff_complete_execution(%s)', ff_tap.fence(7)));
select flowfabric.ff_replay_execution(ff_tap.id(7), 'again', p_force => true);
select is(ff_tap.saturated_claim(), '{7}', 'or one that was replayed');
rollback to late;
select ff_tap.freeze_time(109000);
select ff_tap.claimed(p_max => 9);
select ff_tap.execution_of(102199, 16);
select flowfabric.ff_change_priority(ff_tap.id(16), 9);
select is(ff_tap.saturated_claim(), '{16}', 'or one that comes into another segment by its new priority');
rollback to late;

-- Delayed executions have a floor too, per lane
select ff_tap.run(format(
    'select flowfabric.ff_delay_execution(%s, p_delay_until_ms => 102300)', ff_tap.fence(5)));
select ff_tap.run(format(
    'select flowfabric.ff_delay_execution(%s, p_delay_until_ms => 102600)', ff_tap.fence(6)));
select ff_tap.freeze_time(102300);
select is(ff_tap.claimed(), '{5}', 'a claim that promotes one');
select is(
    (select row(f.priority, f.floor_ms, f.checked_at_ms) from flowfabric.ff_lane_floor as f
     where f.capability_set_id = 0), row(0, 0::bigint, 102300::bigint), 'gives them a floor at the bottom');
select ff_tap.freeze_time(102550);
select ff_tap.execution(ff_tap.id(13)), ff_tap.execution(ff_tap.id(14)), ff_tap.execution(ff_tap.id(15));
select is(ff_tap.claimed(), '{13}', 'a quarter of the time between two checks later');
select is(
    (select f.floor_ms from flowfabric.ff_lane_floor as f where f.capability_set_id = 0), 102450::bigint,
    'it moves up to now less the lag');
select ff_tap.run(format(
    'select flowfabric.ff_delay_execution(%s, p_delay_until_ms => 102551)', ff_tap.fence(7)));
update flowfabric.ff_exec_core as e set delay_until_ms = 102449 where e.delay_until_ms = 102551;
savepoint delayed;
select ff_tap.freeze_time(102600);
select is(ff_tap.claimed(), '{6}', 'one whose time has come is promoted by the next claim');
select is(ff_tap.claimed(), '{14}', 'one whose delay commits late is out of sight on a busy lane');
select ff_tap.freeze_time(103300);
select is(ff_tap.claimed(), '{7}', 'until the check is due');
rollback to delayed;
select ff_tap.claimed(2);
select ff_tap.freeze_time(102649);
select is(ff_tap.claimed(), '{6}', 'on an idle lane');
select is(ff_tap.claimed(), '{7}', 'it is found as soon as there is room left');
rollback to delayed;
delete from flowfabric.ff_lane_floor;
select is(ff_tap.claimed(), '{7}', 'and without a floor at once');
rollback to late;

-- What holds a floor down
select ff_tap.execution_of(95000, 12, p_namespace => 'tenant'), ff_tap.execution(ff_tap.id(13));
select ff_tap.freeze_time(110000);
select is(ff_tap.claimed(p_namespace => 'default'), '{13}', 'a claim of one namespace');
select is(
    (select f.floor_ms from flowfabric.ff_lane_floor as f where f.priority = 0), 95000::bigint,
    'leaves the floor below the work of another');
rollback to late;
select ff_tap.execution_of(95000, 12), ff_tap.execution(ff_tap.id(13));
select flowfabric.ff_issue_claim_grant(ff_tap.id(12), 'other', 'other-1', 'default', p_grant_ttl_ms => 60000);
select ff_tap.freeze_time(110000);
select is(ff_tap.claimed(), '{13}', 'a claim that passes a granted execution');
select is(
    (select f.floor_ms from flowfabric.ff_lane_floor as f where f.priority = 0), 95000::bigint,
    'leaves the floor below it');
rollback to late;

-- Without floors
select ff_tap.execution_of(95000, 12), ff_tap.execution(ff_tap.id(13));
savepoint with_floors;
delete from flowfabric.ff_lane_floor;
select is(ff_tap.claimed(p_max => 9), '{12,13}', 'losing the floors changes nothing but the time it takes');
rollback to with_floors;
select flowfabric.ff_set_setting('claim_floor_recheck_ms', 0);
select ff_tap.floors() as floors \gset
select is(ff_tap.claimed(), '{12}', 'switched off, floors are not read');
select is(ff_tap.claimed(p_max => 9), '{13}', 'not by batches either');
select is(ff_tap.floors(), :'floors', 'and not written');
select is(
    (select row(s.processed, s.deleted, s.more) from flowfabric.ff_scan_claim_floors(1) as s), row(0, 2, false),
    'the scanner then deletes them all');
select is(ff_tap.floors(), 'none', 'none is left');
select ff_tap.execution(ff_tap.id(16));
select is(ff_tap.claimed(), '{16}', 'a claim');
select is(ff_tap.floors(), 'none', 'creates none');
rollback to late;

-- Their number
select ff_tap.execution(ff_tap.id(1000 + n), p_lane_id => 'many', p_priority => n) from generate_series(1, 70) as n;
select is(cardinality(ff_tap.claimed(p_max => 100, p_lanes => '{many}')), 70, 'a lane with 70 priorities');
select is(
    (select count(*) from flowfabric.ff_lane_floor as f where f.lane_id = 'many'), 64::bigint, 'has 64 floors');
select ff_tap.execution(ff_tap.id(1100 + n), p_lane_id => 'many', p_priority => n) from generate_series(1, 71) as n;
select is(
    ff_tap.claimed(p_max => 100, p_lanes => '{many}'), array(select 1172 - n from generate_series(1, 71) as n),
    'and is claimed in order, with and without floors');
select ff_tap.freeze_time(110000);
select ff_tap.execution(ff_tap.id(1200 + n), p_lane_id => 'many', p_priority => n) from generate_series(1, 71) as n;
select is(
    ff_tap.claimed(p_max => 100, p_lanes => '{many}'), array(select 1272 - n from generate_series(1, 71) as n),
    'also after its floors have moved');
rollback to late;
select is(
    (select count(*) from flowfabric.ff_grant_next('{other}', 'pool', 'pool-1')), 0::bigint, 'nothing to grant');
select ff_tap.execution(ff_tap.id(17), p_lane_id => 'other');
select is(
    (select right(g.execution_id, 2) from flowfabric.ff_grant_next('{other}', 'pool', 'pool-1') as g), '17', 'a grant');
select is(
    (select count(*) from flowfabric.ff_lane_floor as f where f.lane_id = 'other'), 0::bigint,
    'creates no floor: the execution is still in the queue');

select * from finish();
rollback;
