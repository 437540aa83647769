-- Undoes 0027.tags-apart: tags go back to where the functions of the release before look for them. A small payload
-- moves to its tags, because a claim of theirs that finds it in the execution's row looks for nothing else. The locks
-- come first: what is committed while they are waited for must be moved too. Their load makes the views anew.
lock table flowfabric.ff_exec_core, flowfabric.ff_flow_core in access exclusive mode;
drop view if exists flowfabric.ff_v_execution;
drop view if exists flowfabric.ff_v_flow;
insert into flowfabric.ff_exec_payload as p (partition_key, execution_id, payload, tags)
select
    e.partition_key,
    e.execution_id,
    nullif(e.small_payload, '') as payload,
    t.tags
from flowfabric.ff_exec_tag as t
inner join flowfabric.ff_exec_core as e on t.partition_key = e.partition_key and t.execution_id = e.execution_id
on conflict (partition_key, execution_id) do update
set payload = coalesce(p.payload, excluded.payload), tags = p.tags || excluded.tags;
update flowfabric.ff_exec_core as e
set small_payload = null
from flowfabric.ff_exec_tag as t
where e.partition_key = t.partition_key and e.execution_id = t.execution_id and e.small_payload is not null;
update flowfabric.ff_flow_core as f
set tags = f.tags || t.tags
from flowfabric.ff_flow_tag as t
where f.partition_key = t.partition_key and f.flow_id = t.flow_id;
drop table if exists flowfabric.ff_exec_tag;
drop table if exists flowfabric.ff_flow_tag;
alter table flowfabric.ff_partition_config drop column if exists has_late_tags;
comment on column flowfabric.ff_exec_payload.tags is 'Object of strings; keys have the form owner.field.';
comment on column flowfabric.ff_exec_core.last_mutation_at_ms is 'Last write of any kind.';
comment on column flowfabric.ff_flow_core.tags is 'The caller''s tags: an object of strings.';
comment on column flowfabric.ff_flow_core.last_mutation_at_ms is
'When its graph, tags or state last changed or a member was replayed; a newer time asks for a new summary.';
delete from flowfabric.ff_migration_annotation where version = 27;
