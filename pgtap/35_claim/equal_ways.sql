-- One effect, several ways: the quick claim, the set-based claim and the moves of the lease folder write the same rows.
begin;
\ir ../helpers.sql
select plan(24);

create function ff_tap.id(p_number integer)
returns text
language sql immutable
as $$ select '{fp:86}:00000000-0000-4000-8000-' || lpad(p_number::text, 12, '0') $$;

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

-- Everything stored but what is random by nature, the reason that names the function, and where a row lies.
create function ff_tap.rows_of(p_lane_id text, p_with_reason boolean default false)
returns jsonb
language sql stable
as $$
    with execution as (
        select e.* from flowfabric.ff_exec_core as e where e.lane_id = p_lane_id
    )
    select jsonb_build_object(
        'executions', (
            select jsonb_agg(
                to_jsonb(e) - array['current_lease_id', 'current_attempt_id'] || jsonb_build_object(
                    'attempt_id_is_current', (
                        select a.attempt_id = e.current_attempt_id and a.lease_id = e.current_lease_id
                        from flowfabric._ff_all_attempts() as a
                        where a.partition_key = e.partition_key and a.execution_id = e.execution_id
                            and a.attempt_index = e.total_attempt_count - 1))
                order by e.execution_id)
            from execution as e),
        'attempts', (
            select jsonb_agg(to_jsonb(a) - array['attempt_id', 'lease_id'] order by a.execution_id, a.attempt_index)
            from flowfabric._ff_all_attempts() as a
            where a.execution_id in (select e.execution_id from execution as e)),
        'events', (
            select jsonb_agg(
                to_jsonb(v) - array['event_id', 'xact_id', 'lease_id', 'attempt_id']
                - case when p_with_reason then '' else 'reason' end
                order by v.event_id)
            from flowfabric.ff_lease_event as v
            where v.execution_id in (select e.execution_id from execution as e)),
        'notes', (
            select jsonb_agg(to_jsonb(n) order by n.execution_id)
            from flowfabric.ff_exec_note as n
            where n.execution_id in (select e.execution_id from execution as e)),
        'grants', (
            select count(*)
            from flowfabric.ff_claim_grant as g
            where g.execution_id in (select e.execution_id from execution as e)),
        'quotas', (
            select jsonb_agg(to_jsonb(q) order by q.execution_id)
            from flowfabric.ff_quota_admitted as q
            where q.execution_id in (select e.execution_id from execution as e)),
        'windows', (
            select jsonb_agg(to_jsonb(q) order by q.execution_id)
            from flowfabric.ff_quota_window as q
            where q.execution_id in (select e.execution_id from execution as e)))
$$;

create function ff_tap.claim_by_moves(p_number integer)
returns text
language sql volatile
as $$
    select c.outcome
    from flowfabric.ff_issue_grant_and_claim(
        ff_tap.id(p_number), p_lease_ttl_ms => 3000, p_worker_id => 'pool', p_worker_instance_id => 'pool-1') as c
$$;

create function ff_tap.claim_next(p_lane_id text, p_max integer default 1, p_capabilities text[] default '{}')
returns integer[]
language sql volatile
as $$
    select coalesce(array_agg(right(c.execution_id, 12)::integer), '{}')
    from flowfabric.ff_claim_next(
        array[p_lane_id], 'pool', 'pool-1', p_capabilities, p_max, p_lease_ttl_ms => 3000) as c
$$;

select ff_tap.freeze_time(10000);
select flowfabric.ff_create_quota_policy('two', 60, 0, 2);
select flowfabric.ff_create_quota_policy('rare', 60, 3, 0);
select flowfabric.ff_create_budget('spent', 'lane', 'x', '{tokens}', '{10}', '{0}');
insert into flowfabric.ff_budget_usage (budget_id, dimension, current_value, updated_at_ms)
values ('spent', 'tokens', 10, 0);

-- One execution in each state from which it can be claimed.
select ff_tap.execution(
    ff_tap.id(1), '{"timeout_policy": {"attempt_timeout_ms": 500}}', p_lane_id => 'first', p_deadline_at_ms => 90000,
    p_tags => '{"ff.instance_id": "i"}');
select ff_tap.execution(ff_tap.id(2), p_lane_id => 'retry');
select ff_tap.claim_by_moves(2);
select ff_tap.run(format(
    'select flowfabric.ff_fail_execution(%s, p_failure_reason => %L, p_retry_policy => %L)', ff_tap.fence(2), 'oops',
    '{"max_retries": 3, "backoff": {"type": "fixed", "delay_ms": 0}}'));
