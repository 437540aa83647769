-- The functions that return these types go with them; the installer loads them again.
drop type if exists flowfabric.ff_event_wait cascade;
drop type if exists flowfabric.ff_event_stream_lag cascade;
drop type if exists flowfabric.ff_event cascade;
drop type if exists flowfabric.ff_event_cursor cascade;
drop type if exists flowfabric.ff_frame_position cascade;
drop type if exists flowfabric.ff_stream_snapshot cascade;
drop type if exists flowfabric.ff_summary_document cascade;
drop type if exists flowfabric.ff_stream_entry cascade;
drop type if exists flowfabric.ff_appended_frame cascade;
delete from flowfabric.ff_migration_annotation where version = 13;
