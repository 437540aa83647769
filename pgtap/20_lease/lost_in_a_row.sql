-- Leases lost in a row: the first takeover is immediate, later ones back off, the sixth loss ends the execution.
begin;
\ir ../helpers.sql
select plan(52);

create function ff_tap.id(p_number integer)
returns text
language sql immutable
as $$ select '{fp:86}:00000000-0000-4000-8000-' || lpad(p_number::text, 12, '0') $$;

-- What a worker gets that asks now.
create function ff_tap.taken(p_max_reclaim_count integer default null)
returns text[]
language sql volatile
as $$
    select coalesce(array_agg(concat_ws(
        ' ', right(r.execution_id, 12)::integer, r.outcome, r.reclaim_count, r.max_reclaim_count)), '{}')
    from flowfabric.ff_reclaim_next(
        '{default}', 'pool', 'pool-1', p_max => 9, p_lease_ttl_ms => 1000,
        p_max_reclaim_count => p_max_reclaim_count) as r
$$;

create function ff_tap.backoff_ms(p_number integer, p_lease_epoch bigint, p_losses integer)
returns bigint
language sql immutable
as $$ select flowfabric._ff_takeover_backoff_ms(right(ff_tap.id(p_number), 36)::uuid, p_lease_epoch, p_losses) $$;

-- An execution that was taken over so often in a row and runs.
create function ff_tap.taken_over(p_number integer, p_count integer default 3)
returns text
language plpgsql volatile
as $$
begin
    perform ff_tap.leased_execution(ff_tap.id(p_number));
    update flowfabric.ff_exec_core as e
    set lease_reclaim_count = p_count where e.execution_id = right(ff_tap.id(p_number), 36)::uuid;
    return ff_tap.id(p_number);
end;
$$;

create function ff_tap.count_of(p_number integer)
returns integer
language sql stable
as $$ select (ff_tap.core(ff_tap.id(p_number))).lease_reclaim_count $$;

-- How long
select results_eq(
    $$ select n, bool_and(b.ms >= least(1000 * 2 ^ (n - 2), 150000)), bool_and(b.ms < least(2000 * 2 ^ (n - 2), 300000))
       from generate_series(2, 12) as n, generate_series(1, 200) as e,
           lateral (select ff_tap.backoff_ms(1, e, n)) as b (ms)
       group by n order by n $$,
    $$ select n, true, true from generate_series(2, 12) as n $$,
    'from 1 s, doubling, at most twice as long by jitter, never more than 5 minutes');
select ok(
    (select count(distinct ff_tap.backoff_ms(n, 2, 2)) > 90 from generate_series(1, 100) as n),
    'what was lost together comes back spread');
select is(ff_tap.backoff_ms(1, 2, 2), 1336::bigint, 'the same on every machine');
select is(ff_tap.backoff_ms(1, 2, 2147483647) between 150000 and 299999, true, 'however often it was lost');

-- From the first loss to the end, each takeover at its instant
select ff_tap.freeze_time(1000);
select ff_tap.leased_execution(ff_tap.id(1), p_lease_expires_at_ms => 2000);
select ff_tap.freeze_time(1999);
select is(ff_tap.taken(), '{}', 'a live lease is not taken over');
select ff_tap.freeze_time(2000);
select is(ff_tap.taken(), '{"1 reclaimed 1 5"}', 'the first loss waits for nothing');
select ff_tap.freeze_time(3000 + ff_tap.backoff_ms(1, 2, 2) - 1);
select is(ff_tap.taken(), '{}', 'the second waits for its back-off');
select is(
    (select row(e.ownership_state::text, e.delay_until_ms) from ff_tap.core(ff_tap.id(1)) as e),
    row('lease_expired_reclaimable'::text, 3000 + ff_tap.backoff_ms(1, 2, 2)),
    'it is marked and set aside until then, so that nothing reads it again');
select throws_ok(
    format($$ select flowfabric.ff_issue_reclaim_grant(%L, 'pool', 'pool-1') $$, ff_tap.id(1)), 'ZC014',
    'execution_not_reclaimable', 'meanwhile there is no grant for it');
select throws_ok(
    format($$ select flowfabric.ff_reclaim_execution(%L, 'pool', 'pool-1') $$, ff_tap.id(1)), 'ZC014',
    'execution_not_reclaimable', 'and no takeover by name');
select is(
    ff_tap.error_of(format($$ select flowfabric.ff_reclaim_execution(%L, 'pool', 'pool-1') $$, ff_tap.id(1)))
    -> 'takeover_at_ms', to_jsonb(3000 + ff_tap.backoff_ms(1, 2, 2)), 'the refusal says from when on');
select ff_tap.freeze_time(3000 + ff_tap.backoff_ms(1, 2, 2));
savepoint due;
select is(ff_tap.taken(), '{"1 reclaimed 2 5"}', 'at its end it is taken over');
rollback to due;
select flowfabric.ff_issue_reclaim_grant(ff_tap.id(1), 'pool', 'pool-1');
select is(
    (flowfabric.ff_reclaim_execution(ff_tap.id(1), 'pool', 'pool-1', 1000)).reclaim_count, 2,
    'by name at the same instant');
