-- Reservations of a lease that ends or is lost: they come back, all of them, once, and with the lease's end as reason.
begin;
\ir ../helpers.sql
select plan(39);

create function ff_tap.id(p_number integer)
returns text
language sql immutable
as $$ select '{fp:86}:00000000-0000-4000-8000-' || lpad(p_number::text, 12, '0') $$;

select ff_tap.freeze_time(1000);
select flowfabric.ff_create_budget('b1', 'tenant', 'acme', '{tokens}', '{100}', '{0}');
select flowfabric.ff_create_budget('b2', 'tenant', 'acme');

-- A leased execution that has set 10 + 20 tokens of one budget and 5 of another aside.
create function ff_tap.reserving(p_number integer, p_attempt_timeout_ms bigint default null,
    p_max_retries integer default 0)
returns text
language plpgsql volatile
as $$
begin
    perform ff_tap.leased_execution(
        ff_tap.id(p_number), jsonb_build_object('retry_policy', jsonb_build_object('max_retries', p_max_retries)),
        p_lease_expires_at_ms => flowfabric.ff_now_ms() + 500, p_attempt_timeout_ms => p_attempt_timeout_ms);
    perform flowfabric.ff_reserve_budget(
        r.budget_id, '{tokens}', array[r.amount], ff_tap.id(p_number), ff_tap.lease_id(), 1, ff_tap.attempt_id(),
        r.budget_id || '-' || r.amount::text || '-' || p_number::text)
    from (values ('b2', 5), ('b1', 10), ('b1', 20)) as r (budget_id, amount);
    return ff_tap.reserved();
end;
$$;
create function ff_tap.reserved()
returns text
language sql stable
as $$
    select string_agg(u.budget_id || ' ' || u.reserved_value::text, ', ' order by u.budget_id)
    from flowfabric.ff_budget_usage as u
$$;
create function ff_tap.returned(p_number integer)
returns text
language sql stable
as $$
    select format(
        '%s open, %s', e.open_reservation_count,
        string_agg(
            concat_ws(':', r.reservation_key, r.state, r.close_reason, r.closed_at_ms), ' ' order by r.reservation_key))
    from ff_tap.core(ff_tap.id(p_number)) as e
    join flowfabric.ff_budget_reservation as r on r.partition_key = e.partition_key and r.execution_id = e.execution_id
    group by e.open_reservation_count
$$;
-- All three reservations of an execution closed for one reason at one time, and nothing reserved any more.
create function ff_tap.all_returned(p_number integer, p_reason text, p_at_ms bigint, p_fact text)
returns text
language sql stable
as $$
    select is(
        ff_tap.returned(p_number) || ' | ' || ff_tap.reserved(),
        format(
            '0 open, b1-10-%1$s:released:%2$s:%3$s b1-20-%1$s:released:%2$s:%3$s b2-5-%1$s:released:%2$s:%3$s'
            ' | b1 0, b2 0', p_number, p_reason, p_at_ms), p_fact)
$$;

select is(ff_tap.reserving(1), 'b1 30, b2 5', 'a lease sets amounts of two budgets aside');
select is(
    ff_tap.returned(1), '3 open, b1-10-1:open b1-20-1:open b2-5-1:open', 'and its execution counts them');
select flowfabric.ff_complete_execution(ff_tap.id(1), ff_tap.lease_id(), 1, ff_tap.attempt_id());
select ff_tap.all_returned(1, 'lease_released', 1000, 'a completion returns them');

select ff_tap.reserving(2, p_max_retries => 1);
select flowfabric.ff_fail_execution(ff_tap.id(2), ff_tap.lease_id(), 1, ff_tap.attempt_id(), 'broken');
select ff_tap.all_returned(2, 'lease_released', 1000, 'a failure with a retry returns them');
select ff_tap.reserving(3);
select flowfabric.ff_fail_execution(ff_tap.id(3), ff_tap.lease_id(), 1, ff_tap.attempt_id(), 'broken');
select ff_tap.all_returned(3, 'lease_released', 1000, 'a final failure returns them');
select ff_tap.reserving(4);
select flowfabric.ff_cancel_execution(ff_tap.id(4), 'stop', p_source => 'operator_override');
select ff_tap.all_returned(4, 'lease_released', 1000, 'a cancellation returns them');
select ff_tap.reserving(5);
select flowfabric.ff_delay_execution(ff_tap.id(5), 90000, ff_tap.lease_id(), 1, ff_tap.attempt_id());
select ff_tap.all_returned(5, 'lease_released', 1000, 'a delay returns them');
select ff_tap.reserving(6);
select flowfabric.ff_rotate_waitpoint_hmac_secret('kid-1', repeat('ab', 32), 1000);
select flowfabric.ff_suspend_execution(
    ff_tap.id(6), ff_tap.lease_id(), 1, ff_tap.attempt_id(),
    '{"Single": {"waitpoint_key": "wpk:approval", "matcher": "Wildcard"}}', 'waiting_for_signal');
