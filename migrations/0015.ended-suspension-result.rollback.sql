-- The function that returns this type goes with it; the installer loads it again.
drop type if exists flowfabric.ff_ended_suspension cascade;
delete from flowfabric.ff_migration_annotation where version = 15;
