-- Operator events: which actions write one, who acted, and the one list of types.
begin;
\ir ../helpers.sql
select plan(29);

select ff_tap.freeze_time(1000);
\set execution '{fp:86}:00000000-0000-4000-8000-000000000001'

-- The newest event, without what every event has.
create function ff_tap.newest()
returns jsonb
language sql stable
as $$
    select jsonb_build_object('type', v.event_type, 'execution', v.execution_id is not null) || (v.details - 'login')
    from flowfabric.ff_operator_event as v
    order by v.event_id desc
    limit 1
$$;

create function ff_tap.event_count()
returns bigint
language sql stable
as $$ select count(*) from flowfabric.ff_operator_event $$;

-- Executions
select ff_tap.leased_execution(:'execution');
select flowfabric.ff_cancel_execution(
    :'execution', 'mine', 'lease_holder', ff_tap.lease_id(), 1, ff_tap.attempt_id());
select is(ff_tap.event_count(), 0::bigint, 'a worker that cancels what it holds is no operator');
select flowfabric.ff_replay_execution(:'execution', 'again', 'ada');
select is(
    ff_tap.newest(),
    '{"type": "replayed", "execution": true, "branch": "normal", "replay_count": 1, "unsatisfied": 0,
      "previous_outcome": "cancelled", "result_given_up": false, "reason": "again", "requested_by": "ada"}',
    'a replay says in whose name and why');
select flowfabric.ff_issue_grant_and_claim(
    :'execution', 30000, p_worker_id => 'pool', p_worker_instance_id => 'pool-1');
select flowfabric.ff_revoke_lease(:'execution', p_reason => 'stuck');
select is(
    ff_tap.newest(),
    '{"type": "lease_revoked", "execution": true, "lease_epoch": 2, "worker_id": "pool", "worker_instance_id": "pool-1",
      "reason": "stuck"}',
    'a revocation says whose lease and why');
select flowfabric.ff_revoke_lease(:'execution', p_reason => 'stuck');
select is(ff_tap.event_count(), 2::bigint, 'a repeat that changes nothing writes none');
select flowfabric.ff_cancel_execution(:'execution', 'ordered twice', 'operator_override');
select is(
    ff_tap.newest(),
    '{"type": "cancelled", "execution": true, "source": "operator_override", "cancelled_from": "active",
      "reason": "ordered twice"}',
    'a cancellation says why');
select throws_ok(
    format($$ select flowfabric.ff_cancel_execution(%L, 'again', 'operator_override') $$, :'execution'),
    'ZC011', 'execution_not_active', 'a refusal');
select is(ff_tap.event_count(), 3::bigint, 'writes none');

-- Flows
select flowfabric.ff_create_flow('11111111-1111-1111-1111-111111111111', 'test');
select flowfabric.ff_cancel_flow(
    '11111111-1111-1111-1111-111111111111', 'wrong order', 'cancel_all', p_requester => 'ada');
select is(
    ff_tap.newest(),
    '{"type": "flow_cancel_requested", "execution": false, "cancellation_policy": "cancel_all", "reason": "wrong order",
      "requested_by": "ada", "member_count": 0}',
    'a cancelled flow says in whose name and why');

-- Budgets and quotas
select flowfabric.ff_create_budget('llm', 'tenant', 'acme', '{tokens}', '{9000}', p_reset_interval_ms => 60000);
select is(
    ff_tap.newest(),
    '{"type": "budget_created", "execution": false, "budget_id": "llm", "dimensions": ["tokens"],
      "hard_limits": [9000], "soft_limits": [0], "reset_interval_ms": 60000}',
    'a new budget says its limits');
select flowfabric.ff_create_budget('llm', 'tenant', 'acme', '{tokens}', '{1}');
select is(ff_tap.event_count(), 5::bigint, 'one that is there already writes none');
select flowfabric.ff_reset_budget('llm');
select is(
    ff_tap.newest(), '{"type": "budget_reset", "execution": false, "budget_id": "llm"}', 'a reset of a budget');
select flowfabric.ff_release_budget('llm', :'execution');
select is(ff_tap.event_count(), 6::bigint, 'where nothing was spent, nothing is released');
insert into flowfabric.ff_budget_usage_by_exec (
    budget_id, dimension, partition_key, execution_id, delta_total, updated_at_ms)
