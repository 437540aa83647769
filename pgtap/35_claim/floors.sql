-- Claim floors: where a claim starts to read, and that nothing which comes back or comes late stays unseen.
begin;
\ir ../helpers.sql
select plan(94);

create function ff_tap.id(p_number integer)
returns text
language sql immutable
as $$ select '{fp:86}:00000000-0000-4000-8000-' || lpad(p_number::text, 12, '0') $$;

-- Of the claims of one that find a floor due, one in 16 moves it: here all of them do, or none.
create function ff_tap.draw(p_moves boolean)
returns void
language plpgsql volatile
as $$
declare
    v_seed double precision := 0;
begin
    loop
        perform setseed(v_seed);
        exit when (random() * 16 < 1) = p_moves;
        v_seed := v_seed + 0.001;
    end loop;
    perform setseed(v_seed);
end;
$$;

create function ff_tap.claimed(
    p_max integer default 1,
    p_lanes text[] default '{default}',
    p_namespace text default null,
    p_moves boolean default true
)
returns integer[]
language plpgsql volatile
as $$
begin
    perform ff_tap.draw(p_moves);
    return coalesce(array_agg(right(c.execution_id, 12)::integer), '{}')
    from flowfabric.ff_claim_next(p_lanes, 'pool', 'pool-1', p_max => p_max, p_namespace => p_namespace) as c;
end;
$$;

create function ff_tap.floors()
returns text
language sql stable
as $$
    select coalesce(string_agg(
        format('%s/%s/%s: %s checked %s raised %s', s.lane_id, s.capability_set_id, s.priority, s.floors,
            s.checked_at_ms, s.raised_at_ms), '; '
        order by s.lane_id, s.capability_set_id, s.priority desc), 'none')
    from (
        select
            f.lane_id, f.capability_set_id, f.priority,
            string_agg(f.floor_ms::text, ',' order by f.side) filter (where f.side > 0) as floors,
            max(f.checked_at_ms) filter (where f.side = 0) as checked_at_ms, max(f.raised_at_ms) as raised_at_ms
        from flowfabric.ff_lane_floor as f
        where f.namespace = ''
        group by f.lane_id, f.capability_set_id, f.priority
    ) as s
$$;

create function ff_tap.floor_of(p_priority integer, p_capability_set_id integer default 1)
returns bigint
language sql stable
as $$
    select min(f.floor_ms)
    from flowfabric.ff_lane_floor as f
    where f.priority = p_priority and f.capability_set_id = p_capability_set_id and f.namespace = '' and f.side > 0
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

-- Creating and moving
select ff_tap.freeze_time(100000);
select ff_tap.execution_of(90000 + n, n) from generate_series(1, 9) as n;
select is(ff_tap.floors(), 'none', 'a queue that was never claimed from has no floor');
select is(ff_tap.claimed(), '{1}', 'the first claim');
select is(ff_tap.floors(), 'default/1/0: 0,0 checked 100000 raised 100000', 'gives its segment floors at the bottom');
select ff_tap.freeze_time(100249);
select is(ff_tap.claimed(), '{2}', 'for a quarter of the time between two checks');
select is(ff_tap.floors(), 'default/1/0: 0,0 checked 100000 raised 100000', 'they stay where they are');
select ff_tap.freeze_time(100250);
savepoint unmoved;
select is(ff_tap.claimed(p_moves => false), '{3}', 'after that most claims of one');
select is(ff_tap.floors(), 'default/1/0: 0,0 checked 100000 raised 100000', 'leave them to another one');
rollback to unmoved;
select is(ff_tap.claimed(), '{3}', 'a few');
select is(
    ff_tap.floors(), 'default/1/0: 90004,0 checked 100000 raised 100250',
    'move one of them on to the oldest execution that they left');
select ff_tap.freeze_time(100399);
select is(ff_tap.claimed(), '{4}', 'for a quarter of that time less the lag');
select is(ff_tap.floors(), 'default/1/0: 90004,0 checked 100000 raised 100250', 'the other one stays');
select ff_tap.freeze_time(100400);
select is(ff_tap.claimed(), '{5}', 'then');
select is(ff_tap.floors(), 'default/1/0: 90004,90006 checked 100000 raised 100400', 'it moves as well');
select ff_tap.execution_of(90003, 20);
select ff_tap.freeze_time(100999);
select is(ff_tap.claimed(), '{6}', 'what comes late is out of sight on a busy lane');
select is(ff_tap.floors(), 'default/1/0: 90007,90006 checked 100000 raised 100999', 'the lowest is the next to move');
select ff_tap.freeze_time(101149);
select is(ff_tap.claimed(), '{7}', 'a claim after the recheck');
select is(
    ff_tap.floors(), 'default/1/0: 90007,90003 checked 101149 raised 101149',
    'reads from the beginning and finds it');
