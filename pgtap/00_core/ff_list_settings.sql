-- The settings: complete, with their defaults.
begin;
\ir ../helpers.sql
select plan(8);

delete from flowfabric.ff_setting where name not like 'test\_clock%';

select results_eq(
    'select name, default_value from flowfabric.ff_list_settings()',
    $$ values
        ('claim_floor_lag_ms', 100::bigint),
        ('claim_floor_recheck_ms', 1000),
        ('default_retention_ms', 86400000),
        ('emit_lease_renewed', 0),
        ('event_retention_completion_ms', 604800000),
        ('event_retention_lease_ms', 604800000),
        ('event_retention_operator_ms', 604800000),
        ('event_retention_signal_ms', 604800000),
        ('event_retention_worker_ms', 604800000),
        ('flow_retention_ms', 604800000),
        ('lease_events', 1),
        ('max_cycle_check_nodes', 10000),
        ('max_payload_bytes', 16777216),
        ('max_signals_per_execution', 10000),
        ('max_submit_edges', 100000),
        ('max_submit_members', 10000),
        ('max_sync_cancels', 256),
        ('max_sync_depth', 50),
        ('max_sync_edges', 256),
        ('notify_completion', 1),
        ('notify_dispatch', 1),
        ('notify_eligible', 1),
        ('notify_lease', 1),
        ('notify_operator', 1),
        ('notify_signal', 1),
        ('notify_stream', 1),
        ('notify_worker', 1) $$,
    'every setting is listed by name, with its default');
select is_empty(
    'select name from flowfabric.ff_list_settings() where not is_default or value <> default_value',
    'an installation starts with the defaults');

select flowfabric.ff_set_setting('lease_events', 0);
select flowfabric.ff_set_setting('max_sync_depth', 50);
select results_eq(
    'select name, value, is_default from flowfabric.ff_list_settings() where not is_default',
    $$ values ('lease_events', 0::bigint, false), ('max_sync_depth', 50, false) $$,
    'a setting that somebody made shows its value, also when that is the default');
select is(
    (select s.default_value from flowfabric.ff_list_settings() as s where s.name = 'lease_events'), 1::bigint,
    'beside its default');

-- What the list says is what the engine uses.
select is_empty(
    'select s.name from flowfabric.ff_list_settings() as s where s.value <> flowfabric._ff_setting_value(s.name)',
    'the listed value is the one in force');

select ff_tap.freeze_time(1000);
select is_empty(
    $$ select name from flowfabric.ff_list_settings() where name like 'test\_clock%' $$,
    'the rows of the test clock are no settings');
set local role flowfabric_reader;
select count(*) as listed from flowfabric.ff_list_settings() \gset
reset role;
select is(:listed::bigint, 27::bigint, 'a reader sees all of them');

select throws_ok(
    $$ select flowfabric._ff_setting_value('max_sync_depht') $$, 'P0002', $$there is no setting 'max_sync_depht'$$,
    'a setting that the engine asks for and does not know is an error of the engine, not a NULL');

select * from finish();
rollback;
