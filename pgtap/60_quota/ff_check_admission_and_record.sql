-- Admission: tokens per window, slots at once, and who gives a slot back.
begin;
\ir ../helpers.sql
select plan(73);

create function ff_tap.id(p_number integer)
returns text
language sql immutable
as $$ select '{fp:86}:00000000-0000-4000-8000-' || lpad(p_number::text, 12, '0') $$;

create function ff_tap.admit(p_policy text, p_number integer, p_jitter_ms bigint default null)
returns text
language sql volatile
as $$
    select concat_ws(' ', a.outcome, a.retry_after_ms)
    from flowfabric.ff_check_admission_and_record(p_policy, ff_tap.id(p_number), p_jitter_ms) as a
$$;

-- What is recorded of an execution under a policy.
create function ff_tap.recorded(p_policy text, p_number integer)
returns text
language sql stable
as $$
    select format(
        'token %s, admitted %s until %s, slot %s', coalesce(w.admitted_at_ms::text, 'none'), a.admitted_at_ms,
        a.expires_at_ms, case when a.slot_held then 'held' else 'free' end)
    from flowfabric.ff_parse_execution_id(ff_tap.id(p_number)) as k
    left join flowfabric.ff_quota_window as w on w.quota_policy_id = p_policy and w.execution_id = k.execution_id
    left join flowfabric.ff_quota_admitted as a on a.quota_policy_id = p_policy and a.execution_id = k.execution_id
$$;

create function ff_tap.entries(p_policy text)
returns bigint
language sql stable
as $$ select count(*) from flowfabric.ff_quota_window as w where w.quota_policy_id = p_policy $$;

select ff_tap.freeze_time(100000);
select flowfabric.ff_create_quota_policy('rate', 1, 2, 0);
select flowfabric.ff_create_quota_policy('cap', 0, 0, 2);
select flowfabric.ff_create_quota_policy('both', 60, 2, 1);
select flowfabric.ff_create_quota_policy('open', 0, 0, 0);
select flowfabric.ff_create_quota_policy('jitter', 60, 1, 0, 500);
select ff_tap.execution(ff_tap.id(i)) from generate_series(1, 40) as i;

-- The rate
select results_eq(
    $$select a.* from flowfabric.ff_check_admission_and_record('rate', ff_tap.id(1)) as a$$,
    format($$values (%L, 'rate', 'admitted', null::bigint)$$, ff_tap.id(1)), 'the first start is admitted');
select is(
    ff_tap.recorded('rate', 1), 'token 100000, admitted 100000 until 101000, slot held',
    'its token, its guard and its slot are recorded');
select ff_tap.freeze_time(100400);
select is(ff_tap.admit('rate', 2), 'admitted', 'the second start is admitted');
select ff_tap.freeze_time(100700);
select is(
    ff_tap.admit('rate', 3), 'rate_exceeded 300', 'the third waits until the oldest token leaves the window');
select is(ff_tap.recorded('rate', 3), 'token none, admitted  until , slot free', 'and nothing is recorded for it');
select is(ff_tap.admit('rate', 1), 'already_admitted', 'a repeat inside the window is admitted already');
select is(ff_tap.entries('rate'), 2::bigint, 'and counts nothing twice');
select is(
    ff_tap.recorded('rate', 1), 'token 100000, admitted 100700 until 101000, slot held',
    'the guard stays, the time of the admission is that of the repeat');
select ff_tap.freeze_time(100999);
select is(ff_tap.admit('rate', 3), 'rate_exceeded 1', 'one millisecond before the window is over it is too early');
select ff_tap.freeze_time(101000);
select is(ff_tap.admit('rate', 3), 'admitted', 'an entry that is exactly one window old no longer counts');
select is(ff_tap.entries('rate'), 2::bigint, 'and is deleted');
select is(ff_tap.admit('rate', 1), 'rate_exceeded 400',
    'the guard is over at that instant too: a new start needs a token');
select ff_tap.freeze_time(101400);
select is(ff_tap.admit('rate', 1), 'admitted', 'and gets it when there is one');
select is(
    ff_tap.recorded('rate', 1), 'token 101400, admitted 101400 until 102400, slot held', 'as a new admission');
