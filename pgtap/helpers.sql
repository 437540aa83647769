-- What every pgTAP file includes first, inside its own transaction: pgTAP on the search_path, and schema ff_tap with
-- a clock that stands still and a way to look into an error. The file's rollback takes all of it away again.
--
-- Run it as the owner of the installation or as a superuser. Files that move the clock need an installation made with
-- the test clock; on any other, ff_test_set_clock refuses.

-- `set local` has no effect outside a transaction: that tells whether this file was started by itself, as pg_prove
-- does with every file it finds. It then reports itself as skipped, because it has nothing to test.
set client_min_messages = error;
set local ff_tap.is_included = 'yes';
select coalesce(current_setting('ff_tap.is_included', true), '') <> 'yes' as ff_tap_is_alone \gset
\if :ff_tap_is_alone
    \echo '1..0 # SKIP fixtures that the other files include'
    \quit
\endif
set local client_min_messages = warning;

-- pgTAP is an extension in any schema, or was loaded as plain SQL: its functions are where they are.
select coalesce(
    (
        select min(n.nspname)
        from pg_catalog.pg_proc as p
        join pg_catalog.pg_namespace as n on n.oid = p.pronamespace
        where p.proname = 'pgtap_version'
    ), '') as ff_tap_pgtap_schema \gset
select :'ff_tap_pgtap_schema' = '' as ff_tap_pgtap_is_missing \gset
\if :ff_tap_pgtap_is_missing
    \echo 'Bail out!  pgTAP is not installed in this database: run "create extension pgtap" in it.'
    \quit
\endif
set local search_path = :"ff_tap_pgtap_schema", pg_catalog, pg_temp;

create schema ff_tap;

create function ff_tap.freeze_time(p_ms bigint)
returns void
language plpgsql volatile
as $$
begin
    perform flowfabric.ff_test_set_clock('freeze', p_ms);
end;
$$;

comment on function ff_tap.freeze_time(bigint) is
'Stops the engine''s clock at an instant, in milliseconds since 1970.';

create function ff_tap.advance_time(p_ms bigint)
returns void
language plpgsql volatile
as $$
begin
    perform flowfabric.ff_test_set_clock('advance', p_ms);
end;
$$;

comment on function ff_tap.advance_time(bigint) is
'Moves the engine''s clock forward, whether it stands still or runs.';

-- A statement that raises nothing is an error here, and so is an error that is not the engine's: either of them would
-- otherwise read as a detail without the key that the test asks for.
create function ff_tap.error_of(p_sql text)
returns jsonb
language plpgsql volatile
as $$
declare
    v_detail text;
begin
    begin
        execute p_sql;
    exception when others then
        get stacked diagnostics v_detail = pg_exception_detail;
        if v_detail not like '{%' then
            raise;
        end if;
        return v_detail::jsonb;
    end;
    raise exception 'ff_tap.error_of: this raised no error: %', p_sql;
end;
$$;

comment on function ff_tap.error_of(text) is
'Executes a statement that the engine refuses and returns the DETAIL of the refusal.';

create function ff_tap.sqlstate_of(p_sql text)
returns text
language plpgsql volatile
as $$
declare
    v_sqlstate text;
begin
    execute p_sql;
    return null;
exception when others then
    get stacked diagnostics v_sqlstate = returned_sqlstate;
    return v_sqlstate;
end;
$$;

comment on function ff_tap.sqlstate_of(text) is
'Executes a statement and returns the SQLSTATE with which it failed, or null if it did not.';

-- Fixtures: rows made through the engine's own functions, so that a new column changes nothing here.

create function ff_tap.lease_id()
returns uuid
language sql immutable
as $$ select '00000000-0000-4000-8000-00000000001e'::uuid $$;

comment on function ff_tap.lease_id() is 'The lease id that leased_execution gives.';

create function ff_tap.attempt_id()
returns uuid
language sql immutable
as $$ select '00000000-0000-4000-8000-0000000000a7'::uuid $$;

comment on function ff_tap.attempt_id() is 'The attempt id that leased_execution gives.';

