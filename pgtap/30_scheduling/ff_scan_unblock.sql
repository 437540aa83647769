-- Unblocking: executions come back when their cause is gone, nobody stands in front of anybody else.
begin;
\ir ../helpers.sql
select plan(53);

prepare scan (integer) as select s.* from flowfabric.ff_scan_unblock($1) as s;

create function ff_tap.id(p_number integer)
returns text
language sql immutable
as $$ select '{fp:86}:00000000-0000-4000-8000-' || lpad(p_number::text, 12, '0') $$;

create function ff_tap.blocked_execution(
    p_number integer, p_reason text, p_policy jsonb default null, p_lane_id text default 'default',
    p_namespace text default 'default', p_priority integer default 0)
returns text
language sql volatile
as $$
    select (flowfabric.ff_block_execution_for_admission(
        ff_tap.execution(ff_tap.id(p_number), p_policy, p_lane_id, p_namespace, p_priority), p_reason,
        'detail')).outcome
$$;

create function ff_tap.eligible()
returns integer[]
language sql stable
as $$
    select coalesce(array_agg(right(e.execution_id::text, 12)::integer order by e.execution_id), '{}')
    from flowfabric.ff_exec_core as e
    where e.eligibility_state = 'eligible_now'
$$;

create function ff_tap.spend(p_budget_id text, p_amount bigint)
returns flowfabric.ff_usage_report
language sql volatile
as $$
    select r.*
    from flowfabric.ff_report_usage_and_check(
        p_budget_id, '{tokens}', array[p_amount], p_source => 'operator_override') as r
$$;

-- Each section starts with an empty queue.
create function ff_tap.clear()
returns void
language sql volatile
as $$
    select flowfabric.ff_cancel_execution(
        flowfabric.ff_format_execution_id(e.partition_key, e.execution_id), 'clear', p_source => 'operator_override')
    from flowfabric.ff_exec_core as e
    where e.lifecycle_phase <> 'terminal'
$$;

select ff_tap.freeze_time(1000);
select results_eq(
    'select s.* from flowfabric.ff_scan_unblock() as s', 'values (0, 0, 0, false, 0, 0, 0, 0)',
    'without blocked executions nothing happens');

-- Budgets
select flowfabric.ff_create_budget('spent', 'tenant', 'a', '{tokens}', '{10}', '{0}');
select flowfabric.ff_create_budget('rich', 'tenant', 'b', '{tokens}', '{10}', '{0}');
select ff_tap.spend('spent', 10), ff_tap.spend('rich', 10);
select ff_tap.blocked_execution(i, 'waiting_for_budget', '{"budget_ids": ["spent"]}', p_priority => 9)
from generate_series(1, 30) as i;
select ff_tap.blocked_execution(31, 'waiting_for_budget', '{"budget_ids": ["rich"]}');
select ff_tap.blocked_execution(32, 'waiting_for_budget', '{"budget_ids": ["rich"]}', p_priority => 1);
select ff_tap.blocked_execution(33, 'waiting_for_budget', '{"budget_ids": ["rich", "spent"]}');
select ff_tap.blocked_execution(34, 'waiting_for_budget');
select results_eq(
    'execute scan(2)', 'values (1, 0, 0, false, 1, 0, 0, 0)',
    'of those that wait for exhausted budgets none comes back; one that waits for none does');
select is(ff_tap.eligible(), array[34], 'and it is that one');
select ff_tap.freeze_time(2000);
select flowfabric.ff_reset_budget('rich');
select results_eq(
    'execute scan(1)', 'values (1, 0, 0, true, 1, 0, 0, 0)',
    'thirty that wait for an exhausted budget do not stand in front of another budget');
select is(ff_tap.eligible(), array[32, 34], 'whose executions come in queue order');
select is(
    ff_tap.vector(ff_tap.id(32)),
    'runnable / unowned / eligible_now / waiting_for_worker / none / pending_first_attempt -> waiting',
    'an execution that comes back is eligible');
select is(
    (select jsonb_build_array(e.blocked_at_ms, e.blocking_detail, e.last_transition_at_ms, e.last_mutation_at_ms)
     from ff_tap.core(ff_tap.id(32)) as e),
    '[null, null, 2000, 2000]'::jsonb, 'and blocked no longer');
select results_eq(
    'execute scan(100)', 'values (1, 0, 0, false, 1, 0, 0, 0)', 'all of its budgets must have room');
select is(ff_tap.eligible(), array[31, 32, 34], 'one of two is not enough');
select flowfabric.ff_reset_budget('spent');
select results_eq('execute scan(100)', 'values (31, 0, 0, false, 31, 0, 0, 0)', 'after a reset all come back');
select ff_tap.clear();

