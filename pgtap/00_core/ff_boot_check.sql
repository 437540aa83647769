-- The first call of a client: does it fit the installation?
begin;
\ir ../helpers.sql
select plan(32);

prepare boot (integer, integer) as select * from flowfabric.ff_boot_check($1, $2);
prepare warnings (integer) as select unnest(warnings) from flowfabric.ff_boot_check($1);

-- A ledger of its own: 1 to 5, of which 4 broke older clients. A tick has just run, and this server wrote last.
delete from flowfabric.ff_migration_annotation;
insert into flowfabric.ff_migration_annotation (version, name, applied_at_ms, backward_compatible)
select v.version, 'test', 0, v.version not in (1, 4) from generate_series(1, 5) as v (version);
delete from flowfabric.ff_scanner;
insert into flowfabric.ff_scanner (scanner, function_name, run_order, interval_ms, batch_limit, last_run_at_ms)
values ('test', 'test', 1, 1000, 1, 1000000);
update flowfabric.ff_partition_config
set ff_version = '1.2.3', event_epoch = 7, system_identifier = (select system_identifier from pg_control_system());
select ff_tap.freeze_time(1000000);

-- A client that fits

select results_eq(
    'select schema_version, library_version, num_flow_partitions, event_epoch from flowfabric.ff_boot_check(5)',
    $$ values (5, '1.2.3', 256, 7::smallint) $$, 'a client of the same version learns what is installed');
select lives_ok('execute boot(5, 256)', 'the partition count that it expects is checked and fits');
select lives_ok('execute boot(5, null)', 'no expectation about it is no check');
select lives_ok('execute boot(4, null)', 'a client that needs less fits, if what came after breaks nothing');
select results_eq(
    'execute warnings(4)',
    $$ values
        ('the schema (5) is newer than this client needs (4), and compatible'),
        ('the test clock is installed') $$,
    'and is told that the schema is ahead');
select results_eq(
    'execute warnings(5)', $$ values ('the test clock is installed') $$, 'the test clock is worth a warning');

-- A client that does not

select throws_ok('execute boot(6, null)', 'ZU003', 'schema_version_mismatch', 'a schema that is too old is refused');
select is(
    ff_tap.error_of('execute boot(6, null)') - 'code',
    '{"fn": "ff_boot_check", "installed": 5, "required": 6}', 'the refusal names both versions');
select throws_ok(
    'execute boot(3, null)', 'ZU003', 'schema_version_mismatch', 'a schema that broke older clients is refused');
select is(
    ff_tap.error_of('execute boot(3, null)') - 'code',
    '{"fn": "ff_boot_check", "installed": 5, "required": 3, "incompatible": 4}',
    'the refusal names the first version that did');
select is(
    ff_tap.error_of('execute boot(0, null)') ->> 'incompatible', '1',
    'of several incompatible versions it is the first');
select throws_ok(
    'execute boot(5, 32)', 'ZU004', 'partition_config_mismatch', 'another partition count is refused');
select is(
    ff_tap.error_of('execute boot(5, 32)') - 'code',
    '{"fn": "ff_boot_check", "configured": 256, "expected": 32}', 'the refusal names both counts');
select throws_ok(
    'execute boot(6, 32)', 'ZU003', 'schema_version_mismatch', 'the version is checked before the partition count');
select throws_ok('execute boot(null, null)', 'ZV001', 'invalid_input', 'a client must say what it needs');
select throws_ok('execute boot(-1, null)', 'ZV001', 'invalid_input', 'there is no version below 0');

savepoint ledger;
delete from flowfabric.ff_migration_annotation;
select throws_ok('execute boot(1, null)', 'ZU003', 'schema_version_mismatch', 'an empty ledger is version 0');
select is(ff_tap.error_of('execute boot(1, null)') ->> 'installed', '0', 'and says so');
rollback to savepoint ledger;

-- Scanners that do not run

select ff_tap.freeze_time(1000000 + 300000);
select results_eq(
    'execute warnings(5)', $$ values ('the test clock is installed') $$, 'a tick 5 minutes ago is recent enough');
select ff_tap.advance_time(1);
select results_eq(
    'execute warnings(5)',
    $$ values ('no scanner has run for 5 minutes'), ('the test clock is installed') $$,
    'a millisecond later it is not');
delete from flowfabric.ff_scanner;
select results_eq(
    'execute warnings(5)',
    $$ values ('no scanner has run for 5 minutes'), ('the test clock is installed') $$,
    'nor is a system in which none ever ran');

-- Data from another server

update flowfabric.ff_partition_config set system_identifier = 42;
select results_eq(
    'execute warnings(5)',
    $$ values
        ('the data were restored on another server; event epoch raised to 8'),
        ('no scanner has run for 5 minutes'),
        ('the test clock is installed') $$,
    'the first client after a restore elsewhere raises the event epoch');
select results_eq(
    'select event_epoch, system_identifier from flowfabric.ff_partition_config',
    'select 8::smallint, system_identifier from pg_control_system()', 'and records the new server');
select is(
    (select b.event_epoch from flowfabric.ff_boot_check(5) as b), 8::smallint, 'the second client finds it raised');
select is(
    (select c.event_epoch from flowfabric.ff_partition_config as c), 8::smallint, 'and does not raise it again');

update flowfabric.ff_partition_config set system_identifier = null;
select is(
    (select b.event_epoch from flowfabric.ff_boot_check(5) as b), 8::smallint,
    'the first client of a new installation records the server and leaves the epoch');
select is(
    (select c.system_identifier from flowfabric.ff_partition_config as c),
    (select s.system_identifier from pg_control_system() as s), 'so that a later restore is noticed');
select nextval('flowfabric.ff_event_id_seq');
update flowfabric.ff_partition_config set system_identifier = null;
select is(
    (select b.event_epoch from flowfabric.ff_boot_check(5) as b), 9::smallint,
    'events of a server that nobody recorded may come from another one, so the epoch is raised');
update flowfabric.ff_partition_config set system_identifier = 42;
select ff_tap.sqlstate_of('execute boot(6, null)');
select is(
    (select c.system_identifier from flowfabric.ff_partition_config as c), 42::bigint,
    'a refused client records nothing');

set local role flowfabric_reader;
select event_epoch from flowfabric.ff_boot_check(5) \gset
reset role;
select is(:event_epoch::smallint, 10::smallint, 'a role without table privileges does all of it');

update flowfabric.ff_partition_config set system_identifier = 42;
select is(
    (select b.warnings[1]
     from (select set_config('transaction_read_only', 'on', true) as value) as read_only
     cross join lateral flowfabric.ff_boot_check(case read_only.value when 'on' then 5 end) as b),
    'the session is read-only: every write will be refused', 'a client that cannot write is told so');
select is(
    (select c.system_identifier from flowfabric.ff_partition_config as c), 42::bigint,
    'and leaves the epoch to one that can');

select * from finish();
rollback;
