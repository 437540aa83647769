-- Changing a setting: known names, ranges, and the way back.
begin;
\ir ../helpers.sql
select plan(40);

delete from flowfabric.ff_setting where name not like 'test\_clock%';
prepare set_setting (text, bigint) as select outcome, previous_value from flowfabric.ff_set_setting($1, $2);

select results_eq(
    $$ execute set_setting('max_sync_depth', 7) $$, $$ values ('changed', null::bigint) $$,
    'a first value changes the setting; null stands for the default before it');
select is(flowfabric._ff_setting_value('max_sync_depth'), 7::bigint, 'the engine uses it');
select results_eq(
    $$ execute set_setting('max_sync_depth', 7) $$, $$ values ('unchanged', 7::bigint) $$,
    'the same value is unchanged');
select results_eq(
    $$ execute set_setting('max_sync_depth', 8) $$, $$ values ('changed', 7::bigint) $$,
    'another value is reported with the one before');
select results_eq(
    $$ execute set_setting('max_sync_depth', null) $$, $$ values ('changed', 8::bigint) $$,
    'null puts the setting back to its default');
select is(flowfabric._ff_setting_value('max_sync_depth'), 50::bigint, 'which is in force again');
select results_eq(
    $$ execute set_setting('max_sync_depth', null) $$, $$ values ('unchanged', null::bigint) $$,
    'a setting at its default stays there');
select results_eq(
    $$ execute set_setting('max_sync_depth', 50) $$, $$ values ('changed', null::bigint) $$,
    'the default itself can be set, and then stays when the default changes');

-- The copies that the hot path reads

prepare copies as select c.lease_events, c.claim_floor_recheck_ms from flowfabric.ff_partition_config as c;
select set_eq('copies', 'values (true, 1000::bigint)', 'without values of their own the copies are the defaults');
execute set_setting('lease_events', 0);
select set_eq('copies', 'values (false, 1000::bigint)', 'a first value is copied');
execute set_setting('claim_floor_recheck_ms', 7);
execute set_setting('claim_floor_recheck_ms', 0);
select set_eq('copies', 'values (false, 0::bigint)', 'and a second one');
execute set_setting('lease_events', null);
select set_eq('copies', 'values (true, 0::bigint)', 'and the way back to the default');
update flowfabric.ff_setting set value = 9 where name = 'claim_floor_recheck_ms';
select flowfabric._ff_copy_settings();
select set_eq('copies', 'values (true, 9::bigint)', 'a load of the functions copies what others wrote meanwhile');

-- Ranges

select lives_ok(
    format('execute set_setting(%L, %s)', s.name, s.value), s.name || ' may be ' || s.value)
from (values
    ('notify_eligible', 0), ('notify_eligible', 2), ('emit_lease_renewed', 1), ('lease_events', 0),
    ('default_retention_ms', 0), ('claim_floor_recheck_ms', 0), ('max_sync_edges', 9007199254740991),
    ('default_retention_ms', 31536000000000), ('max_payload_bytes', 65536), ('max_payload_bytes', 268435456)
) as s (name, value);
select throws_ok(
    format('execute set_setting(%L, %s)', s.name, s.value), 'ZV001', 'invalid_input',
    s.name || ' may not be ' || s.value)
from (values
    ('notify_eligible', 3), ('notify_stream', -1), ('emit_lease_renewed', 2), ('lease_events', 2),
    ('default_retention_ms', -1), ('default_retention_ms', 31536000000001), ('max_payload_bytes', 65535),
    ('max_payload_bytes', 268435457), ('max_sync_edges', -9223372036854775808)
) as s (name, value);
select is(
    ff_tap.error_of($$ execute set_setting('notify_eligible', 3) $$) - 'code',
    '{"fn": "ff_set_setting", "field": "value", "reason": "out_of_range", "value": "3"}',
    'the refusal names the value');
select is(
    (select value from flowfabric.ff_setting where name = 'notify_eligible'), 2::bigint,
    'a refusal leaves the setting as it was');

-- Names

select throws_ok(
    format('execute set_setting(%L, 1)', s.name), 'ZV001', 'invalid_input', s.what || ' is no setting')
from (values
    ('no_such_setting', 'an unknown name'), ('', 'an empty name'), (null, 'a missing name'),
    ('test_clock', 'the mark of the test clock'), ('test_clock_frozen_at_ms', 'the time of the test clock')
) as s (name, what);
select is(
    ff_tap.error_of($$ execute set_setting('no_such_setting', 1) $$) - 'code',
    '{"fn": "ff_set_setting", "field": "name", "reason": "unknown", "value": "no_such_setting"}',
    'the refusal names the name');

select * from finish();
rollback;