create function ff_tap.execution(
    p_execution_id text default '{fp:86}:00000000-0000-4000-8000-000000000001',
    p_policy jsonb default null,
    p_lane_id text default 'default',
    p_namespace text default 'default',
    p_priority integer default 0,
    p_delay_until_ms bigint default null,
    p_deadline_at_ms bigint default null,
    p_tags jsonb default '{}',
    p_payload bytea default null
)
returns text
language sql volatile
as $$
    select c.execution_id
    from flowfabric.ff_create_execution(
        'test', p_execution_id => p_execution_id, p_policy => p_policy, p_lane_id => p_lane_id,
        p_namespace => p_namespace, p_priority => p_priority, p_delay_until_ms => p_delay_until_ms,
        p_execution_deadline_at_ms => p_deadline_at_ms, p_tags => p_tags, p_payload => p_payload) as c
$$;

comment on function ff_tap.execution(text, jsonb, text, text, integer, bigint, bigint, jsonb, bytea) is
'Creates an execution and returns its id.';

create function ff_tap.leased_execution(
    p_execution_id text default '{fp:86}:00000000-0000-4000-8000-000000000001',
    p_policy jsonb default null,
    p_lease_epoch bigint default 1,
    p_lease_expires_at_ms bigint default null,
    p_lease_id uuid default ff_tap.lease_id(),
    p_attempt_id uuid default ff_tap.attempt_id(),
    p_attempt_timeout_ms bigint default null,
    p_deadline_at_ms bigint default null
)
returns text
language plpgsql volatile
as $$
declare
    v_key flowfabric.ff_execution_key := flowfabric.ff_parse_execution_id(p_execution_id);
begin
    perform ff_tap.execution(p_execution_id, p_policy, p_deadline_at_ms => p_deadline_at_ms);
    -- An older life of the execution, so that tests can present older epochs.
    update flowfabric.ff_exec_core as e
    set current_lease_epoch = p_lease_epoch - 1, total_attempt_count = 1
    where p_lease_epoch > 1 and e.partition_key = v_key.partition_key and e.execution_id = v_key.execution_id;
    perform flowfabric.ff_issue_grant_and_claim(
        p_execution_id,
        p_lease_ttl_ms => coalesce(p_lease_expires_at_ms - flowfabric.ff_now_ms(), 30000),
        p_worker_id => 'worker', p_worker_instance_id => 'worker-1',
        p_lease_id => p_lease_id, p_attempt_id => p_attempt_id, p_attempt_timeout_ms => p_attempt_timeout_ms);
    return p_execution_id;
end;
$$;

comment on function ff_tap.leased_execution(text, jsonb, bigint, bigint, uuid, uuid, bigint, bigint) is
'Creates an execution that worker-1 of pool worker holds a lease on, and returns its id.';

create function ff_tap.core(p_execution_id text)
returns flowfabric.ff_exec_core
language sql stable
as $$
    select e.*
    from flowfabric.ff_exec_core as e, flowfabric.ff_parse_execution_id(p_execution_id) as k
    where e.partition_key = k.partition_key and e.execution_id = k.execution_id
$$;

comment on function ff_tap.core(text) is 'The row of an execution.';

create function ff_tap.note(p_execution_id text)
returns flowfabric.ff_exec_note
language sql stable
as $$
    select n.*
    from flowfabric.ff_exec_note as n, flowfabric.ff_parse_execution_id(p_execution_id) as k
    where n.partition_key = k.partition_key and n.execution_id = k.execution_id
$$;

comment on function ff_tap.note(text) is 'The note of an execution; all fields NULL when there is none.';

create function ff_tap.payload_row(p_execution_id text)
returns flowfabric.ff_exec_payload
language sql stable
as $$
    select p.*
    from flowfabric.ff_exec_payload as p, flowfabric.ff_parse_execution_id(p_execution_id) as k
    where p.partition_key = k.partition_key and p.execution_id = k.execution_id
$$;

comment on function ff_tap.payload_row(text) is
'What is stored beside an execution; NULL when all of it stands in the execution''s own row.';