-- What is set aside counts
select ff_tap.leased_execution(ff_tap.id(40));
select flowfabric.ff_reserve_budget(
    'spent', '{tokens}', '{10}', ff_tap.id(40), ff_tap.lease_id(), 1, ff_tap.attempt_id(), 'r');
select ff_tap.blocked_execution(41, 'waiting_for_budget', '{"budget_ids": ["spent"]}');
select is((flowfabric.ff_scan_unblock()).budget, 0, 'a budget that is all set aside is exhausted');
select flowfabric.ff_complete_execution(ff_tap.id(40), ff_tap.lease_id(), 1, ff_tap.attempt_id());
select is((flowfabric.ff_scan_unblock()).budget, 1, 'until it comes back');
select ff_tap.clear();

-- Quotas: the cap
select ff_tap.freeze_time(100000);
select flowfabric.ff_create_quota_policy('cap', 0, 0, 2);
select ff_tap.execution(ff_tap.id(i), '{"quota_policy_id": "cap"}') from generate_series(51, 52) as i;
select flowfabric.ff_check_admission_and_record('cap', ff_tap.id(i)) from generate_series(51, 52) as i;
select flowfabric.ff_issue_grant_and_claim(ff_tap.id(i), p_lease_ttl_ms => 30000) from generate_series(51, 52) as i;
select ff_tap.blocked_execution(
    i, 'waiting_for_quota', '{"quota_policy_id": "cap"}', p_priority => case when i = 58 then 5 else 0 end)
from generate_series(53, 62) as i;
select results_eq('execute scan(100)', 'values (0, 0, 0, false, 0, 0, 0, 0)', 'a full cap lets nobody back');
select flowfabric.ff_cancel_execution(ff_tap.id(51), 'stop', p_source => 'operator_override');
select results_eq(
    'execute scan(100)', 'values (1, 0, 0, false, 0, 1, 0, 0)', 'one free slot lets one of ten back');
select is(ff_tap.eligible(), array[58], 'the first in the queue');
select ff_tap.clear();

-- Quotas: the rate
select flowfabric.ff_create_quota_policy('rate', 60, 3, 0);
select ff_tap.execution(ff_tap.id(71), '{"quota_policy_id": "rate"}');
select flowfabric.ff_check_admission_and_record('rate', ff_tap.id(71));
select ff_tap.blocked_execution(i, 'waiting_for_quota', '{"quota_policy_id": "rate"}') from generate_series(72,
    76) as i;
select results_eq(
    'execute scan(100)', 'values (2, 0, 0, false, 0, 2, 0, 0)', 'as many come back as there are tokens');
select is(ff_tap.eligible(), array[71, 72, 73], 'the first in the queue');
select flowfabric.ff_check_admission_and_record('rate', ff_tap.id(i)) from generate_series(72, 73) as i;
select is((flowfabric.ff_scan_unblock()).quota, 0, 'a rate that is used up lets nobody back');
select ff_tap.freeze_time(159999);
select is((flowfabric.ff_scan_unblock()).quota, 0, 'until the window has moved on');
select ff_tap.freeze_time(160000);
select is((flowfabric.ff_scan_unblock()).quota, 3, 'an entry that is one window old is a token again');
select ff_tap.clear();

-- Quotas: both, and what is paid for
select flowfabric.ff_create_quota_policy('both', 60, 1, 1);
select ff_tap.execution(ff_tap.id(81), '{"quota_policy_id": "both"}');
select flowfabric.ff_check_admission_and_record('both', ff_tap.id(81));
select flowfabric._ff_release_quota_slot(k.partition_key, k.execution_id)
from flowfabric.ff_parse_execution_id(ff_tap.id(81)) as k;
select flowfabric.ff_block_execution_for_admission(ff_tap.id(81), 'waiting_for_quota');
select ff_tap.blocked_execution(82, 'waiting_for_quota', '{"quota_policy_id": "both"}', p_priority => 9);
select results_eq(
    'execute scan(100)', 'values (1, 0, 0, false, 0, 1, 0, 0)',
    'while the rate is used up, an execution that has paid needs a slot only');
select is(ff_tap.eligible(), array[81], 'and does not stand behind one that has not');
select is((flowfabric.ff_scan_unblock()).quota, 0, 'the other one waits for its token');
select flowfabric.ff_check_admission_and_record('both', ff_tap.id(81));
select ff_tap.freeze_time(220000);
select is((flowfabric.ff_scan_unblock()).quota, 0, 'and for its slot');
select flowfabric.ff_release_admission('both', ff_tap.id(81));
select is((flowfabric.ff_scan_unblock()).quota, 1, 'with both it comes back');
select ff_tap.clear();