select is(ff_tap.claimed(), '{20}', 'the next one claims it');
select is(ff_tap.claimed(), '{8}', 'after it the queue continues');
select ff_tap.freeze_time(102149);
select is(ff_tap.claimed(p_max => 100), '{9}', 'a batch that empties the queue');
select is(
    ff_tap.floors(), 'default/1/0: 90007,102049 checked 102149 raised 102149', 'moves a floor up to now less the lag');
select ff_tap.execution(ff_tap.id(10), p_priority => 9);
select is(ff_tap.claimed(), '{10}', 'a priority without a floor is read from its beginning');
select is(
    ff_tap.floors(),
    'default/1/9: 0,0 checked 102149 raised 102149; default/1/0: 90007,102049 checked 102149 raised 102149',
    'and gets floors of its own');
select ff_tap.freeze_time(102300);
select ff_tap.execution_of(102049, 21), ff_tap.execution_of(90007, 22), ff_tap.execution_of(90006, 23);
select is(ff_tap.claimed(), '{22}', 'an execution created at the lower floor is above it');
select is(ff_tap.claimed(), '{21}', 'but one below is not');
select is(ff_tap.claimed(), '{23}', 'until a claim finds nothing else');
select is(
    ff_tap.floors(),
    'default/1/9: 0,0 checked 102149 raised 102149; default/1/0: 102049,102049 checked 102149 raised 102300',
    'which is no reason to move a floor');

-- Late commits
savepoint late;
select ff_tap.execution_of(95000, 12), ff_tap.execution(ff_tap.id(13)), ff_tap.execution(ff_tap.id(14));
select is(ff_tap.claimed(), '{13}', 'one that commits late is out of sight on a busy lane');
select is(ff_tap.claimed(2), '{14,12}', 'a claim with room left finds it, after what it had already');
rollback to late;
select ff_tap.execution_of(95000, 12), ff_tap.execution(ff_tap.id(13)), ff_tap.execution(ff_tap.id(14));
select ff_tap.freeze_time(103149);
select is(ff_tap.claimed(16), '{13,14,12}', 'so does a claim of many');
rollback to late;
select ff_tap.execution_of(95000, 12), ff_tap.execution_of(94000, 13, p_namespace => 'tenant');
select is(ff_tap.claimed(p_namespace => 'tenant'), '{13}', 'and a claim of one namespace');
select is(ff_tap.claimed(p_lanes => '{default,other}'), '{12}', 'or of several lanes');
rollback to late;
update flowfabric.ff_lane_floor as f set checked_at_ms = 102301 where f.side = 2 and f.priority = 0;
select ff_tap.execution_of(95000, 12);
savepoint resting;
select is(ff_tap.claimed(), '{}', 'after a slow scan from the beginning there is none for a while');
select is(ff_tap.claimed(16), '{}', 'whatever is asked for');
select is(ff_tap.claimed(p_lanes => '{default,other}', p_max => 2), '{}', 'and in whatever lanes');
select is(
    (select count(*) from flowfabric.ff_claim_next('{default}', 'pool', 'pool-1', '{gpu}')), 0::bigint,
    'by whatever worker');
select ff_tap.execution(ff_tap.id(13)), ff_tap.execution(ff_tap.id(14), p_priority => 3);
select is(ff_tap.claimed(16), '{14,13}', 'what is above the floors is found');
rollback to resting;
select ff_tap.freeze_time(102301);
select is(ff_tap.claimed(), '{12}', 'then there is one');
rollback to late;

-- A clock that goes back
select ff_tap.freeze_time(96000);
select ff_tap.execution(ff_tap.id(12)), ff_tap.execution(ff_tap.id(13));
savepoint back;
select is(ff_tap.claimed(), '{12}', 'what is created after the clock went back is seen at once');
select is(
    ff_tap.floors(), 'default/1/9: 0,0 checked 96000 raised 96000; default/1/0: 95900,0 checked 96000 raised 96000',
    'the floors have been at the bottom since, and no time is ahead');
