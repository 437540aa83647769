-- Tags that are set after a creation get rows of their own: an open transaction that sets tags then holds no row that a
-- claim, a renewal, a completion or the end of a flow member needs.
--
-- Tags given at a creation stay where they are; a value in the new tables wins over one given at the creation. Claims
-- read the new table only if has_late_tags says so: a table that a statement names costs it 5 us, whatever is in it.
--
-- Locks:  ff_partition_config, ACCESS EXCLUSIVE for a moment.
-- Beside: the functions of the previous release go on working; tags that they set stay where they put them.
-- depends: 0026.bounded-lists

create table if not exists flowfabric.ff_exec_tag (
    partition_key smallint not null,
    execution_id uuid not null,
    tags jsonb not null,
    updated_at_ms bigint not null,
    constraint ff_exec_tag_pkey primary key (partition_key, execution_id)
);
comment on table flowfabric.ff_exec_tag is
'Tags of an execution that were set after its creation; no row, none set. Changed under FOR KEY SHARE of ff_exec_core.';
comment on column flowfabric.ff_exec_tag.partition_key is 'As in ff_exec_core.';
comment on column flowfabric.ff_exec_tag.execution_id is 'As in ff_exec_core.';
comment on column flowfabric.ff_exec_tag.tags is
'Object of strings; each wins over the tag of the same key in ff_exec_payload.';
comment on column flowfabric.ff_exec_tag.updated_at_ms is 'When tags were last set.';

create table if not exists flowfabric.ff_flow_tag (
    partition_key smallint not null,
    flow_id uuid not null,
    tags jsonb not null,
    updated_at_ms bigint not null,
    constraint ff_flow_tag_pkey primary key (partition_key, flow_id)
);
comment on table flowfabric.ff_flow_tag is
'Tags of a flow that were set after its creation; no row, none set. Changed under FOR KEY SHARE of ff_flow_core.';
comment on column flowfabric.ff_flow_tag.partition_key is 'As in ff_flow_core.';
comment on column flowfabric.ff_flow_tag.flow_id is 'As in ff_flow_core.';
comment on column flowfabric.ff_flow_tag.tags is
'Object of strings; each wins over the tag of the same key in ff_flow_core.';
comment on column flowfabric.ff_flow_tag.updated_at_ms is 'When tags were last set.';

alter table flowfabric.ff_partition_config
add column if not exists has_late_tags boolean not null default false;
comment on column flowfabric.ff_partition_config.has_late_tags is
'Whether ff_exec_tag was ever written: only then do claims read it.';

comment on column flowfabric.ff_exec_payload.tags is
'Object of strings as given at the creation; keys have the form owner.field. Later ones are in ff_exec_tag.';
comment on column flowfabric.ff_flow_core.tags is
'The caller''s tags: an object of strings as given at the creation. Later ones are in ff_flow_tag.';
comment on column flowfabric.ff_flow_core.last_mutation_at_ms is
'When its graph or state last changed or a member was replayed; a newer time asks for a new summary.';
comment on column flowfabric.ff_exec_core.last_mutation_at_ms is
'Last write of any kind; tags that are set later have a time of their own.';

insert into flowfabric.ff_migration_annotation (version, name, applied_at_ms, backward_compatible)
values (27, 'tags-apart', floor(extract(epoch from clock_timestamp()) * 1000)::bigint, true)
on conflict (version) do nothing;