select is((ff_tap.core(ff_tap.id(1))).delay_until_ms, null, 'under a lease no delay is left');
create function ff_tap.next_takeover(p_number integer, p_wait_ms bigint)
returns text[]
language plpgsql volatile
as $$
begin
    perform ff_tap.freeze_time((ff_tap.core(ff_tap.id(p_number))).lease_expires_at_ms + p_wait_ms);
    return ff_tap.taken();
end;
$$;
select is(ff_tap.next_takeover(1, ff_tap.backoff_ms(1, 3, 3) - 1), '{}', 'the third loss waits longer');
select is(ff_tap.next_takeover(1, ff_tap.backoff_ms(1, 3, 3)), '{"1 reclaimed 3 5"}', 'to the instant');
select is(ff_tap.next_takeover(1, ff_tap.backoff_ms(1, 4, 4) - 1), '{}', 'so does the fourth');
select is(ff_tap.next_takeover(1, ff_tap.backoff_ms(1, 4, 4)), '{"1 reclaimed 4 5"}', 'then it is taken over');
select is(ff_tap.next_takeover(1, ff_tap.backoff_ms(1, 5, 5) - 1), '{}', 'and the fifth');
select is(ff_tap.next_takeover(1, ff_tap.backoff_ms(1, 5, 5)), '{"1 reclaimed 5 5"}', 'which is the last takeover');
select is(ff_tap.next_takeover(1, -1), '{}', 'the sixth lease is good until it expires');
select is(ff_tap.next_takeover(1, 0), '{"1 reclaim_cap_exceeded 5 5"}', 'the sixth loss ends it at once');
select is(
    (select row(
        ff_tap.public_state(e)::text, e.total_attempt_count, e.lease_reclaim_count,
        (ff_tap.note(ff_tap.id(1))).failure_reason)
     from ff_tap.core(ff_tap.id(1)) as e),
    row('failed'::text, 6, 5,
        'max_reclaims_exceeded: 6 leases lost in a row without recorded progress, 5 takeovers allowed'::text),
    'as failed, with the number of losses in the reason');
select is(ff_tap.completions(ff_tap.id(1)), '{failed}', 'and the end is announced');
select flowfabric.ff_replay_execution(ff_tap.id(1));
select is(ff_tap.count_of(1), 0, 'a replay starts over');
select flowfabric.ff_cancel_execution(ff_tap.id(1), 'done', 'operator_override');

-- What the scanner and the mark do
select ff_tap.freeze_time(10000);
select ff_tap.leased_execution(ff_tap.id(2), p_lease_expires_at_ms => 11000);
update flowfabric.ff_exec_core as e set lease_reclaim_count = 1 where e.execution_id = right(ff_tap.id(2), 36)::uuid;
select ff_tap.freeze_time(11000);
savepoint lost;
select flowfabric.ff_scan_expired_leases();
select is(
    (ff_tap.core(ff_tap.id(2))).delay_until_ms, 11000 + ff_tap.backoff_ms(2, 1, 2),
    'the scanner writes the same time');
rollback to lost;
select flowfabric.ff_mark_lease_expired_if_due(ff_tap.id(2));
select is(
    (ff_tap.core(ff_tap.id(2))).delay_until_ms, 11000 + ff_tap.backoff_ms(2, 1, 2), 'so does the mark by name');
rollback to lost;
select ff_tap.freeze_time(11000 + ff_tap.backoff_ms(2, 1, 2) - 1);
select is(ff_tap.taken(), '{}', 'one that nothing has marked waits as long');
rollback to lost;
select ff_tap.freeze_time(11000 + ff_tap.backoff_ms(2, 1, 2));
select is(ff_tap.taken(), '{"2 reclaimed 2 5"}', 'and no longer');
rollback to lost;

-- The cap of the caller
select is(ff_tap.taken(1), '{"2 reclaim_cap_exceeded 1 1"}', 'a smaller cap of the caller ends it at once');
rollback to lost;
update flowfabric.ff_exec_core as e set lease_reclaim_count = 5 where e.execution_id = right(ff_tap.id(2), 36)::uuid;
select is(ff_tap.taken(9), '{}', 'under a larger one it backs off');
select ff_tap.freeze_time(11000 + ff_tap.backoff_ms(2, 1, 6));
select is(ff_tap.taken(9), '{"2 reclaimed 6 9"}', 'and is taken over');
rollback to lost;
select flowfabric.ff_cancel_execution(ff_tap.id(2), 'done', 'operator_override');

-- An operator's revocation
select ff_tap.freeze_time(20000);
select ff_tap.taken_over(3, 2);
select flowfabric.ff_revoke_lease(ff_tap.id(3), p_reason => 'maintenance');
savepoint revoked;
select is(ff_tap.taken(), '{"3 reclaimed 2 5"}', 'a revoked lease is taken over at once and counts for nothing');
rollback to revoked;
update flowfabric.ff_exec_core as e set lease_reclaim_count = 5 where e.execution_id = right(ff_tap.id(3), 36)::uuid;
select is(
    ff_tap.taken(), '{"3 reclaim_cap_exceeded 5 5"}', 'but at the cap there is no takeover, whatever the reason');