select ff_tap.freeze_time(110000);
select is(ff_tap.admit('rate', 4), 'admitted', 'after a pause the window is empty');
select is(ff_tap.entries('rate'), 1::bigint, 'and everything older is gone');

-- Jitter
select is(ff_tap.admit('jitter', 1), 'admitted', 'jitter does not matter to whom is admitted');
select ok(
    bool_and(j.wait between 60000 and 60500) and count(distinct j.wait) > 20,
    'the wait of the others is spread over the jitter of the policy')
from (
    select (flowfabric.ff_check_admission_and_record('jitter', ff_tap.id(2))).retry_after_ms as wait
    from generate_series(1, 200)
) as j;
select ok(
    bool_and(j.wait between 60000 and 60003) and count(distinct j.wait) = 4,
    'or over that of the caller, both ends included')
from (
    select (flowfabric.ff_check_admission_and_record('jitter', ff_tap.id(2), 3)).retry_after_ms as wait
    from generate_series(1, 200)
) as j;
select is(ff_tap.admit('jitter', 2, 0), 'rate_exceeded 60000', 'without jitter the wait is exact');
select matches(
    ff_tap.admit('jitter', 2, 31536000000000), '^rate_exceeded [0-9]+$', 'the largest jitter overflows nothing');

-- The cap
select is(ff_tap.admit('cap', 11), 'admitted', 'the first slot is taken');
select is(ff_tap.admit('cap', 12), 'admitted', 'and the second');
select is(ff_tap.admit('cap', 13), 'concurrency_exceeded', 'the third execution finds no slot');
select is(ff_tap.recorded('cap', 13), 'token none, admitted  until , slot free', 'and nothing is recorded for it');
select is(
    ff_tap.admit('cap', 12), 'admitted',
    'without a window nothing is paid for, but an execution does not stand in its own way');
select is((select count(*) from flowfabric.ff_quota_admitted as a where a.quota_policy_id = 'cap' and a.slot_held),
    2::bigint, 'and holds one slot');

-- Both: the cap denies without a token
select is(ff_tap.admit('both', 21), 'admitted', 'one of two tokens, the only slot');
select is(ff_tap.admit('both', 22), 'concurrency_exceeded', 'a token is left, a slot is not');
select is(ff_tap.entries('both'), 1::bigint, 'a token is not spent when the cap denies');

-- No limits
select is(ff_tap.admit('open', 1), 'admitted', 'a policy without limits admits');
select is(
    ff_tap.recorded('open', 1), 'token 110000, admitted 110000 until 110000, slot held', 'and still counts');

-- A slot follows the activity of the execution
create function ff_tap.leased_under(p_policy text, p_number integer)
returns flowfabric.ff_claim
language plpgsql volatile
as $$
begin
    perform ff_tap.execution(ff_tap.id(p_number), jsonb_build_object(
        'quota_policy_id', p_policy, 'retry_policy', jsonb_build_object('max_retries', 3)));
    perform flowfabric.ff_check_admission_and_record(p_policy, ff_tap.id(p_number));
    return flowfabric.ff_issue_grant_and_claim(ff_tap.id(p_number), p_lease_ttl_ms => 30000);
end;
$$;
create function ff_tap.slot(p_policy text, p_number integer)
returns text
language sql stable
as $$
    select case when a.slot_held then 'held' else 'free' end
    from flowfabric.ff_quota_admitted as a, flowfabric.ff_parse_execution_id(ff_tap.id(p_number)) as k
    where a.quota_policy_id = p_policy and a.execution_id = k.execution_id
$$;
select flowfabric.ff_create_quota_policy('one', 60, 0, 1);
create temporary table lease as select l.* from ff_tap.leased_under('one', 101) as l;
select is(ff_tap.admit('one', 5), 'concurrency_exceeded', 'a running execution holds its slot');
select flowfabric.ff_complete_execution(l.execution_id, l.lease_id, l.lease_epoch, l.attempt_id) from lease as l;
select is(ff_tap.slot('one', 101), 'free', 'completing gives it back');

truncate lease;
insert into lease select l.* from ff_tap.leased_under('one', 102) as l;
select flowfabric.ff_fail_execution(l.execution_id, l.lease_id, l.lease_epoch, l.attempt_id, 'broken') from lease as l;
select is(
    ff_tap.slot('one', 102) || ' ' || ff_tap.public_state(ff_tap.core(ff_tap.id(102)))::text, 'free delayed',
    'a failure with a retry gives it back');

