-- An empty queue, or nearly: the quick answer that no more waits, and all that must not be overlooked.
begin;
\ir ../helpers.sql
select plan(26);

create function ff_tap.claimed(p_max integer, p_capabilities text[] default '{}')
returns text[]
language sql volatile
as $$
    select coalesce(array_agg(c.execution_kind), '{}')
    from flowfabric.ff_claim_next('{default}', 'pool', 'pool-1', p_capabilities, p_max) as c
$$;
create function ff_tap.create(
    p_kind text, p_priority integer default 0, p_created_at_ms bigint default null, p_tokens text[] default '{}'
)
returns void
language plpgsql volatile
as $$
declare
    v_now_ms constant bigint := flowfabric.ff_now_ms();
begin
    perform ff_tap.freeze_time(coalesce(p_created_at_ms, v_now_ms));
    perform flowfabric.ff_create_execution(
        p_kind, p_priority => p_priority,
        p_policy => jsonb_build_object(
            'routing_requirements', jsonb_build_object('required_capabilities', p_tokens)));
    perform ff_tap.freeze_time(v_now_ms);
end;
$$;
create function ff_tap.floor_of(p_priority integer)
returns text
language sql stable
as $$
    select min(f.floor_ms)::text
    from flowfabric.ff_lane_floor as f
    where f.priority = p_priority and f.side > 0
$$;

select ff_tap.freeze_time(100000);
select is(ff_tap.claimed(16), '{}', 'a lane that nobody knows has nothing');
select ff_tap.create('first', 5);
select is(ff_tap.claimed(1), '{first}', 'the first claim makes a floor');
select is(ff_tap.claimed(16), '{}', 'after it nothing waits');
select ff_tap.freeze_time(102000);
select is(ff_tap.claimed(1), '{}', 'whoever asks');
select is(ff_tap.floor_of(5), '0', 'a claim that finds nothing moves no floor');

select ff_tap.create('lower', 4);
select is(ff_tap.claimed(16), '{lower}', 'what has a lower priority is not nothing');
select ff_tap.create('higher', 6);
select is(ff_tap.claimed(16), '{higher}', 'nor what has a higher one');
select ff_tap.create('lowest');
select is(ff_tap.claimed(1), '{lowest}', 'whoever asks for it');

-- Fewer than a claim has room for
select ff_tap.create('one', 0, 101950), ff_tap.create('two');
select is(ff_tap.claimed(16), '{one,two}', 'all that waits, if it is less than wanted');
select ff_tap.create('low', 1), ff_tap.create('high', 7);
select is(ff_tap.claimed(16), '{high,low}', 'what has a lower priority is found behind the rest');
select ff_tap.create('low', 1), ff_tap.create('high', 7);
select is(ff_tap.claimed(16), '{high,low}', 'also when both priorities are known');
select ff_tap.create('seven', 7), ff_tap.create('late seven', 7, 50000);
savepoint late;
select ff_tap.freeze_time(102099);
select is(ff_tap.claimed(16), '{late seven,seven}', 'a floor that was never moved hides nothing');
rollback to late;
update flowfabric.ff_lane_floor as f set floor_ms = 101900 where f.priority = 7 and f.side > 0;
select is(ff_tap.claimed(1), '{seven}', 'what commits below the floors is out of sight of a claim that finds enough');
rollback to late;
update flowfabric.ff_lane_floor as f set floor_ms = 101900 where f.priority = 7 and f.side > 0;
select is(ff_tap.claimed(16), '{seven,late seven}', 'one that has room left finds it');
rollback to late;
update flowfabric.ff_lane_floor as f set floor_ms = 101900 where f.priority = 7 and f.side > 0;
select ff_tap.create('low');
delete from flowfabric.ff_exec_core as e where e.execution_kind = 'seven';
select is(ff_tap.claimed(16), '{low,late seven}', 'also if it has found a lower priority');
rollback to late;
delete from flowfabric.ff_exec_core as e where e.eligibility_state = 'eligible_now';

update flowfabric.ff_lane_floor as f set floor_ms = 101900 where f.priority = 5 and f.side > 0;
select ff_tap.create('late', 5, 50000);
savepoint below;
select is(ff_tap.claimed(16), '{late}', 'what commits below the floors of an empty queue is found at once');
rollback to below;
select is(ff_tap.claimed(1), '{late}', 'also by a claim of one');
rollback to below;
select is(ff_tap.claimed(1, '{gpu}'), '{late}', 'and by one with capabilities');

select ff_tap.freeze_time(102150);
select flowfabric.ff_create_execution('due', p_delay_until_ms => 102160);
select is(ff_tap.claimed(16), '{}', 'what is delayed does not wait yet');
select ff_tap.freeze_time(102160);
select is(ff_tap.claimed(16), '{due}', 'and is promoted at its time');
select flowfabric.ff_set_lane_state('default', 'paused');
select ff_tap.create('paused');
select is(ff_tap.claimed(16), '{}', 'a lane that does not serve has nothing');

-- Who has capabilities asks several queues.
select flowfabric.ff_set_lane_state('default', 'active');
select is(ff_tap.claimed(1, '{gpu}'), '{paused}', 'what needs no capability waits for those who have some, too');
select is(ff_tap.claimed(1, '{gpu}'), '{}', 'after it nothing waits for them');
select ff_tap.create('gpu', p_tokens => '{gpu}');
select is(ff_tap.claimed(1, '{ssd}'), '{}', 'what they cannot do is nothing');
select is(ff_tap.claimed(1, '{gpu}'), '{gpu}', 'what they can do is not');
update flowfabric.ff_lane_floor as f set floor_ms = 101900 where f.side > 0;
select ff_tap.create('late gpu', p_created_at_ms => 50000, p_tokens => '{gpu}');
select is(ff_tap.claimed(1, '{gpu}'), '{late gpu}', 'below the floor of another queue they look as well');

select * from finish();
rollback;
