-- Preparing an installation: each step once, in order, and all or nothing.
begin;
\ir ../helpers.sql
select plan(31);

\set secret 'abababababababababababababababababababababababababababababababab'
prepare init (integer, text[], text, text) as
select s.step || ':' || s.outcome from flowfabric.ff_initialize($1, $2, $3, $4) as s;

create function ff_tap.partitions()
returns integer
language sql stable
as $$ select c.num_flow_partitions from flowfabric.ff_partition_config as c $$;

select ff_tap.freeze_time(1000);
delete from flowfabric.ff_event_stream as s where s.stream = 'worker';
delete from flowfabric.ff_scanner as s where s.scanner = 'delayed';
select results_eq(
    format($$execute init(64, '{default,batch}', 'kid-1', %L)$$, :'secret'),
    $$values ('version:already_present'), ('partitions:applied'), ('signing_key:applied'), ('lanes:applied'),
        ('scanners:applied'), ('event_streams:applied')$$, 'every step is done, in order, and says so');
select is(ff_tap.partitions(), 64, 'the number of partitions is chosen');
select results_eq(
    $$select h.kid collate "default", h.is_current from flowfabric.ff_waitpoint_hmac as h$$, $$values ('kid-1', true)$$,
    'the key is installed');
select results_eq(
    $$select l.lane_id collate "default", l.lane_state, l.registered_by, l.registered_at_ms
      from flowfabric.ff_lane_registry as l order by l.lane_id$$,
    $$values ('batch', 'active', 'initialize', 1000::bigint), ('default', 'active', 'initialize', 1000::bigint)$$,
    'the lanes are registered');
select is((select count(*) from flowfabric.ff_event_stream), 5::bigint, 'every event stream has its row');
select is((select count(*) from flowfabric.ff_scanner), 24::bigint, 'every scanner has its row');
select results_eq(
    format($$execute init(64, '{default,batch}', 'kid-1', %L)$$, :'secret'),
    $$values ('version:already_present'), ('partitions:already_present'), ('signing_key:already_present'),
        ('lanes:already_present'), ('scanners:already_present'), ('event_streams:already_present')$$,
    'a repeat finds everything there');
select results_eq(
    $$execute init(64, '{default,new}', null, null)$$,
    $$values ('version:already_present'), ('partitions:already_present'), ('lanes:applied'),
        ('scanners:already_present'), ('event_streams:already_present')$$,
    'without a key the step is left out; one new lane is enough for applied');
select results_eq(
    $$execute init(64, '{}', '', '')$$,
    $$values ('version:already_present'), ('partitions:already_present'), ('lanes:already_present'),
        ('scanners:already_present'), ('event_streams:already_present')$$,
    'empty texts are none, and no lanes are no mistake');
select results_eq(
    $$execute init(64, '{}', 'kid-1', null)$$,
    $$values ('version:already_present'), ('partitions:already_present'), ('signing_key:already_present'),
        ('lanes:already_present'), ('scanners:already_present'), ('event_streams:already_present')$$,
    'a kid that is installed needs no secret');

-- Partitions
select is(
    ff_tap.error_of($$select flowfabric.ff_initialize()$$) - 'fn',
    '{"code": "partition_config_mismatch", "configured": 64, "expected": 256}',
    'once a lane exists the number is compared, and another one is refused');
delete from flowfabric.ff_lane_registry;
select lives_ok('select flowfabric.ff_initialize(128)', 'without lanes, executions and flows it may be chosen anew');
select is(ff_tap.partitions(), 128, 'and is');
delete from flowfabric.ff_lane_registry;
select ff_tap.execution('{fp:86}:00000000-0000-4000-8000-000000000001');
delete from flowfabric.ff_lane_registry;
select throws_ok(
    'select flowfabric.ff_initialize(64)', 'ZU004', 'partition_config_mismatch', 'not while an execution is stored');
delete from flowfabric.ff_exec_core;
select flowfabric.ff_create_flow(gen_random_uuid(), 'dag');
select throws_ok(
    'select flowfabric.ff_initialize(64)', 'ZU004', 'partition_config_mismatch', 'nor while a flow is');
delete from flowfabric.ff_flow_core;

-- The key
select is(
    ff_tap.error_of(format($$select flowfabric.ff_initialize(128, '{}', 'kid-1', %L)$$, repeat('cd', 32))) - 'fn',
    '{"code": "invalid_input", "field": "hmac_secret_hex", "reason": "differs_from_installed"}',
    'another secret under the same name is refused, and not shown');
select is(
    ff_tap.error_of(format($$select flowfabric.ff_initialize(128, '{}', 'kid-2', %L)$$, :'secret')) ->> 'reason',
    'different_kid_active', 'another key is refused: that is a rotation');
select throws_ok(
    $$select flowfabric.ff_initialize(128, '{}', 'kid-1', 'abc')$$, 'ZV022', 'invalid_secret_hex',
    'a secret of another length is refused');
select throws_ok(
    format($$select flowfabric.ff_initialize(128, '{}', 'a:b', %L)$$, :'secret'), 'ZV021', 'invalid_kid',
    'a malformed kid is refused');
select is(
    ff_tap.error_of(format($$select flowfabric.ff_initialize(128, '{}', null, %L)$$, :'secret')) - 'fn',
    '{"code": "invalid_input", "field": "hmac_kid", "reason": "null"}', 'a secret without a name is refused');

-- All or nothing
delete from flowfabric.ff_waitpoint_hmac;
select throws_ok(
    $$select flowfabric.ff_initialize(32, '{one}', 'kid-1', 'abc')$$, 'ZV022', 'invalid_secret_hex',
    'a step that fails is refused');
select is(ff_tap.partitions(), 128, 'and the steps before it are undone');

-- The version
update flowfabric.ff_migration_annotation as a set version = 999 where a.version = flowfabric._ff_schema_version();
select is(
    ff_tap.error_of('select flowfabric.ff_initialize(128)') - 'fn',
    jsonb_build_object(
        'code', 'schema_version_mismatch', 'installed', 999, 'required', flowfabric._ff_schema_version()),
    'tables that do not belong to the functions are refused before anything is done');
update flowfabric.ff_migration_annotation as a set version = flowfabric._ff_schema_version() where a.version = 999;

-- Bad input
select throws_ok('select flowfabric.ff_initialize(0)', 'ZV001', 'invalid_input', 'no partitions are refused');
select throws_ok('select flowfabric.ff_initialize(32768)', 'ZV001', 'invalid_input', 'too many are refused');
select is(
    ff_tap.error_of('select flowfabric.ff_initialize(null)') ->> 'reason', 'null', 'a number of NULL is refused');
select is(
    ff_tap.error_of($$select flowfabric.ff_initialize(128, null)$$) - 'fn',
    '{"code": "invalid_input", "field": "lanes", "reason": "null"}', 'lanes of NULL are refused');
select is(
    ff_tap.error_of($$select flowfabric.ff_initialize(128, array['good', ''])$$) ->> 'reason', 'empty',
    'a malformed lane is refused');
select is_empty('select from flowfabric.ff_lane_registry', 'before another one is registered');
select lives_ok(
    $$select ff_tap.as_role('flowfabric_admin', 'select flowfabric.ff_initialize(128)')$$, 'an admin may initialise');
select throws_ok(
    $$select ff_tap.as_role('flowfabric_operator', 'select flowfabric.ff_initialize(128)')$$, '42501', null,
    'an operator may not');
select * from finish();
rollback;