select ff_tap.all_returned(6, 'lease_released', 1000, 'a suspension returns them');
select ff_tap.reserving(7, p_attempt_timeout_ms => 100);
select ff_tap.freeze_time(1100);
select flowfabric.ff_expire_execution(ff_tap.id(7), 'attempt_timeout');
select ff_tap.all_returned(7, 'lease_released', 1100, 'a timeout returns them');
select ff_tap.reserving(8);
select flowfabric.ff_complete_executions(
    array[ff_tap.id(8)], array[ff_tap.lease_id()], array[1::bigint], array[ff_tap.attempt_id()]);
select ff_tap.all_returned(8, 'lease_released', 1100, 'a completion in a batch returns them');
select ff_tap.reserving(9);
select flowfabric.ff_fail_executions(
    array[ff_tap.id(9)], array[ff_tap.lease_id()], array[1::bigint], array[ff_tap.attempt_id()], array['broken']);
select ff_tap.all_returned(9, 'lease_released', 1100, 'a failure in a batch returns them');
select ff_tap.reserving(10);
select flowfabric.ff_create_flow('00000000-0000-4000-8000-00000000006b', 'test');
select flowfabric.ff_add_execution_to_flow('00000000-0000-4000-8000-00000000006b', ff_tap.id(10));
select flowfabric.ff_cancel_flow('00000000-0000-4000-8000-00000000006b', 'stop', 'cancel_all', 0);
select ff_tap.all_returned(10, 'lease_released', 1100, 'the cancellation of a flow returns those of its members');

-- A lost lease
select ff_tap.reserving(11);
select flowfabric.ff_revoke_lease(ff_tap.id(11));
select ff_tap.all_returned(11, 'lease_revoked', 1100, 'a revocation returns them, though the execution stays active');
select flowfabric.ff_cancel_execution(ff_tap.id(11), 'stop', p_source => 'operator_override');
select ff_tap.all_returned(11, 'lease_revoked', 1100, 'once');

select ff_tap.reserving(12);
select ff_tap.freeze_time(1599);
select flowfabric.ff_scan_expired_leases();
select is(ff_tap.reserved(), 'b1 30, b2 5', 'as long as the lease lasts they are set aside');
select ff_tap.freeze_time(1600);
select is(ff_tap.reserved(), 'b1 30, b2 5', 'at its expiry they still are');
select flowfabric.ff_scan_expired_leases();
select ff_tap.all_returned(12, 'lease_expired', 1600, 'until the scanner comes by');
select flowfabric.ff_scan_expired_leases();
select ff_tap.all_returned(12, 'lease_expired', 1600, 'a second scan returns nothing more');

select ff_tap.reserving(13);
select ff_tap.freeze_time(2100);
select flowfabric.ff_mark_lease_expired_if_due(ff_tap.id(13));
select ff_tap.all_returned(13, 'lease_expired', 2100, 'the mark of one expired lease returns them');

select ff_tap.reserving(14);
select ff_tap.freeze_time(2600);
select flowfabric.ff_issue_reclaim_grant(ff_tap.id(14), 'pool', 'pool-1');
select ff_tap.all_returned(14, 'lease_expired', 2600, 'a reclaim grant before any scanner returns them');
select ff_tap.freeze_time(2700);
select flowfabric.ff_reclaim_execution(ff_tap.id(14), 'pool', 'pool-1');
select ff_tap.all_returned(14, 'lease_expired', 2600, 'and the reclaim itself nothing more');
select is((ff_tap.core(ff_tap.id(14))).ownership_state, 'leased', 'the new lease starts with nothing set aside');

-- At the cap of reclaims
select ff_tap.reserving(15);
select ff_tap.freeze_time(3200);
select is(
    (flowfabric.ff_reclaim_execution(ff_tap.id(15), 'pool', 'pool-1', p_max_reclaim_count => 0)).outcome,
        'reclaim_cap_exceeded', 'an execution that was reclaimed too often ends');
select ff_tap.all_returned(15, 'lease_expired', 3200, 'and returns them');

-- What is settled first is not returned
select ff_tap.reserving(16);
select flowfabric.ff_settle_reservation(
    'b1', 'b1-20-16', '{tokens}', '{15}', ff_tap.id(16), ff_tap.lease_id(), 1, ff_tap.attempt_id());
select flowfabric.ff_complete_execution(ff_tap.id(16), ff_tap.lease_id(), 1, ff_tap.attempt_id());
select is(
    ff_tap.returned(16),
    '0 open, b1-10-16:released:lease_released:3200 b1-20-16:settled:settled:3200 b2-5-16:released:lease_released:3200',
    'whoever wants usage booked settles first');
select is(
    (select jsonb_object_agg(u.budget_id, array[u.current_value, u.reserved_value])
    from flowfabric.ff_budget_usage as u),
    '{"b1": [15, 0], "b2": [0, 0]}', 'and the rest comes back');