-- Quotas: none
select flowfabric.ff_create_quota_policy('open', 0, 0, 0);
select ff_tap.blocked_execution(i, 'waiting_for_quota', '{"quota_policy_id": "open"}') from generate_series(91,
    95) as i;
select ff_tap.blocked_execution(i, 'waiting_for_quota') from generate_series(96, 98) as i;
select ff_tap.blocked_execution(99, 'waiting_for_quota', '{"quota_policy_id": "cap"}');
update flowfabric.ff_exec_core as e set quota_policy_id = 'deleted'
    where e.execution_id = '00000000-0000-4000-8000-000000000099';
select results_eq(
    'execute scan(100)', 'values (9, 0, 0, false, 0, 9, 0, 0)',
    'all come back of a policy that limits nothing, is missing, or was never there');
select ff_tap.clear();

-- Workers
select ff_tap.freeze_time(300000);
select ff_tap.blocked_execution(
    101, 'waiting_for_capable_worker', '{"routing_requirements": {"required_capabilities": ["gpu", "torch"]}}',
    'lane-1', 'n1');
select flowfabric.ff_register_worker('pool', 'gpu-only', '{lane-1}', '{gpu}', 'n1');
select flowfabric.ff_register_worker('pool', 'torch-only', '{lane-1}', '{torch}', 'n1');
select is((flowfabric.ff_scan_unblock()).route, 0, 'two workers that have half each are not enough');
select flowfabric.ff_register_worker('pool', 'elsewhere', '{lane-1}', '{gpu,torch}', 'n2');
select is((flowfabric.ff_scan_unblock()).route, 0, 'nor is one of another namespace');
select flowfabric.ff_register_worker('pool', 'other-lane', '{lane-2}', '{gpu,torch}', 'n1');
select is((flowfabric.ff_scan_unblock()).route, 0, 'nor one of another lane');
select flowfabric.ff_register_worker('pool', 'draining', '{lane-1}', '{gpu,torch}', 'n1');
select flowfabric.ff_drain_worker('draining', p_namespace => 'n1');
select is((flowfabric.ff_scan_unblock()).route, 0, 'nor one that drains');
select flowfabric.ff_register_worker('pool', 'lapsed', '{lane-1}', '{gpu,torch}', 'n1', 1000);
select ff_tap.freeze_time(301000);
select is((flowfabric.ff_scan_unblock()).route, 0, 'nor one whose time ran out at this instant');
select flowfabric.ff_register_worker('pool', 'right', '{lane-0,lane-1}', '{cpu,gpu,torch}', 'n1');
select results_eq(
    'execute scan(100)', 'values (1, 0, 0, false, 0, 0, 1, 0)', 'a single live worker of the lane that has all is');
select ff_tap.blocked_execution(102, 'waiting_for_capable_worker', null, 'lane-9', 'n9');
select is((flowfabric.ff_scan_unblock()).route, 1, 'without requirements no worker is waited for');
select ff_tap.clear();

-- Lanes
select ff_tap.blocked_execution(111, 'paused_by_policy', null, 'lane-a');
select ff_tap.blocked_execution(112, 'paused_by_policy', null, 'lane-b');
update flowfabric.ff_lane_registry as l set lane_state = 'paused' where l.lane_id in ('lane-a', 'lane-b');
select is((flowfabric.ff_scan_unblock()).lane, 0, 'a paused lane lets nobody back');
update flowfabric.ff_lane_registry as l set lane_state = 'disabled' where l.lane_id = 'lane-a';
select is((flowfabric.ff_scan_unblock()).lane, 0, 'nor does a disabled one');
update flowfabric.ff_lane_registry as l set lane_state = 'draining' where l.lane_id = 'lane-a';
select results_eq('execute scan(100)', 'values (1, 0, 0, false, 0, 0, 0, 1)', 'a draining lane serves');
update flowfabric.ff_lane_registry as l set lane_state = 'active' where l.lane_id = 'lane-b';
select is((flowfabric.ff_scan_unblock()).lane, 1, 'and so does an active one');
select ff_tap.clear();

-- What only people lift
select ff_tap.blocked_execution(121, 'paused_by_operator');
select ff_tap.execution(ff_tap.id(122));
select flowfabric._ff_become_blocked(
    ff_tap.core(ff_tap.id(122)), 'blocked_by_operator', 'paused_by_flow_cancel', null, 'pending_first_attempt', null,
    1000);
