-- The version of the function library.
begin;
\ir ../helpers.sql
select plan(3);

select is(
    flowfabric.ff_version(), (select c.ff_version from flowfabric.ff_partition_config as c),
    'the version is the one that the installer recorded');
update flowfabric.ff_partition_config set ff_version = '9.8.7';
select is(flowfabric.ff_version(), '9.8.7', 'after an upgrade it is the new one');
set local role flowfabric_signaller;
select flowfabric.ff_version() as version \gset
reset role;
select is(:'version'::text, '9.8.7', 'the role with the fewest rights may ask for it');

select * from finish();
rollback;