-- Others keep theirs
select ff_tap.reserving(17);
select is(ff_tap.reserving(18), 'b1 60, b2 10', 'two executions set amounts aside');
select flowfabric.ff_complete_execution(ff_tap.id(17), ff_tap.lease_id(), 1, ff_tap.attempt_id());
select is(ff_tap.reserved(), 'b1 30, b2 5', 'the end of one leaves those of the other');
select is_empty(
    $$select from flowfabric.ff_check_invariants() as i where i.check_name like '%reservations'$$,
    'the sums are right');

-- Keys of closed reservations outlive their execution, not their own time
select flowfabric.ff_complete_execution(ff_tap.id(18), ff_tap.lease_id(), 1, ff_tap.attempt_id());
select flowfabric.ff_trim_retention(p_retention_ms => 0);
select is(
    (select count(*) > 0 from flowfabric.ff_budget_reservation as r
     where r.execution_id = '00000000-0000-4000-8000-000000000018'),
    true, 'a trimmed execution leaves the keys of its reservations behind');
select ff_tap.freeze_time(999999999);
select flowfabric.ff_sweep_dedup(10000);
select is(
    (select count(*) from flowfabric.ff_budget_reservation as r
     where r.execution_id in ('00000000-0000-4000-8000-000000000001', '00000000-0000-4000-8000-000000000018')),
    0::bigint, 'until they expire');

-- By key, whatever a planner thinks of tables that have a few pages when it first looks
create function ff_tap.scans(p_sql text)
returns bigint
language plpgsql volatile
as $$
declare
    c_count constant text := $count$
        select sum(t.seq_scan)::bigint from pg_catalog.pg_stat_xact_user_tables as t
        where t.schemaname = 'flowfabric'
            and t.relname in (
                'ff_exec_core', 'ff_budget_usage', 'ff_budget_usage_dedup', 'ff_budget_usage_by_exec',
                'ff_budget_reservation', 'ff_quota_window', 'ff_quota_admitted')
        $count$;
    v_before bigint;
    v_after bigint;
begin
    analyze flowfabric.ff_exec_core, flowfabric.ff_budget_usage, flowfabric.ff_budget_usage_dedup,
        flowfabric.ff_budget_usage_by_exec, flowfabric.ff_budget_reservation, flowfabric.ff_quota_window,
        flowfabric.ff_quota_admitted;
    execute c_count into v_before;
    execute p_sql;
    execute c_count into v_after;
    return v_after - v_before;
end;
$$;
select flowfabric.ff_create_quota_policy('quota', 60, 100, 100);
select flowfabric.ff_create_budget('b3', 'tenant', 'acme');
select ff_tap.execution(ff_tap.id(20), '{"quota_policy_id": "quota"}');
select is(
    ff_tap.scans(format($$select flowfabric.ff_check_admission_and_record('quota', %L)$$, ff_tap.id(20))), 0::bigint,
    'an admission reads no table from end to end');
select flowfabric.ff_issue_grant_and_claim(
    ff_tap.id(20), p_lease_ttl_ms => 30000, p_lease_id => ff_tap.lease_id(), p_attempt_id => ff_tap.attempt_id());
select is(
    ff_tap.scans(format($$
        select flowfabric.%s('b3', '{tokens}', '{1}', %s, %L, 1, %L)$$, c.function, c.arguments, ff_tap.lease_id(),
        ff_tap.attempt_id())), 0::bigint, format('nor does %s', c.function))
from (values
    ('ff_report_usage_and_check', format('%L, %L', 'key', ff_tap.id(20))),
    ('ff_record_spend', format('%L, %L', ff_tap.id(20), 'other key')),
    ('ff_reserve_budget', format('%L', ff_tap.id(20)))
) as c (function, arguments);
select flowfabric.ff_reserve_budget(
    'b3', '{tokens}', '{1}', ff_tap.id(20), ff_tap.lease_id(), 1, ff_tap.attempt_id(), 'r' || i::text)
from generate_series(1, 2) as i;
select is(
    ff_tap.scans(format($$
        select flowfabric.ff_settle_reservation('b3', 'r1', '{tokens}', '{1}', %L, %L, 1, %L)$$, ff_tap.id(20),
        ff_tap.lease_id(), ff_tap.attempt_id())), 0::bigint, 'nor does a settlement');
select is(
    ff_tap.scans(format($$
        select flowfabric.ff_release_reservation('b3', 'r2', %L, %L, 1, %L)$$, ff_tap.id(20), ff_tap.lease_id(),
        ff_tap.attempt_id())), 0::bigint, 'nor a release');
select is(
    ff_tap.scans(format($$
        select flowfabric.ff_complete_execution(%L, %L, 1, %L)$$, ff_tap.id(20), ff_tap.lease_id(),
        ff_tap.attempt_id())), 0::bigint, 'nor a completion that returns a slot and a reservation');
select is(
    ff_tap.scans(format($$select flowfabric.ff_release_budget('b3', %L)$$, ff_tap.id(20))), 0::bigint,
    'nor giving back what was spent');

select * from finish();
rollback;