create function ff_tap.input(p_execution_id text)
returns text
language sql stable
as $$
    select nullif(convert_from(c.input_payload, 'UTF8'), '') || coalesce('/' || c.payload_encoding, '')
    from flowfabric.ff_read_execution_context(p_execution_id) as c
$$;

comment on function ff_tap.input(text) is
'The payload of an execution as text, and its encoding if it has one; NULL for none.';

create function ff_tap.attempt(p_execution_id text, p_attempt_index integer default 0)
returns flowfabric.ff_attempt
language sql stable
as $$
    select a.*
    from flowfabric._ff_all_attempts() as a, flowfabric.ff_parse_execution_id(p_execution_id) as k
    where a.partition_key = k.partition_key and a.execution_id = k.execution_id and a.attempt_index = p_attempt_index
$$;

comment on function ff_tap.attempt(text, integer) is 'One attempt of an execution.';

create function ff_tap.public_state(p_exec flowfabric.ff_exec_core)
returns flowfabric.ff_public_state
language sql stable
as $$
    select flowfabric._ff_public_state(p_exec.lifecycle_phase, p_exec.terminal_outcome, p_exec.eligibility_state)
$$;

comment on function ff_tap.public_state(flowfabric.ff_exec_core) is 'The one label for users of an execution.';

create function ff_tap.vector(p_execution_id text)
returns text
language sql stable
as $$
    select concat_ws(
        ' / ', e.lifecycle_phase, e.ownership_state, e.eligibility_state, e.blocking_reason, e.terminal_outcome,
        e.attempt_state) || ' -> ' || ff_tap.public_state(e)
    from ff_tap.core(p_execution_id) as e
$$;

comment on function ff_tap.vector(text) is 'The state vector of an execution, as the specification writes it.';

create function ff_tap.lease_events(p_execution_id text)
returns text[]
language sql stable
as $$
    select coalesce(array_agg(v.event_type || coalesce(':' || v.reason, '') order by v.event_id), '{}')
    from flowfabric.ff_lease_event as v, flowfabric.ff_parse_execution_id(p_execution_id) as k
    where v.partition_key = k.partition_key and v.execution_id = k.execution_id
$$;

comment on function ff_tap.lease_events(text) is 'The lease events of an execution, oldest first, as type:reason.';

create function ff_tap.completions(p_execution_id text)
returns text[]
language sql stable
as $$
    select coalesce(array_agg(v.outcome::text order by v.event_id), '{}')
    from flowfabric.ff_completion_event as v, flowfabric.ff_parse_execution_id(p_execution_id) as k
    where v.partition_key = k.partition_key and v.execution_id = k.execution_id
$$;

comment on function ff_tap.completions(text) is 'The outcomes of the completion events of an execution, oldest first.';

create function ff_tap.events(p_execution_id text)
returns text[]
language sql stable
as $$
    select array_agg(concat_ws(':', v.what, v.reason) || '@' || v.occurred_at_ms::text order by v.event_id)
    from flowfabric.ff_parse_execution_id(p_execution_id) as k
    join (
        select l.partition_key, l.execution_id, l.event_id, l.event_type as what, l.reason, l.occurred_at_ms
        from flowfabric.ff_lease_event as l
        union all
        select c.partition_key, c.execution_id, c.event_id, c.outcome::text, null, c.occurred_at_ms
        from flowfabric.ff_completion_event as c
    ) as v on v.partition_key = k.partition_key and v.execution_id = k.execution_id
$$;

comment on function ff_tap.events(text) is
'The lease and completion events of an execution in one order, oldest first, as type:reason@time or outcome@time.';

create function ff_tap.as_role(p_role text, p_sql text)
returns void
language plpgsql volatile
as $$
begin
    perform set_config('role', p_role, true);
    execute p_sql;
    perform set_config('role', 'none', true);
end;
$$;

comment on function ff_tap.as_role(text, text) is
'Executes a statement with the rights of a role, as SET ROLE gives them.';

