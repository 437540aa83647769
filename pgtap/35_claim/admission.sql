-- Admission by claims: what quotas and budgets let start, what they keep, and that they hide nothing behind it.
begin;
\ir ../helpers.sql
select plan(49);

create function ff_tap.id(p_number integer)
returns text
language sql immutable
as $$ select '{fp:86}:00000000-0000-4000-8000-' || lpad(p_number::text, 12, '0') $$;

create function ff_tap.claimed(p_max integer default 1, p_lanes text[] default '{default}')
returns integer[]
language sql volatile
as $$
    select coalesce(array_agg(right(c.execution_id, 12)::integer), '{}')
    from flowfabric.ff_claim_next(p_lanes, 'pool', 'pool-1', p_max => p_max) as c
$$;

create function ff_tap.numbers(p_state text)
returns integer[]
language sql stable
as $$
    select coalesce(array_agg(right(e.execution_id::text, 12)::integer order by e.execution_id), '{}')
    from flowfabric.ff_exec_core as e
    where e.eligibility_state::text = p_state
$$;

create function ff_tap.complete(p_number integer)
returns text
language sql volatile
as $$
    select c.outcome
    from ff_tap.core(ff_tap.id(p_number)) as e, flowfabric.ff_complete_execution(
        ff_tap.id(p_number), e.current_lease_id, e.current_lease_epoch, e.current_attempt_id) as c
$$;

select ff_tap.freeze_time(10000);
select flowfabric.ff_create_quota_policy('two', 60, 0, 2);
select flowfabric.ff_create_quota_policy('rare', 60, 2, 0);
select flowfabric.ff_create_quota_policy('free', 0, 0, 0);
select flowfabric.ff_create_budget('spent', 'lane', 'x', '{calls,tokens}', '{0,10}', '{0,0}');
select flowfabric.ff_create_budget('rich', 'lane', 'x', '{tokens}', '{10}', '{0}');
insert into flowfabric.ff_budget_usage (budget_id, dimension, current_value, reserved_value, updated_at_ms)
values ('spent', 'tokens', 7, 3, 0), ('spent', 'calls', 99, 0, 0), ('rich', 'tokens', 9, 0, 0);
savepoint policies;

-- A concurrency cap
select ff_tap.execution(ff_tap.id(n), '{"quota_policy_id": "two"}') from generate_series(1, 5) as n;
select ff_tap.execution(ff_tap.id(6));
savepoint capped;
select is(
    ff_tap.claimed(p_max => 3), '{1,2,6}', 'a cap of 2 lets two start, and what is behind starts in the same call');
select is(ff_tap.numbers('blocked_by_quota'), '{3,4,5}', 'the others are blocked');
select is(
    ff_tap.vector(ff_tap.id(3)),
    'runnable / unowned / blocked_by_quota / waiting_for_quota / none / pending_first_attempt -> rate_limited',
    'as waiting for the quota');
select is(
    (select row(e.blocking_detail, e.blocked_at_ms) from ff_tap.core(ff_tap.id(5)) as e),
    row('quota two: concurrency cap 2'::text, 10000::bigint), 'with the cap and the time');
select is(
    (select array_agg(right(a.execution_id::text, 1) || a.slot_held::text order by a.execution_id)
     from flowfabric.ff_quota_admitted as a), '{1true,2true}', 'exactly two slots are held');
select is(ff_tap.claimed(p_max => 3), '{}', 'there is nothing more to claim');
select is(ff_tap.complete(1), 'completed', 'when one completes');
select flowfabric.ff_unblock_execution(ff_tap.id(3)), flowfabric.ff_unblock_execution(ff_tap.id(4));
select is(ff_tap.claimed(p_max => 3), '{3}', 'one more may start');
select is(ff_tap.numbers('blocked_by_quota'), '{4,5}', 'and only one');
rollback to capped;
select is(
    array[ff_tap.claimed(), ff_tap.claimed(), ff_tap.claimed(), ff_tap.claimed() || null::integer],
    '{{1},{2},{6},{null}}', 'one at a time gives the same claims');
