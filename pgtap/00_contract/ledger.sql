-- The ledger of migrations: whole, and written by the migrations themselves.
begin;
\ir ../helpers.sql
select plan(3);

select ok(exists (select from flowfabric.ff_migration_annotation), 'the ledger is not empty');

select results_eq(
    'select a.version from flowfabric.ff_migration_annotation as a order by a.version',
    'select generate_series(1, (select max(a.version) from flowfabric.ff_migration_annotation as a))',
    'the ledger has no holes');

select is(
    (select a.backward_compatible from flowfabric.ff_migration_annotation as a where a.version = 1), false,
    'the first migration is compatible with nothing before it');

select * from finish();
rollback;