-- On tables of a few analysed pages a careless plan reads them all, and outlives the few pages.
create function ff_tap.sequential_scans(p_sql text)
returns bigint
language plpgsql volatile
as $$
declare
    c_count constant text := $count$
        select sum(t.seq_scan)::bigint from pg_catalog.pg_stat_xact_user_tables as t
        where t.schemaname = 'flowfabric'
            and t.relname in ('ff_exec_core', 'ff_exec_payload', 'ff_attempt', 'ff_stream_meta') $count$;
    v_before bigint;
    v_after bigint;
begin
    analyze flowfabric.ff_exec_core, flowfabric.ff_exec_payload, flowfabric.ff_attempt, flowfabric.ff_stream_meta;
    execute c_count into v_before;
    execute p_sql;
    execute c_count into v_after;
    return v_after - v_before;
end;
$$;

comment on function ff_tap.sequential_scans(text) is
'Executes a statement and returns how often it read one of the tables that grow with the executions from end to end.';

-- By hand, because what is tested is not how a lease came by these things but that they go when it ends.
create function ff_tap.burden(p_execution_id text)
returns void
language plpgsql volatile
as $$
declare
    v_core flowfabric.ff_exec_core := ff_tap.core(p_execution_id);
begin
    insert into flowfabric.ff_quota_policy (
        quota_policy_id, requests_per_window_seconds, max_requests_per_window, active_concurrency_cap, created_at_ms,
        updated_at_ms)
    values ('quota', 60, 10, 10, 0, 0)
    on conflict do nothing;
    insert into flowfabric.ff_quota_admitted (
        quota_policy_id, partition_key, execution_id, admitted_at_ms, expires_at_ms, slot_held)
    values ('quota', v_core.partition_key, v_core.execution_id, 0, 100000, true);
    insert into flowfabric.ff_budget_policy (
        budget_id, scope_type, scope_id, enforcement_mode, on_hard_limit, on_soft_limit, created_at_ms, updated_at_ms)
    values ('budget', 'lane', 'default', 'strict', 'fail', 'warn', 0, 0)
    on conflict do nothing;
    insert into flowfabric.ff_budget_usage as u (budget_id, dimension, reserved_value, updated_at_ms)
    values ('budget', 'tokens', 40, 0)
    on conflict (budget_id, dimension) do update set reserved_value = u.reserved_value + 40;
    insert into flowfabric.ff_budget_reservation (
        budget_id, reservation_key, partition_key, execution_id, attempt_id, lease_epoch, dimensions, amounts,
        reserved_at_ms)
    values (
        'budget', v_core.execution_id::text, v_core.partition_key, v_core.execution_id, v_core.current_attempt_id,
        v_core.current_lease_epoch, '{tokens}', '{40}', 0);
    update flowfabric.ff_exec_core as e
    set quota_policy_id = 'quota', open_reservation_count = 1
    where e.partition_key = v_core.partition_key and e.execution_id = v_core.execution_id;
    insert into flowfabric.ff_stream_meta (partition_key, execution_id, attempt_index, created_at_ms)
    values (v_core.partition_key, v_core.execution_id, v_core.total_attempt_count - 1, 0);
end;
$$;

comment on function ff_tap.burden(text) is
'Gives a leased execution a quota slot, an open reservation of 40 tokens and an open output stream.';

create function ff_tap.burden_of(p_execution_id text)
returns text
language sql stable
as $$
    select format(
        'slot %s, %s, %s open, stream %s',
        case when q.slot_held then 'held' else 'free' end, concat_ws(':', r.state, r.close_reason),
        e.open_reservation_count, coalesce(m.closed_reason || '@' || m.closed_at_ms::text, 'open'))
    from ff_tap.core(p_execution_id) as e
    join flowfabric.ff_quota_admitted as q on q.partition_key = e.partition_key and q.execution_id = e.execution_id
    join flowfabric.ff_budget_reservation as r on r.partition_key = e.partition_key and r.execution_id = e.execution_id
    join flowfabric.ff_stream_meta as m on m.partition_key = e.partition_key and m.execution_id = e.execution_id
        and m.attempt_index = e.total_attempt_count - 1
$$;

comment on function ff_tap.burden_of(text) is 'What has become of the things that ff_tap.burden gave.';

