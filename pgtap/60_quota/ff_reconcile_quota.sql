-- Reconciling quotas: slots that nothing uses come back, what no longer counts is deleted.
begin;
\ir ../helpers.sql
select plan(34);

prepare reconcile (integer) as select r.* from flowfabric.ff_reconcile_quota($1) as r;

create function ff_tap.id(p_number integer)
returns text
language sql immutable
as $$ select '{fp:86}:00000000-0000-4000-8000-' || lpad(p_number::text, 12, '0') $$;

create function ff_tap.admit(p_number integer)
returns text
language sql volatile
as $$ select a.outcome from flowfabric.ff_check_admission_and_record('quota', ff_tap.id(p_number)) as a $$;

-- By hand: the slot of an execution that ended is exactly what a correct engine never leaves behind.
create function ff_tap.hold(p_number integer)
returns void
language sql volatile
as $$
    insert into flowfabric.ff_quota_admitted as a (
        quota_policy_id, partition_key, execution_id, admitted_at_ms, expires_at_ms, slot_held)
    select 'quota', k.partition_key, k.execution_id, flowfabric.ff_now_ms(), flowfabric.ff_now_ms() + 60000, true
    from flowfabric.ff_parse_execution_id(ff_tap.id(p_number)) as k
    on conflict (quota_policy_id, partition_key, execution_id) do update set slot_held = true
$$;

create function ff_tap.held()
returns integer[]
language sql stable
as $$
    select coalesce(array_agg(right(a.execution_id::text, 12)::integer order by a.execution_id), '{}')
    from flowfabric.ff_quota_admitted as a
    where a.slot_held
$$;

select ff_tap.freeze_time(100000);
select flowfabric.ff_create_quota_policy('quota', 60, 0, 10);
select results_eq(
    'select r.* from flowfabric.ff_reconcile_quota() as r', 'values (0, 0, 0, false, 0, 0, 0)',
    'without quotas in use nothing happens');

-- One execution of each kind
select ff_tap.leased_execution(ff_tap.id(1));
select ff_tap.leased_execution(ff_tap.id(2));
select flowfabric.ff_complete_execution(ff_tap.id(2), ff_tap.lease_id(), 1, ff_tap.attempt_id());
select ff_tap.suspended_execution(ff_tap.id(3));
select ff_tap.execution(ff_tap.id(4));
select ff_tap.execution(ff_tap.id(5));
select flowfabric.ff_issue_claim_grant(ff_tap.id(5), 'pool', 'pool-1', 'default', p_grant_ttl_ms => 60000);
select ff_tap.leased_execution(ff_tap.id(7), p_lease_expires_at_ms => 100500);
select ff_tap.hold(i) from unnest(array[1, 2, 3, 4, 5, 6, 7]) as i;
select flowfabric.ff_mark_lease_expired_if_due(ff_tap.id(7)) from ff_tap.freeze_time(100500);
select is(ff_tap.held(), array[1, 2, 3, 4, 5, 6, 7], 'seven executions hold a slot');
select results_eq('execute reconcile(500)', 'values (3, 0, 0, false, 3, 0, 0)', 'three of the slots are given back');
select is(
    ff_tap.held(), array[1, 4, 5, 7],
    'those of the ended, the suspended and the missing one; what runs, may start or is to be reclaimed keeps its');
select results_eq('execute reconcile(500)', 'values (0, 0, 0, false, 0, 0, 0)', 'a repeat finds nothing');

-- Between an admission and its grant
select ff_tap.freeze_time(159999);
select flowfabric.ff_issue_claim_grant(ff_tap.id(5), 'pool', 'pool-1', 'default', p_grant_ttl_ms => 1000)
from ff_tap.freeze_time(160001);
select ff_tap.freeze_time(159999);
select results_eq(
    'execute reconcile(500)', 'values (0, 0, 0, false, 0, 0, 0)',
    'an admission younger than the longest grant may still be on its way to one');
select ff_tap.freeze_time(160000);
select results_eq(
    'execute reconcile(500)', 'values (5, 0, 0, false, 1, 0, 4)',
    'at that age it is given up; the admissions that are neither live nor held are deleted');
select is(ff_tap.held(), array[1, 5, 7], 'a live grant keeps its slot');
select is(
    (select count(*) from flowfabric.ff_quota_admitted), 3::bigint, 'what was just given up goes in the same run');
select ff_tap.freeze_time(161001);
select results_eq(
    'execute reconcile(500)', 'values (0, 0, 0, false, 0, 0, 0)',
    'in the last millisecond of a grant its slot is kept');
select ff_tap.freeze_time(161002);
select results_eq(
    'execute reconcile(500)', 'values (2, 0, 0, false, 1, 0, 1)',
    'after it the slot is given back, and a row whose guard is over goes with it');
select is(ff_tap.held(), array[1, 7], 'only active executions hold slots');

