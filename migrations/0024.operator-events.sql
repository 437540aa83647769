-- Operator events say who acted and why, for every verb of an operator; a replay says whether it gave up a result.
--
-- The list of event types moves from a CHECK into _ff_operator_event_types, the one place where a type is added. A
-- worker process that ends says so itself: the event deregistered. The new CHECK is not validated, because every row
-- that is there has passed the old one, which allowed less.
--
-- Locks:  ff_operator_event and ff_worker_registry_event, ACCESS EXCLUSIVE for a moment: no row is read.
-- Beside: the functions of the previous release continue to work; their replays leave the new field NULL.
-- depends: 0023.floors-move-on

-- squawk-ignore ban-drop-constraint
alter table flowfabric.ff_operator_event drop constraint if exists ff_operator_event_event_type_is_known;

comment on table flowfabric.ff_operator_event is
'Stream operator: one row per action of an operator that changed something.';
comment on column flowfabric.ff_operator_event.partition_key is
'Partition of the execution, flow or lane; 0 for anything else.';
comment on column flowfabric.ff_operator_event.execution_id is
'Execution acted upon; null for anything else.';
comment on column flowfabric.ff_operator_event.flow_id is
'Flow acted upon; null for anything else.';
comment on column flowfabric.ff_operator_event.details is
'Facts of the action by event_type; always login, and role, reason and requested_by where there is one.';

do $$
begin
    if not exists (
        select from pg_catalog.pg_attribute as a
        where a.attrelid = 'flowfabric.ff_replay'::pg_catalog.regclass and a.attname = 'result_given_up'
            and not a.attisdropped)
    then
        alter type flowfabric.ff_replay add attribute result_given_up boolean;
    end if;
end;
$$;

-- squawk-ignore ban-drop-constraint
alter table flowfabric.ff_worker_registry_event drop constraint if exists ff_worker_registry_event_event_kind_is_known;
alter table flowfabric.ff_worker_registry_event add constraint ff_worker_registry_event_event_kind_is_known
check (
    event_kind in (
        'registered', 'refreshed', 'drain_requested', 'drain_cancelled', 'deregistered', 'marked_dead', 'ttl_swept'
    )
) not valid;

insert into flowfabric.ff_migration_annotation (version, name, applied_at_ms, backward_compatible)
values (24, 'operator-events', floor(extract(epoch from clock_timestamp()) * 1000)::bigint, true)
on conflict (version) do nothing;
