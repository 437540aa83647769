-- Describing an execution: what it shows in each state, and that it shows the truth about an expired lease.
begin;
\ir ../helpers.sql
select plan(23);

select ff_tap.freeze_time(1000);
\set execution '{fp:86}:00000000-0000-4000-8000-000000000001'
\set delayed '{fp:86}:00000000-0000-4000-8000-000000000002'
\set leased '{fp:86}:00000000-0000-4000-8000-000000000003'
prepare describe (text) as select d.* from flowfabric.ff_describe_execution($1) as d;

select is_empty(format('execute describe(%L)', :'execution'), 'an unknown execution gives no row');
select throws_ok('execute describe(''x'')', 'ZV001', 'invalid_input', 'a malformed id is refused');
select throws_ok('execute describe(null)', 'ZV001', 'invalid_input', 'a missing id is refused');

select ff_tap.execution(:'execution', p_tags => '{"app.b": "2", "app.a": "1"}', p_policy =>
    '{"routing_requirements": {"required_capabilities": ["gpu", "arm"]}}');
select results_eq(
    format(
        'select execution_id, partition_key, namespace, lane_id, execution_kind, priority, public_state::text,
            lifecycle_phase::text, blocking_reason::text
        from flowfabric.ff_describe_execution(%L)', :'execution'),
    format(
        'values (%L, 86::smallint, ''default'', ''default'', ''test'', 0, ''waiting'', ''runnable'',
            ''waiting_for_worker'')', :'execution'),
    'a fresh execution waits for a worker');
select results_eq(
    format(
        'select current_attempt_id, current_attempt_index, lease_id, worker_id, lease_is_expired, flow_id,
            current_waitpoint_id, total_attempt_count, lease_epoch
        from flowfabric.ff_describe_execution(%L)', :'execution'),
    'values (null::uuid, null::integer, null::uuid, null::text, null::boolean, null::uuid, null::uuid, 0, 0::bigint)',
    'a fresh execution has no attempt, lease, flow or waitpoint');
select is(d.required_capabilities, array['arm', 'gpu'], 'capabilities are sorted')
from flowfabric.ff_describe_execution(:'execution') as d;
select is(d.budget_ids, '{}', 'no budgets are an empty list')
from flowfabric.ff_describe_execution(:'execution') as d;
select is(d.tags, '{"app.a": "1", "app.b": "2"}', 'both tags come back')
from flowfabric.ff_describe_execution(:'execution') as d;
select is(d.has_result, false, 'it has no result yet') from flowfabric.ff_describe_execution(:'execution') as d;
select is(d.created_at_ms, 1000::bigint, 'created by the clock of the engine')
from flowfabric.ff_describe_execution(:'execution') as d;

select ff_tap.execution(:'delayed', p_delay_until_ms => 5000);
select results_eq(
    format(
        'select public_state::text, blocking_reason::text, delay_until_ms from flowfabric.ff_describe_execution(%L)',
        :'delayed'),
    'values (''delayed'', ''waiting_for_delay'', 5000::bigint)', 'a delayed execution says until when');

select ff_tap.leased_execution(:'leased', p_lease_expires_at_ms => 1500);
select results_eq(
    format(
        'select current_attempt_index, current_attempt_id, lease_id, lease_epoch, worker_id, worker_instance_id,
            lease_expires_at_ms, lease_is_expired
        from flowfabric.ff_describe_execution(%L)', :'leased'),
    'values (0, ff_tap.attempt_id(), ff_tap.lease_id(), 1::bigint, ''worker'', ''worker-1'', 1500::bigint, false)',
    'a claimed execution names its attempt and its owner');
select ff_tap.freeze_time(1499);
select is(d.lease_is_expired, false, 'a lease lives until the instant before its expiry')
from flowfabric.ff_describe_execution(:'leased') as d;
select ff_tap.freeze_time(1500);
select is(d.lease_is_expired, true, 'a lease is over at its expiry, before any scanner has marked it')
from flowfabric.ff_describe_execution(:'leased') as d;
select is(d.ownership_state::text, 'leased', 'the stored state is shown as it is')
from flowfabric.ff_describe_execution(:'leased') as d;

select flowfabric.ff_revoke_lease(:'leased', p_reason => 'maintenance');
select is(d.lease_revoke_reason, 'maintenance', 'a revoked lease says why')
from flowfabric.ff_describe_execution(:'leased') as d;
select is(d.worker_id, 'worker', 'a revoked lease still names its lost owner')
from flowfabric.ff_describe_execution(:'leased') as d;
select flowfabric.ff_cancel_execution(:'leased', 'enough', 'operator_override');
select results_eq(
    format(
        'select public_state::text, cancellation_reason, cancelled_by, terminal_at_ms, lease_id, lease_is_expired
        from flowfabric.ff_describe_execution(%L)', :'leased'),
    'values (''cancelled'', ''enough'', ''operator_override'', 1500::bigint, null::uuid, null::boolean)',
    'an ended execution says how and has no lease');
select is(d.lease_epoch, 1::bigint, 'the last epoch stays') from flowfabric.ff_describe_execution(:'leased') as d;

select ff_tap.leased_execution('{fp:86}:00000000-0000-4000-8000-000000000004');
select flowfabric.ff_update_progress(
    '{fp:86}:00000000-0000-4000-8000-000000000004', ff_tap.lease_id(), 1, ff_tap.attempt_id(), 40, 'half way');
select results_eq(
    'select progress_pct, progress_message, progress_updated_at_ms
    from flowfabric.ff_describe_execution(''{fp:86}:00000000-0000-4000-8000-000000000004'')',
    'values (40::smallint, ''half way'', 1500::bigint)', 'progress is shown');
select flowfabric.ff_complete_execution(
    '{fp:86}:00000000-0000-4000-8000-000000000004', ff_tap.lease_id(), 1, ff_tap.attempt_id(), '\x00ff');
select is(d.has_result, true, 'a result is announced, not shown')
from flowfabric.ff_describe_execution('{fp:86}:00000000-0000-4000-8000-000000000004') as d;
select is(d.started_at_ms, 1500::bigint, 'the first claim is remembered')
from flowfabric.ff_describe_execution('{fp:86}:00000000-0000-4000-8000-000000000004') as d;
select is(d.current_attempt_index, 0, 'the last attempt stays the current one after the end')
from flowfabric.ff_describe_execution('{fp:86}:00000000-0000-4000-8000-000000000004') as d;
select * from finish();
rollback;