-- Garbage
delete from flowfabric.ff_quota_admitted;
delete from flowfabric.ff_quota_window;
select flowfabric.ff_create_quota_policy('long', 3600, 100, 0);
select ff_tap.freeze_time(200000);
select ff_tap.execution(ff_tap.id(i)) from generate_series(11, 16) as i;
select ff_tap.admit(i) from generate_series(11, 16) as i;
select flowfabric.ff_check_admission_and_record('long', ff_tap.id(11));
update flowfabric.ff_quota_admitted as a set slot_held = false where a.quota_policy_id = 'long' or a.execution_id
    in (select k.execution_id from generate_series(12, 16) as i, flowfabric.ff_parse_execution_id(ff_tap.id(i)) as k);
select ff_tap.freeze_time(259999);
select results_eq('execute reconcile(500)', 'values (0, 0, 0, false, 0, 0, 0)', 'what still counts stays');
select ff_tap.freeze_time(260000);
select results_eq('execute reconcile(4)', 'values (4, 0, 0, true, 1, 3, 0)',
    'slots first, then entries: a full batch says so');
select results_eq('execute reconcile(4)', 'values (4, 0, 0, true, 0, 3, 1)',
    'the rest of the entries, then admissions');
select results_eq('execute reconcile(500)', 'values (5, 0, 0, false, 0, 0, 5)', 'and the rest of those');
select is(
    (select string_agg(w.quota_policy_id, ' ') from flowfabric.ff_quota_window as w), 'long' collate "C",
        'a longer window keeps its entry');
select is(
    (select string_agg(a.quota_policy_id, ' ') from flowfabric.ff_quota_admitted as a), 'long' collate "C",
        'and its guard');

-- The oldest first, and no more than asked for
delete from flowfabric.ff_quota_admitted;
delete from flowfabric.ff_quota_window;
select ff_tap.freeze_time(300000);
select ff_tap.hold(2);
select ff_tap.freeze_time(300001);
select ff_tap.hold(3);
select results_eq('execute reconcile(1)', 'values (1, 0, 0, true, 1, 0, 0)', 'one at a time if asked');
select is(ff_tap.held(), array[3], 'the longest admitted first');
select results_eq('execute reconcile(2)', 'values (1, 0, 0, false, 1, 0, 0)', 'then the next');

-- The same execution under two policies
select ff_tap.hold(2);
insert into flowfabric.ff_quota_admitted
select 'long', a.partition_key, a.execution_id, a.admitted_at_ms, a.expires_at_ms, true
from flowfabric.ff_quota_admitted as a
where a.execution_id = '00000000-0000-4000-8000-000000000002';
select results_eq('execute reconcile(500)', 'values (2, 0, 0, false, 2, 0, 0)', 'each policy gets its slot back');

-- A failing item
create function ff_tap.refuse() returns trigger language plpgsql
as $$ begin raise exception 'this one is poisoned'; end $$;
create trigger poison before update on flowfabric.ff_quota_admitted
for each row when (old.execution_id = '00000000-0000-4000-8000-000000000002') execute function ff_tap.refuse();
update flowfabric.ff_quota_admitted as a set slot_held = true
    where a.execution_id <> '00000000-0000-4000-8000-000000000002';
insert into flowfabric.ff_quota_admitted
select 'poisoned', a.partition_key, '00000000-0000-4000-8000-000000000002', 0, 900000, true
from flowfabric.ff_quota_admitted as a limit 1;
select results_eq(
    'execute reconcile(500)', 'values (1, 0, 1, false, 1, 0, 0)', 'a slot that fails does not stop the others');
select is(
    (select jsonb_build_array(f.item_key, f.failures, f.last_error)
     from flowfabric.ff_scanner_failure as f where f.scanner = 'quota'),
    jsonb_build_array(ff_tap.id(2), 1, 'P0001 this one is poisoned'), 'its failure is recorded');
select results_eq('execute reconcile(500)', 'values (0, 0, 1, false, 0, 0, 0)', 'it is tried again');
select results_eq('execute reconcile(500)', 'values (0, 0, 1, false, 0, 0, 0)', 'and a third time');
select results_eq('execute reconcile(500)', 'values (0, 0, 0, false, 0, 0, 0)', 'and then left out for a while');
drop trigger poison on flowfabric.ff_quota_admitted;
select ff_tap.freeze_time(650001);
select is((flowfabric.ff_reconcile_quota()).slots_released, 1, 'until it gets another try');
select is_empty('select from flowfabric.ff_scanner_failure', 'and a success forgets the failures');

-- Arguments
select throws_ok('execute reconcile(0)', 'ZV001', 'invalid_input', 'a limit is at least 1');
select throws_ok('execute reconcile(10001)', 'ZV001', 'invalid_input', 'a limit is at most 10000');
select is(
    ff_tap.error_of('execute reconcile(null)'),
    '{"code": "invalid_input", "fn": "ff_reconcile_quota", "field": "limit", "reason": "null"}', 'a limit is required');
select is(current_setting('lock_timeout'), '0', 'the caller keeps its own lock timeout');
select is_empty(
    $$select from flowfabric.ff_check_invariants() as i where i.check_name = 'slot_is_used'$$,
    'after a reconciliation every slot is used');

select * from finish();
rollback;