truncate lease;
insert into lease select l.* from ff_tap.leased_under('one', 103) as l;
select flowfabric.ff_delay_execution(l.execution_id, 120000, l.lease_id, l.lease_epoch, l.attempt_id) from lease as l;
select is(ff_tap.slot('one', 103), 'free', 'a delay gives it back');
select is(
    ff_tap.recorded('one', 103), 'token 110000, admitted 110000 until 170000, slot free',
    'what is paid for stays paid for');
select is(ff_tap.admit('one', 6), 'admitted', 'somebody else takes the slot');
select is(
    ff_tap.admit('one', 103), 'concurrency_exceeded', 'whoever comes back needs a slot, and waits for it');
select flowfabric.ff_release_admission('one', ff_tap.id(6));
select is(ff_tap.admit('one', 103), 'already_admitted', 'but no second token');
select is(
    ff_tap.recorded('one', 103), 'token 110000, admitted 110000 until 170000, slot held',
    'its guard stays as it was, the slot is held again');

-- Suspension: by the state that it leads to
select flowfabric.ff_promote_delayed(ff_tap.id(103)) from ff_tap.freeze_time(120000);
truncate lease;
insert into lease select l.* from flowfabric.ff_issue_grant_and_claim(ff_tap.id(103), p_lease_ttl_ms => 30000) as l;
select is(ff_tap.slot('one', 103), 'held', 'a resumed execution holds its slot');
select flowfabric._ff_set_unowned_state(
    ff_tap.core(ff_tap.id(103)), 'suspended', 'not_applicable', 'waiting_for_signal', null, 'none',
    'attempt_interrupted', null, gen_random_uuid(), gen_random_uuid(), 'suspend', 120000);
select is(ff_tap.slot('one', 103), 'free', 'a suspended execution gives its slot back');
select is(ff_tap.admit('one', 7), 'admitted', 'so that another one may run');
select is(ff_tap.admit('one', 103), 'concurrency_exceeded', 'and needs one to go on');
select flowfabric.ff_release_admission('one', ff_tap.id(7));

-- A lost lease keeps its slot
truncate lease;
insert into lease select l.* from ff_tap.leased_under('one', 104) as l;
select ff_tap.freeze_time(150000);
select flowfabric.ff_mark_lease_expired_if_due(ff_tap.id(104));
select is(ff_tap.slot('one', 104), 'held', 'a lease that expired keeps the slot: the execution is still active');
select is(ff_tap.admit('one', 8), 'concurrency_exceeded', 'and nobody else gets it');
select flowfabric.ff_issue_reclaim_grant(ff_tap.id(104), 'pool', 'pool-1');
select flowfabric.ff_reclaim_execution(ff_tap.id(104), 'pool', 'pool-1');
select is(ff_tap.slot('one', 104), 'held', 'the reclaim keeps it too');
select flowfabric.ff_revoke_lease(ff_tap.id(104));
select is(ff_tap.slot('one', 104), 'held', 'so does a revoked lease');
select flowfabric.ff_cancel_execution(ff_tap.id(104), 'stop', p_source => 'operator_override');
select is(ff_tap.slot('one', 104), 'free', 'a cancellation gives it back');
select is(ff_tap.admit('one', 8), 'admitted', 'and the next one is admitted');

-- A cap of zero is none: an execution that comes back is admitted already
select flowfabric.ff_create_quota_policy('uncapped', 60, 5, 0);
select ff_tap.leased_under('uncapped', 105);
select flowfabric.ff_cancel_execution(ff_tap.id(105), 'stop', p_source => 'operator_override');
select is(ff_tap.admit('uncapped', 105), 'already_admitted', 'without a cap a paid start needs nothing more');

-- An execution that is gone from its own policy's row
select is(
    (flowfabric._ff_admit_under_quota(86::smallint, gen_random_uuid(), 'no such policy', null, 1)).outcome, 'admitted',
        'at a claim, a policy that does not exist limits nothing');
select is_empty(
    $$select from flowfabric.ff_quota_admitted as a where a.quota_policy_id = 'no such policy'$$,
    'and nothing is recorded for it');