select is(ff_tap.numbers('blocked_by_quota'), '{3,4,5}', 'and the same blocks');
rollback to capped;
select ff_tap.execution(ff_tap.id(100 + n), '{"quota_policy_id": "two"}', p_priority => 1)
from generate_series(1, 30) as n;
select is(ff_tap.claimed(p_max => 2), '{101,102}', 'the cap is used up');
select is(ff_tap.claimed(), '{6}', 'more denied executions than fit a page hide nothing either');
select is(
    (select array_agg(n order by n) from unnest(ff_tap.numbers('blocked_by_quota')) as n),
    array(select n from generate_series(103, 122) as n), 'those of the page are blocked, the rest is not touched');
select is(ff_tap.claimed(), '{}', 'the next call');
select is(ff_tap.numbers('eligible_now'), '{}', 'blocks the rest');
rollback to policies;

-- A rate
select ff_tap.execution(ff_tap.id(n), '{"quota_policy_id": "rare"}') from generate_series(1, 4) as n;
select ff_tap.execution(ff_tap.id(5));
select is(ff_tap.claimed(p_max => 10), '{1,2,5}', 'a rate of 2 lets two start');
select is(
    (select e.blocking_detail from ff_tap.core(ff_tap.id(3)) as e), 'quota rare: rate limit 2 per 60s window',
    'the others are blocked with the rate');
select ff_tap.complete(1), ff_tap.complete(2);
select flowfabric.ff_unblock_execution(ff_tap.id(3));
select is(ff_tap.claimed(), '{}', 'completing gives no token back');
select ff_tap.advance_time(60000);
select flowfabric.ff_unblock_execution(ff_tap.id(3)), flowfabric.ff_unblock_execution(ff_tap.id(4));
select is(ff_tap.claimed(p_max => 2), '{3,4}', 'a window later two more may start');
rollback to policies;

-- Quotas that limit nothing
select ff_tap.execution(ff_tap.id(1), '{"quota_policy_id": "free"}');
select ff_tap.execution(ff_tap.id(2), '{"quota_policy_id": "two"}');
delete from flowfabric.ff_quota_policy as q where q.quota_policy_id = 'two';
select is(ff_tap.claimed(p_max => 5), '{1,2}', 'a policy without limits and one that is gone let everything start');
select is_empty('select from flowfabric.ff_quota_admitted', 'and record nothing');
rollback to policies;

-- Budgets
select ff_tap.execution(ff_tap.id(1), '{"budget_ids": ["rich", "spent"]}');
select ff_tap.execution(ff_tap.id(2), '{"budget_ids": ["spent"], "quota_policy_id": "two"}');
select ff_tap.execution(ff_tap.id(3), '{"budget_ids": ["rich"]}');
select ff_tap.execution(ff_tap.id(4));
savepoint spent;
select is(
    ff_tap.claimed(p_max => 2), '{3,4}',
    'a budget that has reached its limit, reservations included, lets nothing start and hides nothing');
select is(ff_tap.numbers('blocked_by_budget'), '{1,2}', 'what it denies is blocked');
select is(
    ff_tap.vector(ff_tap.id(1)),
    'runnable / unowned / blocked_by_budget / waiting_for_budget / none / pending_first_attempt -> rate_limited',
    'as waiting for the budget');
select is(
    (select e.blocking_detail from ff_tap.core(ff_tap.id(1)) as e), 'budget spent: tokens 10/10',
    'with what was used of what');
select is_empty('select from flowfabric.ff_quota_admitted', 'a quota is not charged for what a budget denies');
rollback to spent;
update flowfabric.ff_budget_usage as u set reserved_value = 2 where u.budget_id = 'spent' and u.dimension = 'tokens';
select is(ff_tap.claimed(p_max => 9), '{1,2,3,4}', 'one unit below the limit everything may start');
select is(
    (select array_agg(right(a.execution_id::text, 1)) from flowfabric.ff_quota_admitted as a), '{2}',
    'what has budgets and a quota is charged to the quota');
rollback to spent;
select ff_tap.execution(ff_tap.id(100 + n), '{"budget_ids": ["rich", "spent"]}', p_priority => 1)
from generate_series(1, 30) as n;
select is(ff_tap.claimed(), '{3}', 'more denied executions than fit a page hide nothing either');
select is(
    ff_tap.numbers('blocked_by_budget'), array(select n from generate_series(101, 120) as n),
    'those of the page are blocked, the rest is not touched');
rollback to spent;
delete from flowfabric.ff_budget_policy as b where b.budget_id = 'spent';
delete from flowfabric.ff_budget_limit as b where b.budget_id = 'spent';
select is(ff_tap.claimed(p_max => 9), '{1,2,3,4}', 'a budget that is gone limits nothing');
rollback to policies;

