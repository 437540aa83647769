-- What the files of this folder include first: the common fixtures, a signing key whose secret the tests know, and
-- executions that are suspended.
\ir ../helpers.sql
\if :ff_tap_is_alone
    \quit
\endif

create function ff_tap.waitpoint_id(p_number integer default 1)
returns uuid
language sql immutable
as $$ select ('00000000-0000-4000-8000-' || lpad((170000 + p_number)::text, 12, '0'))::uuid $$;

comment on function ff_tap.waitpoint_id(integer) is 'A waitpoint id for tests to give.';

create function ff_tap.suspension_id()
returns uuid
language sql immutable
as $$ select '00000000-0000-4000-8000-00000000005a'::uuid $$;

comment on function ff_tap.suspension_id() is 'A suspension id for tests to give.';

create function ff_tap.signing_key(p_kid text default 'kid-1', p_grace_ms bigint default 1000)
returns void
language sql volatile
as $$ select flowfabric.ff_rotate_waitpoint_hmac_secret(p_kid, repeat('ab', 32), p_grace_ms) $$;

comment on function ff_tap.signing_key(text, bigint) is
'Makes a key the current one; its secret is 32 bytes 0xab, whatever its name.';

create function ff_tap.single(p_signal_name text default 'approved', p_waitpoint_key text default 'wpk:approval')
returns jsonb
language sql immutable
as $$
    select jsonb_build_object('Single', jsonb_build_object(
        'waitpoint_key', p_waitpoint_key,
        'matcher', case
            when p_signal_name is null then '"Wildcard"' else jsonb_build_object('ByName', p_signal_name)
        end))
$$;

comment on function ff_tap.single(text, text) is 'A condition on one signal name, or on any for NULL.';

create function ff_tap.all_of(variadic p_members jsonb[])
returns jsonb
language sql immutable
as $$ select jsonb_build_object('Composite', jsonb_build_object('kind', 'AllOf', 'members', to_jsonb(p_members))) $$;

comment on function ff_tap.all_of(jsonb[]) is 'A condition that needs all of others.';

create function ff_tap.all_of()
returns jsonb
language sql immutable
as $$ select ff_tap.all_of(variadic '{}'::jsonb[]) $$;

comment on function ff_tap.all_of() is 'An AllOf without members, which no suspension accepts.';

create function ff_tap.count_of(
    p_n integer,
    p_count_kind text,
    p_waitpoint_keys text[] default '{wpk:approval}',
    p_signal_name text default null
)
returns jsonb
language sql immutable
as $$
    select jsonb_build_object('Composite', jsonb_strip_nulls(jsonb_build_object(
        'kind', 'Count', 'n', p_n, 'count_kind', p_count_kind, 'waitpoints', to_jsonb(p_waitpoint_keys),
        'matcher', case when p_signal_name is not null then jsonb_build_object('ByName', p_signal_name) end)))
$$;

comment on function ff_tap.count_of(integer, text, text[], text) is
'A condition on a number of distinct satisfiers; without a name any signal counts.';

-- Leased at the clock's present and suspended at once. Waitpoints get the ids that waitpoint_id() gives, beginning with
-- p_first_waitpoint, in the order in which the condition names their keys.
create function ff_tap.paused_execution(
    p_execution_id text default '{fp:86}:00000000-0000-4000-8000-000000000001',
    p_condition jsonb default ff_tap.single(),
    p_first_waitpoint integer default 1,
    p_timeout_at_ms bigint default null,
    p_timeout_behavior text default 'fail',
    p_resume_delay_ms bigint default 0,
    p_policy jsonb default null,
    p_suspension_id uuid default null,
    p_deadline_at_ms bigint default null,
    p_attempt_timeout_ms bigint default null
)
returns text
language plpgsql volatile
as $$
begin
    perform ff_tap.leased_execution(
        p_execution_id, p_policy, p_deadline_at_ms => p_deadline_at_ms, p_attempt_timeout_ms => p_attempt_timeout_ms);
    perform ff_tap.suspend(
        p_execution_id, p_condition, p_first_waitpoint, p_timeout_at_ms, p_timeout_behavior, p_resume_delay_ms,
        p_suspension_id);
    return p_execution_id;
end;
$$;