select ff_tap.execution(ff_tap.id(3), p_lane_id => 'replay');
select ff_tap.claim_by_moves(3);
select ff_tap.run(format('select flowfabric.ff_complete_execution(%s)', ff_tap.fence(3)));
select flowfabric.ff_replay_execution(ff_tap.id(3), 'again', p_requested_by => 'ops', p_force => true);
select ff_tap.execution(
    ff_tap.id(4), '{"timeout_policy": {"attempt_timeout_ms": 500}}', p_lane_id => 'resume');
select ff_tap.claim_by_moves(4);
select ff_tap.freeze_time(10100);
select flowfabric.ff_delay_execution(ff_tap.id(4), 11000, p_source => 'operator_override');
select ff_tap.execution(ff_tap.id(5), p_lane_id => 'lapsed');
select flowfabric.ff_issue_claim_grant(ff_tap.id(5), 'other', 'other-1', 'lapsed', p_grant_ttl_ms => 1);
select ff_tap.execution(ff_tap.id(6), p_lane_id => 'revoked');
select ff_tap.claim_by_moves(6);
select flowfabric.ff_revoke_lease(ff_tap.id(6), p_reason => 'maintenance');
select flowfabric.ff_cancel_execution(ff_tap.id(6), 'stop', 'operator_override');
select flowfabric.ff_replay_execution(ff_tap.id(6), 'again');
select ff_tap.freeze_time(12000);
select flowfabric.ff_promote_due();
savepoint waiting;

select ff_tap.claim_by_moves(n) from generate_series(1, 6) as n;
select jsonb_object_agg(l.lane_id, ff_tap.rows_of(l.lane_id))::text as by_moves
from flowfabric.ff_lane_registry as l \gset
rollback to waiting;
select ff_tap.claim_next(l.lane_id) from flowfabric.ff_lane_registry as l;
select jsonb_object_agg(l.lane_id, ff_tap.rows_of(l.lane_id))::text as single
from flowfabric.ff_lane_registry as l \gset
rollback to waiting;
select ff_tap.claim_next(l.lane_id, 2) from flowfabric.ff_lane_registry as l;
select jsonb_object_agg(l.lane_id, ff_tap.rows_of(l.lane_id))::text as batch
from flowfabric.ff_lane_registry as l \gset
rollback to waiting;

