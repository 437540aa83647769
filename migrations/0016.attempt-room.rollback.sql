alter table flowfabric.ff_attempt set (fillfactor = 80);
delete from flowfabric.ff_migration_annotation where version = 16;