comment on function ff_tap.paused_execution(
    text, jsonb, integer, bigint, text, bigint, jsonb, uuid, bigint, bigint) is
'Creates an execution that is suspended on a condition, and returns its id.';

create function ff_tap.suspend(
    p_execution_id text,
    p_condition jsonb default ff_tap.single(),
    p_first_waitpoint integer default 1,
    p_timeout_at_ms bigint default null,
    p_timeout_behavior text default 'fail',
    p_resume_delay_ms bigint default 0,
    p_suspension_id uuid default null
)
returns void
language plpgsql volatile
as $$
declare
    v_core flowfabric.ff_exec_core := ff_tap.core(p_execution_id);
begin
    perform flowfabric.ff_suspend_execution(
        p_execution_id, v_core.current_lease_id, v_core.current_lease_epoch, v_core.current_attempt_id, p_condition,
        'waiting_for_approval',
        p_waitpoint_ids => (
            select array_agg(ff_tap.waitpoint_id(n) order by n)
            from generate_series(
                p_first_waitpoint,
                p_first_waitpoint + greatest(cardinality(flowfabric._ff_condition_keys(p_condition)), 1) - 1) as n),
        p_waitpoint_keys => coalesce(
            nullif(flowfabric._ff_condition_keys(p_condition), '{}'), array['wpk:' || p_first_waitpoint]),
        p_timeout_at_ms => p_timeout_at_ms, p_timeout_behavior => p_timeout_behavior,
        p_resume_delay_ms => p_resume_delay_ms, p_suspension_id => p_suspension_id);
end;
$$;

comment on function ff_tap.suspend(text, jsonb, integer, bigint, text, bigint, uuid) is
'Suspends an execution as whoever holds its lease.';

create function ff_tap.reclaim_resumed(p_execution_id text)
returns void
language sql volatile
as $$
    select flowfabric.ff_issue_grant_and_claim(
        p_execution_id, 30000, p_worker_id => 'worker', p_worker_instance_id => 'worker-1')
$$;

comment on function ff_tap.reclaim_resumed(text) is 'Lets worker-1 go on with a resumed execution.';

create function ff_tap.pending_waitpoint(
    p_execution_id text,
    p_number integer default 1,
    p_waitpoint_key text default 'wpk:approval',
    p_expires_in_ms bigint default 10000
)
returns uuid
language plpgsql volatile
as $$
declare
    v_core flowfabric.ff_exec_core := ff_tap.core(p_execution_id);
begin
    perform flowfabric.ff_create_pending_waitpoint(
        p_execution_id, v_core.current_lease_id, v_core.current_lease_epoch, v_core.current_attempt_id,
        p_waitpoint_key, p_expires_in_ms, ff_tap.waitpoint_id(p_number));
    return ff_tap.waitpoint_id(p_number);
end;
$$;

comment on function ff_tap.pending_waitpoint(text, integer, text, bigint) is
'Opens a pending waitpoint as whoever holds the lease, and returns its id.';

create function ff_tap.waitpoint(p_number integer default 1)
returns flowfabric.ff_waitpoint_pending
language sql stable
as $$
    select w.* from flowfabric.ff_waitpoint_pending as w where w.waitpoint_id = ff_tap.waitpoint_id(p_number)
$$;

comment on function ff_tap.waitpoint(integer) is 'The row of a waitpoint.';

create function ff_tap.suspension(p_execution_id text)
returns flowfabric.ff_suspension_current
language sql stable
as $$
    select u.*
    from flowfabric.ff_suspension_current as u, flowfabric.ff_parse_execution_id(p_execution_id) as k
    where u.partition_key = k.partition_key and u.execution_id = k.execution_id
$$;

comment on function ff_tap.suspension(text) is 'The latest suspension of an execution.';

create function ff_tap.token(p_number integer default 1)
returns text
language sql volatile
as $$
    select (flowfabric._ff_token_again(ff_tap.waitpoint(p_number), flowfabric.ff_now_ms(), 'ff_tap')).waitpoint_token
$$;

comment on function ff_tap.token(integer) is 'A good token of a waitpoint.';

create function ff_tap.execution_of(p_number integer)
returns text
language sql stable
as $$
    select flowfabric.ff_format_execution_id(w.partition_key, w.execution_id) from ff_tap.waitpoint(p_number) as w