-- The words for a denial
select is(
    flowfabric._ff_quota_denial_detail('both', 'rate_exceeded'), 'quota both: rate limit 2 per 60s window',
    'a used up rate has words');
select is(
    flowfabric._ff_quota_denial_detail('both', 'concurrency_exceeded'), 'quota both: concurrency cap 1',
    'a full cap has words');

-- Refusals
select throws_ok(
    $$select flowfabric.ff_check_admission_and_record('none', ff_tap.id(99))$$, 'ZN001', 'execution_not_found',
    'an unknown execution is refused before the policy is looked at');
select is(
    ff_tap.error_of($$select flowfabric.ff_check_admission_and_record('none', ff_tap.id(1))$$),
    '{"code": "quota_policy_not_found", "fn": "ff_check_admission_and_record", "quota_policy_id": "none"}',
    'an unknown policy is refused');
select throws_ok(
    $$select flowfabric.ff_check_admission_and_record('none', ff_tap.id(1))$$, 'ZN005', 'quota_policy_not_found',
    'with a code of its own');
select throws_ok(
    $$select flowfabric.ff_check_admission_and_record('a b', ff_tap.id(1))$$, 'ZV001', 'invalid_input',
    'a policy id has no white space');
select is(
    ff_tap.error_of($$select flowfabric.ff_check_admission_and_record('rate', 'x')$$) ->> 'field', 'execution_id',
    'an execution id is well formed');
select is(
    (select array_agg(ff_tap.error_of(format(
        $$select flowfabric.ff_check_admission_and_record('rate', ff_tap.id(1), %L)$$, b.n)) ->> 'reason')
     from (values (-1), (31536000000001)) as b (n)),
    array['out_of_range', 'out_of_range'], 'jitter is within 0 and a thousand years');
select is(ff_tap.entries('none'), 0::bigint, 'a refusal records nothing');

-- A clock that was ahead for a moment
select ff_tap.freeze_time(200000 + 86400000);
select flowfabric.ff_create_quota_policy('step', 60, 2, 1);
select is(ff_tap.admit('step', 30), 'admitted', 'the clock is a day ahead');
select ff_tap.freeze_time(200000);
select is(
    (select (m).entries_in_window from (select flowfabric._ff_measure_quota('step', 200000) as m) as q), 0::bigint,
    'when it is back, a start that is dated later than now counts for nothing');
select is(
    (select v.used_in_window from flowfabric.ff_v_quota as v where v.policy = 'step'), 0::bigint, 'in the view neither');
select flowfabric.ff_release_admission('step', ff_tap.id(30));
select is(ff_tap.admit('step', 30), 'admitted', 'nor is the start of its own execution paid for');
select is(
    ff_tap.recorded('step', 30), 'token 200000, admitted 200000 until 260000, slot held', 'it is counted from now');
select flowfabric.ff_release_admission('step', ff_tap.id(30));
select is(ff_tap.admit('step', 31), 'admitted', 'the window has room for another');
select flowfabric.ff_release_admission('step', ff_tap.id(31));
select is(ff_tap.admit('step', 32), 'rate_exceeded 60000', 'and no more than that');
update flowfabric.ff_quota_window as w set admitted_at_ms = 200001 where w.quota_policy_id = 'step';
select is(ff_tap.admit('step', 32), 'admitted', 'a millisecond ahead is ahead');
select is(ff_tap.entries('step'), 1::bigint, 'and what is ahead is deleted');
select flowfabric.ff_release_admission('step', ff_tap.id(32));

-- Retention gives no token back before its time
select ff_tap.freeze_time(900000);
select flowfabric.ff_create_quota_policy('kept', 60, 1, 0);
select ff_tap.execution('{fp:86}:00000000-0000-4000-8000-00000000000a', '{"stream_policy": {"retention_ttl_ms": 0}}');
select flowfabric.ff_check_admission_and_record('kept', '{fp:86}:00000000-0000-4000-8000-00000000000a');
select flowfabric.ff_cancel_execution(
    '{fp:86}:00000000-0000-4000-8000-00000000000a', 'test', 'operator_override');
select flowfabric.ff_trim_retention();
select is(ff_tap.admit('kept', 40), 'rate_exceeded 60000', 'a start counts although its execution is gone');

select * from finish();
rollback;