select is((flowfabric.ff_scan_unblock()).processed, 0, 'the pauses of an operator and of a flow cancel stay');
select is(ff_tap.eligible(), '{}'::integer[], 'for ever');
select ff_tap.clear();

-- A retry stays a retry
select ff_tap.leased_execution(ff_tap.id(131), '{"retry_policy": {"max_retries": 1}}');
select flowfabric.ff_fail_execution(ff_tap.id(131), ff_tap.lease_id(), 1, ff_tap.attempt_id(), 'broken');
select ff_tap.freeze_time(400000);
select flowfabric.ff_promote_delayed(ff_tap.id(131));
select flowfabric.ff_block_execution_for_admission(ff_tap.id(131), 'waiting_for_budget');
select flowfabric.ff_scan_unblock();
select is(
    (ff_tap.core(ff_tap.id(131))).attempt_state, 'pending_retry_attempt', 'what the next claim must do is kept');
select ff_tap.clear();

-- Turns
select ff_tap.blocked_execution(200 + i, 'waiting_for_budget') from generate_series(1, 20) as i;
select ff_tap.blocked_execution(300 + i, 'waiting_for_quota', '{"quota_policy_id": "open"}')
from generate_series(1, 20) as i;
select ff_tap.blocked_execution(340, 'waiting_for_quota', '{"quota_policy_id": "rate"}');
select ff_tap.blocked_execution(400 + i, 'waiting_for_capable_worker') from generate_series(1, 20) as i;
select ff_tap.blocked_execution(500 + i, 'paused_by_policy') from generate_series(1, 20) as i;
select results_eq(
    'execute scan(8)', 'values (8, 0, 0, true, 2, 2, 2, 2)', 'the four causes share a batch');
select is(
    ff_tap.eligible(), array[201, 202, 301, 340, 401, 402, 501, 502],
    'each in queue order, and the policies of quotas take turns');
select results_eq(
    'execute scan(100)', 'values (73, 0, 0, false, 18, 19, 18, 18)', 'nothing is left behind');
select ff_tap.clear();

-- A failing item
create function ff_tap.refuse() returns trigger language plpgsql
as $$ begin raise exception 'this one is poisoned'; end $$;
create trigger poison before update on flowfabric.ff_exec_core
for each row when (
    old.execution_id = '00000000-0000-4000-8000-000000000601' and old.eligibility_state = 'blocked_by_quota')
execute function ff_tap.refuse();
select ff_tap.blocked_execution(601, 'waiting_for_quota', '{"quota_policy_id": "cap"}');
select ff_tap.execution(ff_tap.id(600), '{"quota_policy_id": "cap"}');
select flowfabric.ff_check_admission_and_record('cap', ff_tap.id(600));
select ff_tap.blocked_execution(602, 'waiting_for_quota', '{"quota_policy_id": "cap"}');
select ff_tap.blocked_execution(603, 'waiting_for_budget');
select results_eq(
    'execute scan(100)', 'values (1, 0, 1, false, 1, 0, 0, 0)', 'an execution that fails does not stop the others');
select is(
    (select jsonb_build_array(f.scanner, f.item_key, f.failures, f.last_error) from flowfabric.ff_scanner_failure as f),
    jsonb_build_array('unblock', ff_tap.id(601), 1, 'P0001 this one is poisoned'), 'its failure is recorded');
select flowfabric.ff_scan_unblock();
select flowfabric.ff_scan_unblock();
select results_eq(
    'execute scan(100)', 'values (1, 0, 0, false, 0, 1, 0, 0)',
    'after the third it no longer takes the place of the next');
select is(602 = any (ff_tap.eligible()), true, 'which comes back');
drop trigger poison on flowfabric.ff_exec_core;
select flowfabric.ff_check_admission_and_record('cap', ff_tap.id(602));
select flowfabric.ff_release_admission('cap', ff_tap.id(602));
select ff_tap.freeze_time(1000000);
select is((flowfabric.ff_scan_unblock()).quota, 1, 'after its pause it gets a try');
select is_empty('select from flowfabric.ff_scanner_failure', 'and a success forgets the failures');

-- Refusals
select throws_ok('execute scan(0)', 'ZV001', 'invalid_input', 'a limit is at least 1');
select throws_ok('execute scan(10001)', 'ZV001', 'invalid_input', 'a limit is at most 10000');
select is(
    ff_tap.error_of('execute scan(null)'),
    '{"code": "invalid_input", "fn": "ff_scan_unblock", "field": "limit", "reason": "null"}', 'a limit is required');
select is(current_setting('lock_timeout'), '0', 'the caller keeps its own lock timeout');

select * from finish();
rollback;