-- By hand as well: the suspension that a worker asks for is tested where it is made.
create function ff_tap.suspended_execution(p_execution_id text)
returns text
language plpgsql volatile
as $$
declare
    c_suspension_id constant uuid := gen_random_uuid();
    c_waitpoint_ids constant uuid[] := array[gen_random_uuid(), gen_random_uuid()];
    v_now_ms bigint := flowfabric.ff_now_ms();
    v_core flowfabric.ff_exec_core;
begin
    perform ff_tap.leased_execution(p_execution_id);
    v_core := ff_tap.core(p_execution_id);
    perform flowfabric._ff_pause_attempt(v_core, c_suspension_id::text, v_now_ms);
    perform flowfabric._ff_set_unowned_state(
        v_core, 'suspended', 'not_applicable', 'waiting_for_signal', null, 'none', 'attempt_interrupted', null,
        c_suspension_id, c_waitpoint_ids[1], 'suspend', v_now_ms);
    insert into flowfabric.ff_suspension_current (
        partition_key, execution_id, suspension_id, attempt_index, suspended_at_ms, reason_code, requested_by,
        condition, consume_matched_signals, retain_signal_buffer_until_closed, close_waitpoint_on_resume,
        resume_target)
    values (
        v_core.partition_key, v_core.execution_id, c_suspension_id, 0, v_now_ms, 'waiting_for_signal', 'worker', '{}',
        true, true, true, 'runnable');
    insert into flowfabric.ff_waitpoint_pending (
        partition_key, waitpoint_id, execution_id, attempt_index, waitpoint_key, state, suspension_id, ordinal,
        token_kid, token_fingerprint, created_at_ms, activated_at_ms)
    select
        v_core.partition_key, w.waitpoint_id, v_core.execution_id, 0, 'wpk:' || w.waitpoint_id::text, 'active',
        c_suspension_id, w.ordinal, 'kid', '0123456789abcdef', v_now_ms, v_now_ms
    from unnest(c_waitpoint_ids) with ordinality as w (waitpoint_id, ordinal);
    insert into flowfabric.ff_suspension_satisfier (
        partition_key, suspension_id, node_path, token, execution_id, signal_id)
    values (v_core.partition_key, c_suspension_id, '', 'leaf', v_core.execution_id, gen_random_uuid());
    return p_execution_id;
end;
$$;

comment on function ff_tap.suspended_execution(text) is
'Creates an execution that is suspended on two waitpoints, one of them half satisfied, and returns its id.';

create function ff_tap.suspension_of(p_execution_id text)
returns text
language sql stable
as $$
    select format(
        'suspension %s@%s by %s, satisfied %s, %s of %s waitpoints closed, %s satisfiers',
        coalesce(u.close_reason, 'open'), u.closed_at_ms, coalesce(u.resume_trigger, 'nobody'),
        coalesce(u.satisfied_at_ms::text, 'never'),
        (select count(*) from flowfabric.ff_waitpoint_pending as w
         where w.suspension_id = u.suspension_id and w.close_reason = u.close_reason and w.state = 'closed'
             and w.closed_at_ms = u.closed_at_ms),
        (select count(*) from flowfabric.ff_waitpoint_pending as w where w.suspension_id = u.suspension_id),
        (select count(*) from flowfabric.ff_suspension_satisfier as t where t.suspension_id = u.suspension_id))
    from flowfabric.ff_suspension_current as u, flowfabric.ff_parse_execution_id(p_execution_id) as k
    where u.partition_key = k.partition_key and u.execution_id = k.execution_id
$$;

comment on function ff_tap.suspension_of(text) is 'What has become of a suspension and its waitpoints.';

