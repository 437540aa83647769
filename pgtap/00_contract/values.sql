-- Text parameters: each has a closed list of values, which is stated once, or is open.
begin;
\ir ../helpers.sql
select plan(7);

create temporary view parameter as
select p.proname::text as function_name, substr(a.name, 3) as name
from pg_proc as p
cross join lateral unnest(p.proargnames, p.proargtypes::oid[]) as a (name, type)
where p.pronamespace = 'flowfabric'::regnamespace and p.proname like 'ff\_%'
    and a.type in ('text'::regtype, 'text[]'::regtype);
create temporary view closed as
select p.function_name, p.name, flowfabric._ff_parameter_values(p.function_name, p.name) as legal_values
from parameter as p;

-- Whatever the caller likes: ids, keys, names, positions, words for people, and filters that find nothing.
create temporary table open (name text) on commit drop;
insert into open values
    ('admission_summary'), ('after'), ('after_execution_id'), ('after_namespace'), ('after_worker_instance_id'),
    ('blocking_detail'), ('budget_id'), ('capabilities'), ('capability_hash'), ('consumer'),
    ('continuation_metadata_pointer'), ('correlation_id'), ('creator_identity'), ('cursor'), ('data_passing_ref'),
    ('dedup_key'), ('dimensions'), ('downstream_execution_id'), ('encoding'), ('enforcement_mode'), ('event_types'),
    ('execution_id'), ('execution_ids'), ('execution_kind'), ('execution_kinds'), ('expected_blocking_reason'),
    ('expire_reason'), ('failure_categories'), ('failure_category'), ('failure_reason'), ('failure_reasons'),
    ('flow_kind'), ('frame_type'), ('from'), ('grant_key'), ('hmac_kid'), ('hmac_secret_hex'), ('idempotency_key'),
    ('idempotency_keys'), ('idempotency_suffix'), ('key'), ('kid'), ('lane'), ('lane_id'), ('lane_ids'), ('lanes'),
    ('namespace'), ('new_kid'), ('new_secret_hex'), ('on_hard_limit'), ('on_soft_limit'), ('payload_encoding'),
    ('payload_encodings'), ('progress_message'), ('quota_policy_id'), ('reason'), ('registered_by'),
    ('ff_replay_execution.requested_by'), ('requester'), ('reservation_key'), ('result_encoding'),
    ('result_encodings'), ('scope_id'), ('scope_type'), ('secret_hex'), ('signal_category'), ('signal_name'),
    ('ff_append_frame.source'), ('source_identity'), ('source_type'), ('tag_key'), ('tag_value'), ('to'),
    ('upstream_execution_id'), ('waiter_id'), ('waitpoint_key'), ('waitpoint_keys'), ('waitpoint_token'),
    ('worker_capabilities'), ('worker_id'), ('worker_instance_id');
-- Lists that are kept elsewhere: _ff_known_settings, ff_scanner, _ff_channels.
create temporary table listed_elsewhere (name text) on commit drop;
insert into listed_elsewhere values
    ('ff_set_setting.name'), ('ff_set_scanner.scanner'), ('ff_tick.scanners'), ('ff_wait_for_events.streams');

select is_empty(
    $$ select c.function_name, c.name from closed as c
       where (select count(*) from (
           select c.name where c.legal_values is not null
           union all
           select t.typname from pg_type as t
           where t.typnamespace = 'flowfabric'::regnamespace and t.typtype = 'e' and t.typname = 'ff_' || c.name
               and c.legal_values is null
           union all
           select o.name from open as o where o.name in (c.name, c.function_name || '.' || c.name)
           union all
           select l.name from listed_elsewhere as l where l.name = c.function_name || '.' || c.name) as k) <> 1 $$,
    'every text parameter is open, or has one list of its values');
select is_empty(
    $$ select v.name from flowfabric._ff_closed_values() as v
       where not exists (select from parameter as p where v.name in (p.name, p.function_name || '.' || p.name)) $$,
    'every list is that of a parameter');
select is_empty(
    $$ select v.name from flowfabric._ff_closed_values() as v
       where cardinality(v.legal_values) = 0 or '' = any (v.legal_values)
           or cardinality(v.legal_values) <> (select count(distinct x) from unnest(v.legal_values) as x) $$,
    'a list has values, and none twice');
-- A CHECK such as lane_state = ANY (ARRAY['active'::text, ...]) of a column that is named like a list.
select is_empty(
    $$ select k.conname, k.stored, k.legal_values
       from (
           select
               c.conname, v.legal_values,
               array(select m[1] from regexp_matches(pg_get_constraintdef(c.oid), '''([^'']*)''::text', 'g') as m) as stored
           from pg_constraint as c
           join pg_attribute as a on a.attrelid = c.conrelid and a.attnum = c.conkey[1]
           join flowfabric._ff_closed_values() as v
               on regexp_replace(v.name, '^.*[.]', '') = a.attname
           where c.contype = 'c' and c.conname like '%\_is\_known' and c.connamespace = 'flowfabric'::regnamespace
       ) as k
       where not (k.stored @> k.legal_values and k.legal_values @> k.stored) $$,
    'a column that is named like a list takes the values of the list');
select is(
    array(select b.label from unnest(enum_range(null::flowfabric.ff_blocking_reason)::text[]) as b (label)
          where flowfabric._ff_admission_eligibility(b.label) is not null order by 1),
    array(select unnest(flowfabric._ff_legal_values('blocking_reason')) order by 1),
    'admission knows the blocking reasons of the list');
select is_empty(
    $$ select c.code from unnest(flowfabric._ff_legal_values('reason_code')) as c (code)
       where flowfabric._ff_suspension_blocking(c.code) is null $$,
    'every reason code of a suspension shows as a blocking reason');
select is_empty(
    $$ select p.oid::regprocedure, v.name
       from flowfabric._ff_closed_values() as v
       join pg_proc as p on p.pronamespace = 'flowfabric'::regnamespace
       where p.proname <> '_ff_closed_values'
           and p.prosrc ~ format(
               '\mp_%1$s\s+not\s+in\s*\(''|\mp_%1$s\s+in\s*\([^)]*\)\)\s+is\s+not\s+true',
               regexp_replace(v.name, '^.*[.]', '')) $$,
    'no function refuses values by a list of its own');
select * from finish();
rollback;
