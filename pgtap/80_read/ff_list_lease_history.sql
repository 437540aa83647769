-- The lease events of one execution.
begin;
\ir ../helpers.sql
select plan(6);

select ff_tap.freeze_time(1000);
\set execution '{fp:86}:00000000-0000-4000-8000-000000000001'
\set other '{fp:86}:00000000-0000-4000-8000-000000000002'
select is_empty(
    format('select flowfabric.ff_list_lease_history(%L)', :'execution'), 'an unknown execution has no history');
select ff_tap.leased_execution(:'execution', p_lease_expires_at_ms => 1500);
select ff_tap.leased_execution(:'other');
select ff_tap.freeze_time(1500);
select flowfabric.ff_mark_lease_expired_if_due(:'execution');
select flowfabric.ff_cancel_execution(:'execution', 'x', 'operator_override');
select results_eq(
    format(
        'select event_type, reason, lease_epoch, attempt_index, worker_id, occurred_at_ms
        from flowfabric.ff_list_lease_history(%L)', :'execution'),
    $want$values
        ('acquired', 'issue_grant_and_claim', 1::bigint, 0, 'worker', 1000::bigint),
        ('expired', null, 1, 0, 'worker', 1500),
        ('released', 'cancelled', 1, 0, 'worker', 1500)$want$,
    'every change of ownership is there, in order, and nobody else''s');
select is(count(*), 2::bigint, 'a page starts behind its cursor')
from flowfabric.ff_list_lease_history(:'execution', (
    select min(h.event_id) from flowfabric.ff_list_lease_history(:'execution') as h));
select is(bool_and(h.has_more), true, 'a full page says that there is more')
from flowfabric.ff_list_lease_history(:'execution', null, 2) as h;
select throws_ok(
    format('select flowfabric.ff_list_lease_history(%L, null, -1)', :'execution'), 'ZV001', 'invalid_input',
    'a negative limit is refused');
select throws_ok(
    'select flowfabric.ff_list_lease_history(''{fp:86}:'')', 'ZV001', 'invalid_input', 'a malformed id is refused');
select * from finish();
rollback;