rollback to revoked;
select flowfabric.ff_cancel_execution(ff_tap.id(3), 'done', 'operator_override');

-- Progress
select ff_tap.freeze_time(30000);
select flowfabric.ff_seed_waitpoint_hmac_secret('kid', repeat('ab', 32));
select ff_tap.taken_over(10);
select flowfabric.ff_delay_execution(ff_tap.id(10), 40000, ff_tap.lease_id(), 1, ff_tap.attempt_id());
select is(ff_tap.count_of(10), 0, 'a delay is progress');
select ff_tap.taken_over(11);
select flowfabric.ff_suspend_execution(
    ff_tap.id(11), ff_tap.lease_id(), 1, ff_tap.attempt_id(),
    '{"Single": {"waitpoint_key": "wpk:approval", "matcher": {"ByName": "approved"}}}', 'waiting_for_approval',
    p_waitpoint_ids => '{00000000-0000-4000-8000-000000170001}', p_waitpoint_keys => '{wpk:approval}');
select is(ff_tap.count_of(11), 0, 'a suspension is');
select ff_tap.taken_over(12);
select flowfabric.ff_move_to_waiting_children(ff_tap.id(12), ff_tap.lease_id(), 1, ff_tap.attempt_id());
select is(ff_tap.count_of(12), 0, 'waiting for children is');
select ff_tap.taken_over(13);
select flowfabric.ff_fail_execution(
    ff_tap.id(13), ff_tap.lease_id(), 1, ff_tap.attempt_id(), 'x', 'transient',
    p_retry_policy => '{"max_retries": 3}');
select is(ff_tap.count_of(13), 0, 'a failure that is retried is');
select ff_tap.taken_over(14);
select is(
    (select array_agg(f.outcome) from flowfabric.ff_fail_executions(
        array[ff_tap.id(14)], array[ff_tap.lease_id()], array[1], array[ff_tap.attempt_id()], array['x'],
        array['transient'], array['{"max_retries": 3}'::jsonb]) as f), '{retry_scheduled}', 'in a batch');
select is(ff_tap.count_of(14), 0, 'too');
select ff_tap.taken_over(15);
select flowfabric._ff_note_progress(ff_tap.core(ff_tap.id(15)));
select is(ff_tap.count_of(15), 0, 'and so is what is recorded under a lease that goes on');
select is(
    (select row(e.ownership_state::text, e.lease_expires_at_ms) from ff_tap.core(ff_tap.id(15)) as e),
    row('leased'::text, 60000::bigint), 'which it leaves alone');
select ff_tap.freeze_time(60000);
select is(ff_tap.taken(), '{"15 reclaimed 1 5"}', 'after progress the next loss is the first again');
select flowfabric.ff_cancel_execution(ff_tap.id(15), 'done', 'operator_override');

-- No progress
select ff_tap.freeze_time(30000);
select ff_tap.taken_over(20);
select flowfabric.ff_update_progress(
    ff_tap.id(20), ff_tap.lease_id(), 1, ff_tap.attempt_id(), p_progress_pct => 99, p_progress_message => 'nearly done');
select is(ff_tap.count_of(20), 3, 'a percentage is none: the next attempt starts where this one did');
select flowfabric.ff_append_frame(ff_tap.id(20), 0, ff_tap.lease_id(), 1, ff_tap.attempt_id(), 'stdout', 'output');
select is(ff_tap.count_of(20), 3, 'nor is a frame of a stream');
select flowfabric.ff_renew_lease(ff_tap.id(20), ff_tap.lease_id(), 1, ff_tap.attempt_id());
select is(ff_tap.count_of(20), 3, 'nor a renewal');
select flowfabric.ff_complete_execution(ff_tap.id(20), ff_tap.lease_id(), 1, ff_tap.attempt_id());
select is(ff_tap.count_of(20), 3, 'an end keeps the count for readers');
select ff_tap.taken_over(21);
select flowfabric.ff_fail_execution(ff_tap.id(21), ff_tap.lease_id(), 1, ff_tap.attempt_id(), 'x');
select is(ff_tap.count_of(21), 3, 'also a failure');

-- Many that back off do not hide one that is due
select ff_tap.freeze_time(100000);
select ff_tap.taken_over(n, 1) from generate_series(1000, 1119) as n;
select ff_tap.freeze_time(130000);
select is(ff_tap.taken(), '{}', 'those of the window are set aside, 100 in a call');
select is(
    (select count(*)::integer from flowfabric.ff_exec_core as e where e.ownership_state = 'lease_expired_reclaimable'),
    100, 'by a mark');
select ff_tap.freeze_time(100001);
select ff_tap.leased_execution(ff_tap.id(2000));
select ff_tap.freeze_time(130001);
select is(ff_tap.taken(), '{"2000 reclaimed 1 5"}', 'so that the next call reads on');
select is_empty(
    $$ select f.* from flowfabric.ff_check_invariants() as f $$, 'and all rows are sound');

select * from finish();
rollback;