rollback to back;
select is(
    (select row(s.processed, s.skipped) from flowfabric.ff_scan_claim_floors() as s), row(0, 0),
    'the scanner lowers floors of the future too');
select is(ff_tap.floor_of(0), 0::bigint, 'to the bottom');
select is(ff_tap.claimed(p_max => 9), '{12,13}', 'so that nothing is hidden');
rollback to late;

-- What the engine itself makes eligible again is announced
select ff_tap.run(format(
    'select flowfabric.ff_fail_execution(%s, p_failure_reason => %L, p_retry_policy => %L)', ff_tap.fence(4), 'oops',
    '{"max_retries": 3, "backoff": {"type": "fixed", "delay_ms": 0}}'));
select is(ff_tap.saturated_claim(), '{4}', 'a retry of an old execution is claimed in its place by the next call');
rollback to late;
select ff_tap.run(format(
    'select flowfabric.ff_delay_execution(%s, p_delay_until_ms => 102400)', ff_tap.fence(5)));
select ff_tap.freeze_time(102400);
savepoint due;
select is(ff_tap.saturated_claim(), '{5}', 'so is a delayed one that the call promotes');
rollback to due;
select flowfabric.ff_promote_due();
select is(ff_tap.saturated_claim(), '{5}', 'or that a scanner has promoted');
rollback to late;
select ff_tap.run(format(
    'select flowfabric.ff_delay_execution(%s, p_delay_until_ms => 102400)', ff_tap.fence(6)));
select ff_tap.freeze_time(102400);
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
update flowfabric.ff_lane_floor as f set floor_ms = 108900 where f.priority = 9 and f.side > 0;
select flowfabric.ff_change_priority(ff_tap.id(16), 9);
select is(ff_tap.saturated_claim(), '{16}', 'or one that comes into another segment by its new priority');
rollback to late;
select ff_tap.run(format(
    'select flowfabric.ff_fail_execution(%s, p_failure_reason => %L, p_retry_policy => %L)', ff_tap.fence(4), 'oops',
    '{"max_retries": 3, "backoff": {"type": "fixed", "delay_ms": 0}}'));
select flowfabric.ff_promote_due();
select is(
    split_part(ff_tap.floors(), '; ', 3), 'default/1/0: 90004,102049 checked 102149 raised 102300',
    'it lowers one of the floors');
select ff_tap.freeze_time(102450);
select is(ff_tap.claimed(), '{4}', 'after its claim');
select is(
    split_part(ff_tap.floors(), '; ', 3), 'default/1/0: 102350,102049 checked 102149 raised 102450',
    'that floor goes back up');
rollback to late;

-- A segment without floors gets one of an announcement, which speaks for all that waits there.
delete from flowfabric.ff_lane_floor;
select ff_tap.execution_of(89999, 16);
select ff_tap.run(format(
    'select flowfabric.ff_delay_execution(%s, p_delay_until_ms => 102300)', ff_tap.fence(5)));
select flowfabric.ff_promote_due();
select is(
    (select row(count(*), min(f.floor_ms), min(f.side) > 2) from flowfabric.ff_lane_floor as f
     where f.capability_set_id = 1),
    row(1::bigint, 0::bigint, true), 'an announcement into a segment without floors leaves one at the bottom');
select is(ff_tap.claimed(), '{16}', 'which hides nothing');
select is(
    (select row(count(*), max(f.side) > 2) from flowfabric.ff_lane_floor as f where f.capability_set_id = 1),
    row(4::bigint, true), 'a claim adds what was missing');
select ff_tap.freeze_time(102550);
select is(ff_tap.claimed(), '{5}', 'the first claim that moves a floor');
select is(
    split_part(ff_tap.floors(), '; ', 2), 'default/1/0: 102450,0 checked 102300 raised 102550', 'takes the announcement''s away');
rollback to late;
delete from flowfabric.ff_lane_floor;
select flowfabric.ff_set_setting('claim_floor_recheck_ms', 0);
select ff_tap.run(format(
    'select flowfabric.ff_delay_execution(%s, p_delay_until_ms => 102300)', ff_tap.fence(5)));