select is(
    (:'by_moves'::jsonb -> 'first' #>> '{executions,0,attempt_id_is_current}'), 'true',
    'the attempt and the lease of the row are those of its attempt');
select is(
    :'single'::jsonb -> l.lane_id, :'by_moves'::jsonb -> l.lane_id,
    'a single claim writes what the moves write: ' || l.lane_id)
from flowfabric.ff_lane_registry as l order by l.lane_id;
select is(
    :'batch'::jsonb -> l.lane_id, :'by_moves'::jsonb -> l.lane_id,
    'a batch writes what the moves write: ' || l.lane_id)
from flowfabric.ff_lane_registry as l order by l.lane_id;

-- Several first attempts, which have a quick way of their own.
create function ff_tap.answers(p_capabilities text[] default '{}')
returns jsonb
language sql volatile
as $$
    select jsonb_agg(to_jsonb(c) - array['lease_id', 'attempt_id'])
    from flowfabric.ff_claim_next(
        '{several}', 'pool', 'pool-1', p_capabilities, p_max => 3, p_lease_ttl_ms => 3000) as c
$$;
select ff_tap.execution(ff_tap.id(20), p_lane_id => 'several', p_payload => 'plain');
select ff_tap.execution(
    ff_tap.id(21), '{"timeout_policy": {"attempt_timeout_ms": 500}}', p_lane_id => 'several',
    p_tags => '{"ff.instance_id": "i"}');
select ff_tap.execution(ff_tap.id(22), p_lane_id => 'several', p_deadline_at_ms => 90000);
savepoint several;
select ff_tap.claim_by_moves(n) from generate_series(20, 22) as n;
select ff_tap.rows_of('several')::text as by_moves \gset
rollback to several;
select ff_tap.answers('{gpu}')::text as answers \gset
select is(ff_tap.rows_of('several'), :'by_moves'::jsonb, 'the general way writes what the moves write: several');
rollback to several;
delete from flowfabric.ff_claim_grant;
drop function flowfabric._ff_take_next(text[], text, text[], integer, text, text, boolean, boolean, smallint);
select is(ff_tap.answers(), :'answers'::jsonb, 'the quick way for several answers as the general way does');
select is(ff_tap.rows_of('several'), :'by_moves'::jsonb, 'and writes what the moves write');
select is(
    (select count(distinct x.id)
     from flowfabric.ff_exec_core as e
     cross join lateral (values (e.current_lease_id), (e.current_attempt_id)) as x (id)
     where e.lane_id = 'several'),
    6::bigint, 'every lease and every attempt has an id of its own');
rollback to several;
rollback to waiting;

-- First attempts of several queues, one by one for a worker that serves all but one of them.
create function ff_tap.routed_answers(p_max integer)
returns setof jsonb
language sql volatile
as $$
    select to_jsonb(c) - array['lease_id', 'attempt_id']
    from flowfabric.ff_claim_next(
        '{routed}', 'pool', 'pool-1', '{torch,gpu}', p_max => p_max, p_lease_ttl_ms => 3000) as c
$$;
create function ff_tap.route(p_number integer, p_tokens text, p_priority integer)
returns void
language sql volatile
as $$
    select ff_tap.freeze_time(12000 + p_number);
    select ff_tap.execution(
        ff_tap.id(p_number),
        jsonb_build_object('routing_requirements', jsonb_build_object('required_capabilities', p_tokens::text[])),
        p_lane_id => 'routed', p_priority => p_priority);
$$;
select ff_tap.route(30, '{gpu}', 0);
select ff_tap.route(31, '{}', 0);
select ff_tap.route(32, '{gpu}', 0);
select ff_tap.route(33, '{ssd}', 9);
select ff_tap.route(34, '{gpu,torch}', 1);
select ff_tap.route(35, '{}', 0);
select ff_tap.route(36, '{gpu,torch}', 0);
select ff_tap.route(37, '{}', 1);
select ff_tap.route(38, '{gpu}', 1);
select ff_tap.freeze_time(12100);
savepoint routed;
select array_agg(a)::text as answers from ff_tap.routed_answers(8) as a \gset
select ff_tap.rows_of('routed', true)::text as stored \gset
rollback to routed;
delete from flowfabric.ff_claim_grant;
drop function flowfabric._ff_take_next(text[], text, text[], integer, text, text, boolean, boolean, smallint);
-- The argument depends on n, or PostgreSQL would call the function once for all of them.
select is(
    array(select a from generate_series(1, 8) as n cross join lateral ff_tap.routed_answers(sign(n)::integer) as a),
    :'answers'::jsonb[], 'the quick way of a worker with capabilities answers as the general way does');
select is(
    array(select right(a ->> 'execution_id', 2) from unnest(:'answers'::jsonb[]) as a), '{34,37,38,30,31,32,35,36}',
    'by priority and age, whatever set each of them needs');
select is(ff_tap.rows_of('routed', true), :'stored'::jsonb, 'and writes what the general way writes');
rollback to routed;
rollback to waiting;

-- Promotion
select ff_tap.execution(ff_tap.id(10 + n), p_lane_id => 'delayed', p_delay_until_ms => 12100)
from generate_series(1, 3) as n;
select flowfabric.ff_issue_grant_and_claim(ff_tap.id(4), p_lease_ttl_ms => 3000);
select flowfabric.ff_delay_execution(ff_tap.id(4), 12100, p_source => 'operator_override');
select ff_tap.freeze_time(12100);
savepoint delayed;
select flowfabric.ff_promote_delayed(ff_tap.id(n)) from unnest('{4,11,12,13}'::integer[]) as n;
select jsonb_build_array(ff_tap.rows_of('delayed', true), ff_tap.rows_of('resume', true))::text as by_moves \gset
rollback to delayed;
select is(
    cardinality(flowfabric._ff_promote_lanes('{resume,delayed}', 50, true, 12100)), 4,
    'a claim promotes what is due together');
select is(
    jsonb_build_array(ff_tap.rows_of('delayed', true), ff_tap.rows_of('resume', true)), :'by_moves'::jsonb,
    'and writes what the move writes');
rollback to waiting;

-- A page that mixes everything: one call for all, and one call for each.
select ff_tap.execution(
    ff_tap.id(1000 + n),
    case n % 7
        when 1 then '{"quota_policy_id": "two"}'::jsonb
        when 3 then '{"quota_policy_id": "rare"}'
        when 4 then '{"budget_ids": ["spent"]}'
        when 5 then '{"routing_requirements": {"required_capabilities": ["gpu"]}}'
    end,
    p_lane_id => 'mixed', p_priority => n % 2)
from generate_series(1, 60) as n;
savepoint mixed;
select ff_tap.claim_next('mixed', 100, '{gpu}') as claimed \gset
select ff_tap.rows_of('mixed', true)::text as stored \gset
rollback to mixed;
create temporary table one_by_one (number integer) on commit drop;
do $$
declare
    v_claimed integer[];
begin
    loop
        v_claimed := ff_tap.claim_next('mixed', 1, '{gpu}');
        exit when v_claimed = '{}';
        insert into one_by_one values (v_claimed[1]);
    end loop;
end;
$$;
select is(
    array(select o.number from one_by_one as o), :'claimed'::integer[],
    'a mixed batch claims what claims one by one do, in their order');
select is(
    ff_tap.rows_of('mixed', true), :'stored'::jsonb,
    'and leaves the same states, attempts, events, blocks and admissions');

select * from finish();
rollback;