$$;

comment on function ff_tap.execution_of(integer) is 'The execution that a waitpoint belongs to.';

create function ff_tap.deliver(
    p_signal_name text default 'approved',
    p_number integer default 1,
    p_source_identity text default '',
    p_source_type text default 'external',
    p_signal_id uuid default null,
    p_idempotency_key text default null,
    p_payload bytea default null
)
returns text
language sql volatile
as $$
    select coalesce(d.effect, d.outcome)
    from flowfabric.ff_deliver_signal(
        ff_tap.execution_of(p_number), ff_tap.waitpoint_id(p_number), ff_tap.token(p_number), p_signal_name,
        p_signal_id => p_signal_id, p_source_identity => p_source_identity, p_source_type => p_source_type,
        p_idempotency_key => p_idempotency_key, p_payload => p_payload) as d
$$;

comment on function ff_tap.deliver(text, integer, text, text, uuid, text, bytea) is
'Delivers a signal to a waitpoint with a good token; returns its effect, or `duplicate`.';

create function ff_tap.buffer(
    p_signal_name text default 'approved',
    p_number integer default 1,
    p_source_identity text default '',
    p_signal_id uuid default null
)
returns text
language sql volatile
as $$
    select coalesce(d.effect, d.outcome)
    from flowfabric.ff_buffer_signal_for_pending_waitpoint(
        ff_tap.execution_of(p_number), ff_tap.waitpoint_id(p_number), ff_tap.token(p_number), p_signal_name,
        p_source_identity => p_source_identity, p_signal_id => p_signal_id) as d
$$;

comment on function ff_tap.buffer(text, integer, text, uuid) is
'Buffers a signal at a waitpoint with a good token; returns its effect, or `duplicate`.';

create function ff_tap.signals(p_execution_id text)
returns text[]
language sql stable
as $$
    select coalesce(
        array_agg(
            s.seq::text || ':' || s.signal_name || ':' || s.observed_effect
            || case when s.is_satisfier then '*' else '' end order by s.seq), '{}')
    from flowfabric.ff_signal as s, flowfabric.ff_parse_execution_id(p_execution_id) as k
    where s.partition_key = k.partition_key and s.execution_id = k.execution_id
$$;

comment on function ff_tap.signals(text) is
'The signals of an execution in their order, as seq:name:effect; a star marks those that counted.';

create function ff_tap.signal_events(p_execution_id text)
returns text[]
language sql stable
as $$
    select coalesce(array_agg(v.signal_name || ':' || v.effect order by v.event_id), '{}')
    from flowfabric.ff_signal_event as v, flowfabric.ff_parse_execution_id(p_execution_id) as k
    where v.partition_key = k.partition_key and v.execution_id = k.execution_id
$$;

comment on function ff_tap.signal_events(text) is 'The signal events of an execution, oldest first, as name:effect.';

-- Everything that a suspension has written, to compare before and after a refusal.
create function ff_tap.suspension_rows()
returns jsonb
language sql stable
as $$
    select jsonb_build_object(
        'core', (select jsonb_agg(to_jsonb(e) order by e.execution_id) from flowfabric.ff_exec_core as e),
        'suspension', (select jsonb_agg(to_jsonb(u) order by u.execution_id)
                       from flowfabric.ff_suspension_current as u),
        'waitpoint', (select jsonb_agg(to_jsonb(w) order by w.waitpoint_id)
                      from flowfabric.ff_waitpoint_pending as w),
        'signal', (select jsonb_agg(to_jsonb(s) order by s.execution_id, s.seq) from flowfabric.ff_signal as s),
        'dedup', (select jsonb_agg(to_jsonb(d) order by d.waitpoint_id, d.idempotency_key)
                  from flowfabric.ff_signal_dedup as d),
        'satisfier', (select jsonb_agg(to_jsonb(t) order by t.suspension_id, t.node_path, t.token)
                      from flowfabric.ff_suspension_satisfier as t),
        'events', (select count(*) from flowfabric.ff_signal_event),
        'note', (select jsonb_agg(to_jsonb(n) order by n.execution_id) from flowfabric.ff_exec_note as n))
$$;

comment on function ff_tap.suspension_rows() is
'All executions with their suspensions, waitpoints and signals, for comparison.';