-- Checks F1 to F7 of a call that needs the fence of a live lease, in their order. p_call is a format string:
-- %1$L execution id, %2$L lease id, %3$L lease epoch, %4$L attempt id and, if operators may override, %5$L source.
create function ff_tap.refuses_bad_fences(p_call text, p_has_override boolean default true)
returns setof text
language plpgsql volatile
as $$
declare
    c_execution constant text := '{fp:86}:00000000-0000-4000-8000-00000f000001';
    c_waiting constant text := '{fp:86}:00000000-0000-4000-8000-00000f000002';
    c_ended constant text := '{fp:86}:00000000-0000-4000-8000-00000f000003';
    c_unknown constant text := '{fp:86}:00000000-0000-4000-8000-00000f000004';
    c_other constant uuid := '00000000-0000-4000-8000-0000000000ff';
    c_lease constant uuid := ff_tap.lease_id();
    c_attempt constant uuid := ff_tap.attempt_id();
    v_good text := format(p_call, c_execution, c_lease, 7, c_attempt, null);
    v_stale text := format(p_call, c_execution, c_other, 6, c_other, null);
    v_override text := format(p_call, c_execution, null, null, null, 'operator_override');
    v_core flowfabric.ff_exec_core;
    v_attempt flowfabric.ff_attempt;