values ('llm', 'tokens', 86, right(:'execution', 36)::uuid, 7, 1000);
select flowfabric.ff_release_budget('llm', :'execution');
select is(
    ff_tap.newest(), '{"type": "budget_released", "execution": true, "budget_id": "llm"}',
    'what an execution had spent is given back');
select flowfabric.ff_create_quota_policy('provider', 60, 100, 10, 250);
select is(
    ff_tap.newest(),
    '{"type": "quota_created", "execution": false, "quota_policy_id": "provider", "window_seconds": 60,
      "max_requests_per_window": 100, "max_concurrent": 10, "jitter_ms": 250}',
    'a new quota policy says its limits');
select flowfabric.ff_create_quota_policy('provider', 60, 1, 1);
select is(ff_tap.event_count(), 8::bigint, 'one that is there already writes none');

-- Settings, scanners, keys
select flowfabric.ff_set_setting('lease_events', 0);
select is(
    ff_tap.newest(), '{"type": "setting_changed", "execution": false, "name": "lease_events", "value": 0}',
    'the first value of a setting; before it there was the default');
select flowfabric.ff_set_setting('lease_events', 0);
select is(ff_tap.event_count(), 9::bigint, 'the same value again writes none');
select flowfabric.ff_set_setting('lease_events', 1);
select is(
    ff_tap.newest(),
    '{"type": "setting_changed", "execution": false, "name": "lease_events", "previous_value": 0, "value": 1}',
    'another value');
select flowfabric.ff_set_setting('lease_events', null);
select is(
    ff_tap.newest(), '{"type": "setting_changed", "execution": false, "name": "lease_events", "previous_value": 1}',
    'and the default again');
select flowfabric.ff_set_scanner('retention', false, 1000, 7);
select is(
    ff_tap.newest(),
    '{"type": "scanner_changed", "execution": false, "scanner": "retention", "enabled": false, "interval_ms": 1000,
      "batch_limit": 7}',
    'a scanner, with what it does now');
select flowfabric.ff_set_scanner('retention', false);
select is(ff_tap.event_count(), 12::bigint, 'no change writes none');
select flowfabric.ff_seed_waitpoint_hmac_secret('k1', repeat('ab', 32));
select is(
    ff_tap.newest(), '{"type": "signing_key_installed", "execution": false, "kid": "k1"}',
    'the first signing key, without its secret');
select flowfabric.ff_rotate_waitpoint_hmac_secret('k2', repeat('cd', 32), 5000);
select is(
    ff_tap.newest(),
    '{"type": "signing_key_rotated", "execution": false, "kid": "k2", "previous_kid": "k1", "grace_ms": 5000}',
    'a rotation, without the secret');
select flowfabric.ff_seed_waitpoint_hmac_secret('k1');
select flowfabric.ff_rotate_waitpoint_hmac_secret('k2');
select is(ff_tap.event_count(), 14::bigint, 'a key that is there already writes none');

-- Who
select is(
    (select array_agg(distinct v.details ->> 'login') from flowfabric.ff_operator_event as v),
    array[session_user::text], 'every event has the login');
select is(
    (select count(*) from flowfabric.ff_operator_event as v where v.details ? 'role'), 0::bigint,
    'and no role where none was chosen');
set local role flowfabric_operator;
select flowfabric.ff_set_lane_state('default', 'paused', 'maintenance');
reset role;
select is(
    (select jsonb_build_array(v.details -> 'login', v.details -> 'role')
     from flowfabric.ff_operator_event as v order by v.event_id desc limit 1),
    jsonb_build_array(session_user, 'flowfabric_operator'), 'a role that was chosen is told beside the login');

-- The list
select set_eq(
    $$ select m.found[1]
       from pg_catalog.pg_proc as p
       cross join lateral regexp_matches(p.prosrc, '_ff_emit_operator\([^'';]*''([a-z_]+)''', 'g') as m (found)
       where p.pronamespace = 'flowfabric'::regnamespace $$,
    'select t.event_type from flowfabric._ff_operator_event_types() as t',
    'the list has every type that a function writes, and no other');
select throws_ok(
    $$ select flowfabric._ff_emit_operator(0::smallint, null, null, null, null, 'invented', '{}', 1000) $$,
    'ZB003', 'internal_error', 'a type that is not in the list is a mistake of the engine');

select * from finish();
rollback;
