-- Undoes 0020.row-constraint-is-valid, of which only the note can be undone.
delete from flowfabric.ff_migration_annotation where version = 20;