begin
    perform ff_tap.freeze_time(1000);
    perform ff_tap.leased_execution(c_execution, p_lease_epoch => 7, p_lease_expires_at_ms => 1500);
    perform ff_tap.execution(c_waiting);
    perform ff_tap.leased_execution(c_ended);
    perform flowfabric.ff_complete_execution(c_ended, c_lease, 1, c_attempt);
    v_core := ff_tap.core(c_execution);
    v_attempt := ff_tap.attempt(c_execution, 1);

    return next is(
        ff_tap.error_of(format(p_call, '{fp:86}:x', c_lease, 7, c_attempt, null))
        - array['fn', 'value'],
        '{"code": "invalid_input", "field": "execution_id", "reason": "bad_uuid"}',
        'a malformed execution id is refused');
    return next throws_ok(
        format(p_call, c_unknown, c_lease, null, null, null), 'ZN001', 'execution_not_found',
        'F1: an unknown execution is refused before its fence is looked at');
    return next throws_ok(
        format(p_call, c_execution, c_lease, 7, null, null), 'ZV027', 'partial_fence_triple',
        'F2: a fence is whole or none');
    return next is(
        ff_tap.error_of(format(p_call, c_waiting, null, 7, null, null)) - 'fn',
        jsonb_build_object(
            'code', 'partial_fence_triple', 'execution_id', c_waiting,
            'missing', jsonb_build_array('lease_id', 'attempt_id')),
        'F2: it says what is missing, and comes before the phase');
    return next throws_ok(
        format(p_call, c_waiting, null, null, null, null), 'ZV026', 'fence_required',
        'F3: without a fence the call is refused, and that comes before the phase');
    return next is(
        ff_tap.error_of(format(p_call, c_waiting, c_lease, 0, c_attempt, null)) - 'fn',
        jsonb_build_object(
            'code', 'execution_not_active', 'execution_id', c_waiting, 'lifecycle_phase', 'runnable',
            'terminal_outcome', 'none', 'lease_epoch', 0, 'attempt_state', 'pending_first_attempt'),
        'F4: what was never claimed is not active');
    return next throws_ok(
        format(p_call, c_ended, c_other, 0, c_other, null), 'ZC011', 'execution_not_active',
        'F4: what has ended is not active, and that comes before the lease');
    return next is(
        ff_tap.error_of(format(p_call, c_ended, c_lease, 1, c_attempt, null)) - 'fn',
        jsonb_build_object(
            'code', 'execution_not_active', 'execution_id', c_ended, 'lifecycle_phase', 'terminal',
            'terminal_outcome', 'success', 'lease_epoch', 1, 'attempt_id', c_attempt,
            'attempt_state', 'attempt_terminal'),
        'F4: the detail has what reconciliation needs');
    return next throws_ok(
        format(p_call, c_execution, c_other, 7, c_attempt, null), 'ZS001', 'stale_lease',
        'F7: another lease id is fenced off');
    return next is(
        ff_tap.error_of(format(p_call, c_execution, c_lease, 6, c_attempt, null)) -> 'mismatch', '["lease_epoch"]',
        'F7: an older epoch is fenced off');
    return next is(
        ff_tap.error_of(format(p_call, c_execution, c_lease, 7, c_other, null)) -> 'mismatch', '["attempt_id"]',
        'F7: another attempt id is fenced off');
    return next is(
        ff_tap.error_of(v_stale) - 'fn',
        jsonb_build_object(
            'code', 'stale_lease', 'execution_id', c_execution, 'lease_epoch', 7,
            'mismatch', jsonb_build_array('lease_id', 'lease_epoch', 'attempt_id')),
        'F7: it says everything that differs');
    if p_has_override then
        return next is(
            ff_tap.error_of(format(p_call, c_unknown, null, null, null, 'somebody')) - 'fn',
            '{"code": "invalid_input", "field": "source", "reason": "unknown", "value": "somebody"}',
            'an unknown source is refused before anything else');
        return next is(
            ff_tap.error_of(format(
                'select ff_tap.as_role(%L, %L)', 'flowfabric_worker', v_override)) - array['fn', 'op'],
            '{"code": "unauthorized", "role": "flowfabric_operator"}',
            'F3: an override by a worker is refused');
        return next throws_ok(
            format(
                'select ff_tap.as_role(%L, %L)', 'flowfabric_worker',
                format(p_call, c_execution, c_lease, 7, c_attempt, 'operator_override')),
            'ZV017', 'unauthorized', 'F3: a worker cannot override even with a good fence');
        return next throws_ok(
            format(p_call, c_execution, c_lease, 6, c_attempt, 'operator_override'), 'ZS001', 'stale_lease',
            'F7: an override that shows a fence is held to it');
    end if;

    perform ff_tap.freeze_time(1500);
    return next is(
        ff_tap.error_of(v_stale) - 'fn',
        jsonb_build_object(
            'code', 'lease_expired', 'execution_id', c_execution, 'lease_epoch', 7, 'lease_expires_at_ms', 1500,
            'now_ms', 1500),
        'F6: a lease is over at the instant of its expiry, and that comes before the comparison');
    return next throws_ok(v_good, 'ZS002', 'lease_expired', 'F6: a good fence does not help an expired lease');
    if p_has_override then
        return next throws_ok(
            v_override, 'ZS002', 'lease_expired', 'F6: an override cannot finish an expired lease');
    end if;
    return next is(ff_tap.core(c_execution), v_core, 'a refusal writes nothing to the execution');
    return next is(ff_tap.attempt(c_execution, 1), v_attempt, 'a refusal writes nothing to the attempt');
    return next is(
        ff_tap.lease_events(c_execution), array['acquired:issue_grant_and_claim'], 'a refusal writes no event');

    perform flowfabric._ff_lose_lease(v_core, 'lease_expired_reclaimable', null, 1500);
    return next throws_ok(v_good, 'ZS002', 'lease_expired', 'F6: a lease that was marked expired is over');
    perform ff_tap.freeze_time(1499);
    return next throws_ok(
        v_good, 'ZS002', 'lease_expired', 'F6: a lease that was marked expired is over even by an earlier clock');
    perform ff_tap.freeze_time(1500);
    update flowfabric.ff_exec_core as e
    set lease_expires_at_ms = 1600
    where e.partition_key = v_core.partition_key and e.execution_id = v_core.execution_id;
    perform flowfabric._ff_lose_lease(ff_tap.core(c_execution), 'lease_revoked', 'maintenance', 1500);
    return next is(
        ff_tap.error_of(v_stale) - 'fn',
        jsonb_build_object(
            'code', 'lease_revoked', 'execution_id', c_execution, 'lease_epoch', 7, 'lease_revoked_at_ms', 1500,
            'lease_revoke_reason', 'maintenance'),
        'F5: a revoked lease is refused, and that comes before the comparison');
    return next throws_ok(v_good, 'ZS003', 'lease_revoked', 'F5: a good fence does not help a revoked lease');
    perform ff_tap.freeze_time(1600);
    return next throws_ok(v_good, 'ZS003', 'lease_revoked', 'F5: revocation comes before expiry');
    if p_has_override then
        return next throws_ok(
            v_override, 'ZS003', 'lease_revoked', 'F5: an override cannot finish a revoked lease');
    end if;
end;
$$;

comment on function ff_tap.refuses_bad_fences(text, boolean) is
'28 tests of a call that needs a fence, 22 of one without override; moves the clock from 1000 to 1600.';
