-- The state of an execution in upstream's shape.
begin;
\ir ../helpers.sql
select plan(6);

select ff_tap.freeze_time(1000);
\set execution '{fp:86}:00000000-0000-4000-8000-000000000001'
prepare info as
select current_attempt_index, total_attempt_count, retry_count, started_at_ms, public_state::text, terminal_outcome::text
from flowfabric.ff_read_execution_info(:'execution');

select is_empty('execute info', 'an unknown execution gives no row');
select throws_ok(
    'select flowfabric.ff_read_execution_info(''{fp:86}:x'')', 'ZV001', 'invalid_input', 'a malformed id is refused');
select ff_tap.leased_execution(
    :'execution', p_policy => '{"retry_policy": {"max_retries": 1, "backoff": {"type": "fixed", "delay_ms": 10}}}');
select results_eq(
    'execute info', 'values (0, 1, 0, 1000::bigint, ''active'', ''none'')', 'the first attempt has index 0');
select flowfabric.ff_fail_execution(:'execution', ff_tap.lease_id(), 1, ff_tap.attempt_id(), 'broken');
select is(i.failure_reason, 'broken', 'the last failure is named')
from flowfabric.ff_read_execution_info(:'execution') as i;
select ff_tap.freeze_time(2000);
select flowfabric.ff_promote_delayed(:'execution');
select flowfabric.ff_issue_grant_and_claim(
    :'execution', 30000, p_lease_id => ff_tap.lease_id(), p_attempt_id => ff_tap.attempt_id());
select results_eq(
    'execute info', 'values (1, 2, 1, 1000::bigint, ''active'', ''none'')',
    'the second attempt has index 1, and the first claim''s time stays');
select flowfabric.ff_complete_execution(:'execution', ff_tap.lease_id(), 2, ff_tap.attempt_id());
select results_eq(
    'execute info', 'values (1, 2, 1, 1000::bigint, ''completed'', ''success'')', 'the outcome is stored, not guessed');
select * from finish();
rollback;