select flowfabric.ff_promote_due();
select is(ff_tap.floors(), 'none', 'switched off, announcements leave none');
rollback to late;

-- Delayed executions have floors too, per lane
select ff_tap.run(format(
    'select flowfabric.ff_delay_execution(%s, p_delay_until_ms => 102400)', ff_tap.fence(5)));
select ff_tap.run(format(
    'select flowfabric.ff_delay_execution(%s, p_delay_until_ms => 102900)', ff_tap.fence(6)));
select ff_tap.freeze_time(102400);
select is(ff_tap.claimed(), '{5}', 'a claim that promotes one');
select is(
    split_part(ff_tap.floors(), ';', 1), 'default/0/0: 0,0,0 checked 102400 raised 102400',
    'gives them floors at the bottom, beside that of the announcement');
select ff_tap.freeze_time(102650);
select ff_tap.execution(ff_tap.id(30 + n)) from generate_series(0, 5) as n;
select is(ff_tap.claimed(), '{30}', 'a quarter of the time between two checks later');
select is(
    split_part(ff_tap.floors(), ';', 1), 'default/0/0: 102550,0 checked 102400 raised 102650',
    'one moves up to now less the lag');
select ff_tap.freeze_time(102800);
select is(ff_tap.claimed(), '{31}', 'and after the time between two moves');
select is(
    split_part(ff_tap.floors(), ';', 1), 'default/0/0: 102550,102700 checked 102400 raised 102800',
    'the other one');
select ff_tap.run(format(
    'select flowfabric.ff_delay_execution(%s, p_delay_until_ms => 102801)', ff_tap.fence(7)));
update flowfabric.ff_exec_core as e set delay_until_ms = 102549 where e.delay_until_ms = 102801;
savepoint delayed;
select ff_tap.freeze_time(102900);
select is(ff_tap.claimed(), '{6}', 'one whose time has come is promoted by the next claim');
select is(ff_tap.claimed(), '{32}', 'one whose delay commits late is out of sight on a busy lane');
select ff_tap.freeze_time(103400);
select is(ff_tap.claimed(), '{33}', 'until a claim moves floors and reads from the beginning');
select is(ff_tap.claimed(), '{7}', 'the next claim promotes it');
rollback to delayed;
select is(ff_tap.claimed(4), '{32,33,34,35}', 'a claim that empties the lane');
select is(ff_tap.claimed(), '{7}', 'is followed by one that finds it');
rollback to delayed;
select is(ff_tap.claimed(16), '{32,33,34,35,7}', 'so does one with room left');
rollback to delayed;
delete from flowfabric.ff_lane_floor;
select is(ff_tap.claimed(), '{7}', 'and without floors it is found at once');
rollback to delayed;
select ff_tap.run(format(
    'select flowfabric.ff_delay_execution(%s, p_delay_until_ms => 5)', ff_tap.fence(30)));
select is(ff_tap.floor_of(0, 0), 5::bigint, 'a delay until a time that is past lowers a floor');
select is(ff_tap.claimed(2), '{7,30}', 'so that the next claim finds it');
rollback to late;

-- What holds a floor down
select ff_tap.execution_of(95000, 12, p_namespace => 'tenant'), ff_tap.execution(ff_tap.id(13));
select ff_tap.freeze_time(110000);
select is(ff_tap.claimed(p_max => 16, p_namespace => 'default'), '{13}', 'a claim for one namespace');
select is(ff_tap.floor_of(0), 102049::bigint, 'leaves the floors of all alone');
select flowfabric.ff_scan_claim_floors();
select is(ff_tap.floor_of(0), 95000::bigint, 'which are not above the work of another');
rollback to late;
select ff_tap.execution_of(95000, 12), ff_tap.execution(ff_tap.id(13));
select flowfabric.ff_issue_claim_grant(ff_tap.id(12), 'other', 'other-1', 'default', p_grant_ttl_ms => 60000);
select ff_tap.freeze_time(110000);
select is(ff_tap.claimed(16), '{13}', 'a claim that passes a granted execution');
select is(
    ff_tap.floor_of(0), 95000::bigint,
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
    (select count(*) from flowfabric.ff_lane_floor as f where f.lane_id = 'many' and f.side = 0), 64::bigint,
    'has floors for 64 of them');
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