-- What was started once
select ff_tap.execution(ff_tap.id(1), '{"quota_policy_id": "two"}', p_lane_id => 'pause');
select ff_tap.claimed(p_lanes => '{pause}');
select flowfabric.ff_delay_execution(ff_tap.id(1), 11000, p_source => 'operator_override');
select is(
    (select a.slot_held from flowfabric.ff_quota_admitted as a), false, 'a delayed execution gives its slot back');
select ff_tap.freeze_time(11000);
savepoint paused;
select is(ff_tap.claimed(p_lanes => '{pause}'), '{1}', 'and needs one to go on');
select is((select a.slot_held from flowfabric.ff_quota_admitted as a), true, 'which it then holds');
rollback to paused;
select ff_tap.execution(ff_tap.id(n), '{"quota_policy_id": "two"}') from generate_series(2, 3) as n;
select is(ff_tap.claimed(p_max => 2), '{2,3}', 'when others hold all slots');
select is(ff_tap.claimed(p_lanes => '{pause}'), '{}', 'it has to wait');
select is(
    ff_tap.vector(ff_tap.id(1)),
    'runnable / unowned / blocked_by_quota / waiting_for_quota / none / attempt_interrupted -> rate_limited',
    'with its attempt paused as before');
rollback to policies;

-- Several lanes and policies in one call
select ff_tap.execution(ff_tap.id(n), case n % 3
    when 0 then '{"quota_policy_id": "two"}'::jsonb
    when 1 then '{"quota_policy_id": "rare", "budget_ids": ["rich"]}' end,
    p_lane_id => 'lane' || (n % 2)::text)
from generate_series(1, 24) as n;
select is(
    (select array_agg(n order by n)
     from unnest(ff_tap.claimed(p_max => 100, p_lanes => '{lane0,lane1}')) as n
     where n % 3 = 2), '{2,5,8,11,14,17,20,23}', 'with two policies over two lanes the unconstrained all start');
select is(
    (select row(count(*) filter (where e.quota_policy_id = 'two'), count(*) filter (where e.quota_policy_id = 'rare'))
     from flowfabric.ff_exec_core as e where e.ownership_state = 'leased'), row(2::bigint, 2::bigint),
    'and of each policy as many as it allows');
select is(
    (select row(count(*) filter (where e.eligibility_state = 'blocked_by_quota'), count(*) filter (
        where e.eligibility_state = 'eligible_now')) from flowfabric.ff_exec_core as e), row(12::bigint, 0::bigint),
    'all others are blocked');
rollback to policies;

-- Grants
select ff_tap.execution(ff_tap.id(n), '{"quota_policy_id": "two"}') from generate_series(1, 3) as n;
select is(
    (select array_agg(right(g.execution_id, 1)::integer)
     from flowfabric.ff_grant_next('{default}', 'pool', 'pool-1', p_max => 3, p_grant_ttl_ms => 500) as g), '{1,2}',
    'a grant is admitted like a claim');
select is(
    (select count(*) from flowfabric.ff_quota_admitted as a where a.slot_held), 2::bigint, 'and holds its slot');
select is(ff_tap.numbers('blocked_by_quota'), '{3}', 'what it denies is blocked');
select is(ff_tap.claimed(p_max => 9), '{}', 'a live grant is respected');
select ff_tap.freeze_time(10501);
select is(ff_tap.claimed(p_max => 9), '{1,2}', 'who claims after a grant has lapsed takes over the slot');
select is(
    (select row(count(*), count(*) filter (where a.slot_held)) from flowfabric.ff_quota_admitted as a),
    row(2::bigint, 2::bigint), 'without a second one');
select is_empty('select from flowfabric.ff_claim_grant', 'and the lapsed grants are gone');
rollback to policies;
select ff_tap.execution(ff_tap.id(n), '{"quota_policy_id": "two"}') from generate_series(1, 2) as n;
select count(*) from flowfabric.ff_grant_next('{default}', 'pool', 'pool-1', p_max => 2, p_grant_ttl_ms => 500);
select ff_tap.freeze_time(10501);
select flowfabric.ff_sweep_expired_grants();
select is(
    (select count(*) from flowfabric.ff_quota_admitted as a where a.slot_held), 0::bigint,
    'slots of lapsed grants that nobody claims come back with the sweep');

select * from finish();
rollback;
