-- Sweeping grants: expired ones go, live ones stay, and a slot that was taken in vain is free again.
begin;
\ir ../helpers.sql
select plan(19);

select ff_tap.freeze_time(1000);
\set first '{fp:86}:00000000-0000-4000-8000-000000000001'
\set second '{fp:86}:00000000-0000-4000-8000-000000000002'
\set third '{fp:86}:00000000-0000-4000-8000-000000000003'
\set lost '{fp:86}:00000000-0000-4000-8000-000000000004'
select ff_tap.execution(:'first'), ff_tap.execution(:'second'), ff_tap.execution(:'third');
select ff_tap.leased_execution(:'lost', p_lease_expires_at_ms => 1001);
select flowfabric.ff_issue_claim_grant(:'first', 'pool', 'pool-1', 'default', p_grant_ttl_ms => 300);
select flowfabric.ff_issue_claim_grant(:'second', 'pool', 'pool-1', 'default', p_grant_ttl_ms => 200);
select flowfabric.ff_issue_claim_grant(:'third', 'pool', 'pool-1', 'default', p_grant_ttl_ms => 900);
select ff_tap.freeze_time(1001);
select flowfabric.ff_issue_reclaim_grant(:'lost', 'pool', 'pool-1', p_grant_ttl_ms => 299);

-- Three of the four hold a quota slot.
insert into flowfabric.ff_quota_admitted (
    quota_policy_id, partition_key, execution_id, admitted_at_ms, expires_at_ms, slot_held)
select 'quota', k.partition_key, k.execution_id, 1000, 2000, true
from unnest(array[:'first', :'third', :'lost']) as e (id), flowfabric.ff_parse_execution_id(e.id) as k;
update flowfabric.ff_exec_core as e set quota_policy_id = 'quota'
where e.execution_id in (select q.execution_id from flowfabric.ff_quota_admitted as q);
create temporary view granted as
select flowfabric.ff_format_execution_id(g.partition_key, g.execution_id) as execution_id
from flowfabric.ff_claim_grant as g;
create temporary view holding as
select flowfabric.ff_format_execution_id(q.partition_key, q.execution_id) as execution_id
from flowfabric.ff_quota_admitted as q where q.slot_held;

select ff_tap.freeze_time(1200);
select is(flowfabric.ff_sweep_expired_grants(), 0, 'a grant that is in its last millisecond is not swept');
select ff_tap.freeze_time(1301);
select is(flowfabric.ff_sweep_expired_grants(1), 1, 'no more are swept than asked for');
select bag_eq(
    'select g.execution_id from granted as g',
    array[:'first', :'third', :'lost'], 'the longest expired grant goes first');
select is(flowfabric.ff_sweep_expired_grants(), 2, 'the sweep says how many it deleted');
select bag_eq('select g.execution_id from granted as g', array[:'third'], 'a live grant stays');
select bag_eq(
    'select h.execution_id from holding as h', array[:'third', :'lost'],
    'the slot taken for a claim that never came is free; that of a lost lease is still held');
select is(
    ff_tap.vector(:'first'),
    'runnable / unowned / eligible_now / waiting_for_worker / none / pending_first_attempt -> waiting',
    'the execution of a swept grant stays as it is');
select is(flowfabric.ff_sweep_expired_grants(), 0, 'a second sweep finds nothing');
select lives_ok(
    format($$select flowfabric.ff_issue_claim_grant(%L, 'pool', 'pool-1', 'default')$$, :'first'),
    'after the sweep the execution can be granted again');

-- Admitted again while an expired grant is still stored: the slot belongs to the grant that follows
\set again '{fp:86}:00000000-0000-4000-8000-000000000005'
select flowfabric.ff_create_quota_policy('one', 60, 0, 1);
select ff_tap.execution(:'again', '{"quota_policy_id": "one"}');
create temporary view slot as
select q.admitted_at_ms, q.slot_held
from flowfabric.ff_quota_admitted as q
where q.quota_policy_id = 'one';
select ff_tap.freeze_time(5000);
select flowfabric.ff_sweep_expired_grants();
select flowfabric.ff_check_admission_and_record('one', :'again');
select flowfabric.ff_issue_claim_grant(:'again', 'pool', 'pool-1', 'default', p_grant_ttl_ms => 100);
select ff_tap.freeze_time(5101);
select is(
    (flowfabric.ff_check_admission_and_record('one', :'again')).outcome, 'already_admitted',
    'a scheduler that comes back after the grant expired is admitted already');
select results_eq('table slot', 'values (5101::bigint, true)', 'as of now');
select is(flowfabric.ff_sweep_expired_grants(), 1, 'the sweep deletes the old grant');
select results_eq('table slot', 'values (5101::bigint, true)', 'and leaves the slot to the new admission');
select flowfabric.ff_issue_claim_grant(:'again', 'pool', 'pool-1', 'default', p_grant_ttl_ms => 100);
select is(flowfabric.ff_sweep_expired_grants(), 0, 'the new grant is live');
select ff_tap.freeze_time(5202);
select is(flowfabric.ff_sweep_expired_grants(), 1, 'when it expires too');
select results_eq('table slot', 'values (5101::bigint, false)',
    'the slot is given back: it was admitted for this grant');
select is(
    (select q.active_concurrency from flowfabric.ff_get_quota_policy('one') as q), 0::bigint,
    'and the cap has room again');

-- Arguments
select throws_ok(
    'select flowfabric.ff_sweep_expired_grants(0)', 'ZV001', 'invalid_input', 'a limit is at least 1');
select is(
    (select array_agg(ff_tap.error_of(format('select flowfabric.ff_sweep_expired_grants(%L)', b.n)) - 'code'
        order by b.number)
     from (values (1, -1), (2, 10001), (3, null)) as b (number, n)),
    array[
        '{"fn": "ff_sweep_expired_grants", "field": "limit", "reason": "out_of_range", "value": "-1"}',
        '{"fn": "ff_sweep_expired_grants", "field": "limit", "reason": "out_of_range", "value": "10001"}',
        '{"fn": "ff_sweep_expired_grants", "field": "limit", "reason": "null"}']::jsonb[],
    'and at most 10000');

select * from finish();
rollback;
