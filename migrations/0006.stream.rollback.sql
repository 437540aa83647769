-- Undoes 0006.stream. The output of all attempts is lost.
delete from flowfabric.ff_migration_annotation
where version = 6;
drop table if exists flowfabric.ff_stream_summary;
drop table if exists flowfabric.ff_stream_frame;
drop table if exists flowfabric.ff_stream_meta;
