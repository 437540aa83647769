-- The views for people: who may read them, what their columns are, and that none shows what nobody should see.
begin;
\ir ../helpers.sql
select plan(11);

create temporary view people_view as
select c.oid, c.relname::text as name, c.relowner as owner, c.reloptions as options
from pg_class as c
where c.relnamespace = 'flowfabric'::regnamespace and c.relkind = 'v';

create temporary view client_role as
select r.name, 'flowfabric_' || r.name as role_name
from unnest(array['producer', 'worker', 'signaller', 'operator', 'reader', 'admin']) as r (name);

-- The column of a table that each view reads, as the rule of the view depends on it.
create temporary view column_shown as
select v.name as view_name, t.relname::text as table_name, a.attname::text as column_name
from people_view as v
join pg_rewrite as r on r.ev_class = v.oid
join pg_depend as d
    on d.classid = 'pg_rewrite'::regclass and d.objid = r.oid and d.refclassid = 'pg_class'::regclass
join pg_class as t on t.oid = d.refobjid and t.oid <> v.oid
join pg_attribute as a on a.attrelid = t.oid and a.attnum = d.refobjsubid;

select bag_eq(
    'select v.name from people_view as v',
    $$values ('ff_v_attempt'), ('ff_v_budget'), ('ff_v_edge'), ('ff_v_event'), ('ff_v_execution'), ('ff_v_flow'),
        ('ff_v_lane'), ('ff_v_quota'), ('ff_v_running'), ('ff_v_scanner'), ('ff_v_suspension'), ('ff_v_worker')$$,
    'there are twelve');
select is_empty(
    $$select v.name, r.name from people_view as v cross join client_role as r
      where has_table_privilege(r.role_name, v.oid, 'select') <> (r.name in ('reader', 'operator', 'admin'))$$,
    'readers and operators may read them, and nobody else');
select is_empty(
    $$select v.name from people_view as v cross join client_role as r
      where has_table_privilege(r.role_name, v.oid, 'insert, update, delete, truncate, references, trigger')$$,
    'nobody may write through them');
select is_empty(
    $$select v.name, v.options from people_view as v where not coalesce('security_barrier=true' = any (v.options), false)$$,
    'each is a barrier');
select is_empty(
    $$select v.name from people_view as v where 'security_invoker=true' = any (v.options)$$,
    'each reads with the rights of its owner');
select is_empty(
    $$select v.name from people_view as v
      where v.owner <> (select n.nspowner from pg_namespace as n where n.nspname = 'flowfabric')
          and not pg_has_role(v.owner, (select n.nspowner from pg_namespace as n where n.nspname = 'flowfabric'), 'usage')$$,
    'which is that of the schema');
select is_empty(
    $$select v.name, p.proname from people_view as v
      join pg_rewrite as r on r.ev_class = v.oid
      join pg_depend as d on d.classid = 'pg_rewrite'::regclass and d.objid = r.oid and d.refclassid = 'pg_proc'::regclass
      join pg_proc as p on p.oid = d.refobjid
      where not has_function_privilege('flowfabric_reader', p.oid, 'execute')$$,
    'the functions that they call are open to those who read them');
select ok(
    exists (select from column_shown as s where s.view_name = 'ff_v_execution' and s.column_name = 'tags'),
    'the columns that a view reads are known');
select is_empty(
    $$select s.view_name, s.table_name, s.column_name from column_shown as s
      where (s.column_name <> 'partition_key' and s.column_name ~
              '(payload|result|token|fingerprint|secret|pad$|policy$|kid$|key$|grant_id|document|condition)')
          or s.table_name in (
              'ff_waitpoint_hmac', 'ff_stream_frame', 'ff_stream_summary', 'ff_signal', 'ff_claim_grant', 'ff_setting',
              'ff_execution_idempotency', 'ff_suspension_satisfier')$$,
    'none shows a payload, a result, a token, a key or a policy');

select results_eq(
    $$select v.name collate "default", string_agg(a.attname || ' ' || format_type(a.atttypid, a.atttypmod), ', ' order by a.attnum)
          collate "default"
      from people_view as v join pg_attribute as a on a.attrelid = v.oid and a.attnum > 0
      group by v.name order by 1$$,
    $$values
    ('ff_v_attempt', 'execution_id text, attempt integer, type flowfabric.ff_attempt_type, '
        'state flowfabric.ff_attempt_row_state, worker text, started_at timestamp with time zone, '
        'ended_at timestamp with time zone, run_time interval, failure_reason text, failure_category text'),
    ('ff_v_budget', 'budget text, scope text, dimension text, used bigint, reserved bigint, soft_limit bigint, '
        'hard_limit bigint, used_ratio numeric, next_reset_at timestamp with time zone'),
    ('ff_v_edge', 'flow_id uuid, upstream text, downstream text, state text, outcome flowfabric.ff_terminal_outcome, '
        'passes_data boolean, applied_at timestamp with time zone, resolved_at timestamp with time zone, '
        'join_policy text, group_state text'),
    ('ff_v_event', 'stream text, occurred_at timestamp with time zone, what text, execution_id text, flow_id uuid, '
        'worker text, reason text, detail jsonb'),
    ('ff_v_execution', 'execution_id text, namespace text, lane text, kind text, state flowfabric.ff_public_state, '
        'phase flowfabric.ff_lifecycle_phase, why flowfabric.ff_blocking_reason, priority integer, flow_id uuid, '
        'attempts integer, retries integer, worker text, lease_expires_at timestamp with time zone, '
        'lease_is_expired boolean, progress smallint, created_at timestamp with time zone, '
        'started_at timestamp with time zone, ended_at timestamp with time zone, '
        'delayed_until timestamp with time zone, deadline_at timestamp with time zone, '
        'outcome flowfabric.ff_terminal_outcome, failure_reason text, tags jsonb'),
    ('ff_v_flow', 'flow_id uuid, kind text, namespace text, state text, derived_state text, members integer, '
        'edges integer, completed integer, failed integer, running integer, waiting integer, '
        'created_at timestamp with time zone, cancelled_at timestamp with time zone, tags jsonb'),
    ('ff_v_lane', 'lane text, state text, reason text, waiting bigint, running bigint, '
        'oldest_waiting_since timestamp with time zone, live_workers bigint'),
    ('ff_v_quota', 'policy text, per_window bigint, window interval, used_in_window bigint, cap bigint, held bigint'),
    ('ff_v_running', 'execution_id text, lane text, kind text, worker text, worker_instance text, '
        'running_for interval, lease_expires_at timestamp with time zone, lease_is_expired boolean, progress smallint, '
        'attempt integer'),
    ('ff_v_scanner', 'scanner text, enabled boolean, every interval, last_run timestamp with time zone, '
        'next_due timestamp with time zone, processed bigint, errors integer, last_error text'),
    ('ff_v_suspension', 'execution_id text, reason text, since timestamp with time zone, '
        'times_out_at timestamp with time zone, on_timeout text, waitpoints bigint, signals bigint'),
    ('ff_v_worker', 'namespace text, worker text, instance text, lanes text[], capabilities text[], live boolean, '
        'draining boolean, last_heartbeat timestamp with time zone, leases bigint')$$,
    'times are timestamps, durations intervals, states words');
select lives_ok(
    $$select ff_tap.as_role('flowfabric_reader', string_agg('select * from flowfabric.' || v.name, '; ')) from people_view as v$$,
    'a reader can read every one of them');
select * from finish();
rollback;
