-- Undoes 0006.stream. The output of all attempts is lost.
-- Functions and views that use these tables go with them; the installer loads them again.
delete from flowfabric.ff_migration_annotation
where version = 6;
drop table if exists flowfabric.ff_stream_summary cascade;
drop table if exists flowfabric.ff_stream_frame cascade;
drop table if exists flowfabric.ff_stream_meta cascade;
