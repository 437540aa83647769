-- Zombies: every write of a worker, tried by a worker that has lost its lease in every way there is.
--
-- Fills the temporary table zombie_case with one row per function and situation: the SQLSTATE that the specification
-- gives, the one that came, and how many rows were written. Make it part of a transaction and roll that back;
-- zombies.sql does, and prints the table. Works with the clock of production as with the test clock, which then stands
-- still, so that a lease is tried at the very instant of its expiry. Run it as the owner of the installation or as a
-- superuser: it makes what it needs through the public functions and tries each call as flowfabric_worker.

set local client_min_messages = warning;
set local search_path = pg_catalog, pg_temp;

-- What is tried. %1$L is the execution, %2$L to %4$L the fence (lease id, lease epoch, attempt id), %5$L the attempt
-- index, %6$L a waitpoint. A batch answers with the SQLSTATE of its item; another call that answers was accepted.
create temporary table zombie_call (
    function_name text primary key,
    statement text not null
) on commit drop;

insert into pg_temp.zombie_call values
(
    'ff_append_frame',
    'select null from flowfabric.ff_append_frame(%1$L, %5$L, %2$L, %3$L, %4$L, ''stdout'', ''late'')'
),
(
    'ff_cancel_execution',
    'select null from flowfabric.ff_cancel_execution(%1$L, ''late'', ''lease_holder'', %2$L, %3$L, %4$L)'
),
(
    'ff_close_waitpoint',
    'select null from flowfabric.ff_close_waitpoint(%1$L, %6$L, ''late'', %2$L, %3$L, %4$L)'
),
('ff_complete_execution', 'select null from flowfabric.ff_complete_execution(%1$L, %2$L, %3$L, %4$L, ''late'')'),
(
    'ff_complete_executions',
    'select r.sqlstate from flowfabric.ff_complete_executions(
        array[%1$L], array[%2$L]::uuid[], array[%3$L]::bigint[], array[%4$L]::uuid[]) as r'
),
(
    'ff_create_pending_waitpoint',
    'select null from flowfabric.ff_create_pending_waitpoint(%1$L, %2$L, %3$L, %4$L, ''late'', 1000)'
),
(
    'ff_delay_execution',
    'select null from flowfabric.ff_delay_execution(%1$L, flowfabric.ff_now_ms() + 1000, %2$L, %3$L, %4$L)'
),
('ff_fail_execution', 'select null from flowfabric.ff_fail_execution(%1$L, %2$L, %3$L, %4$L, ''late'')'),
(
    'ff_fail_executions',
    'select r.sqlstate from flowfabric.ff_fail_executions(
        array[%1$L], array[%2$L]::uuid[], array[%3$L]::bigint[], array[%4$L]::uuid[]) as r'
),
('ff_move_to_waiting_children', 'select null from flowfabric.ff_move_to_waiting_children(%1$L, %2$L, %3$L, %4$L)'),
(
    'ff_record_spend',
    'select null from flowfabric.ff_record_spend(
        ''zombies'', array[''tokens''], array[1], %1$L, null, %2$L, %3$L, %4$L)'
),
(
    'ff_release_reservation',
    'select null from flowfabric.ff_release_reservation(''zombies'', %1$L, %1$L, %2$L, %3$L, %4$L)'
),
('ff_renew_lease', 'select null from flowfabric.ff_renew_lease(%1$L, %2$L, %3$L, %4$L)'),
(
    'ff_renew_leases',
    'select r.sqlstate from flowfabric.ff_renew_leases(
        array[%1$L], array[%2$L]::uuid[], array[%3$L]::bigint[], array[%4$L]::uuid[]) as r'
),
(
    'ff_report_usage_and_check',
    'select null from flowfabric.ff_report_usage_and_check(
        ''zombies'', array[''tokens''], array[1], null, %1$L, %2$L, %3$L, %4$L)'
),
(
    'ff_reserve_budget',
    'select null from flowfabric.ff_reserve_budget(
        ''zombies'', array[''tokens''], array[1], %1$L, %2$L, %3$L, %4$L)'
),
(
    'ff_settle_reservation',
    'select null from flowfabric.ff_settle_reservation(
        ''zombies'', %1$L, array[''tokens''], array[1], %1$L, %2$L, %3$L, %4$L)'
),
(
    'ff_suspend_execution',
    'select null from flowfabric.ff_suspend_execution(
        %1$L, %2$L, %3$L, %4$L, ''{"Single": {"waitpoint_key": "late", "matcher": "Wildcard"}}'',
        ''waiting_for_signal'')'
),
('ff_update_progress', 'select null from flowfabric.ff_update_progress(%1$L, %2$L, %3$L, %4$L, 50, ''late'')');

-- Who else has a parameter for a lease id, and why it is no write under a lease: it proposes the id of a new one.
create temporary table zombie_exempt (function_name text primary key) on commit drop;
insert into pg_temp.zombie_exempt values
('ff_claim_execution'), ('ff_claim_resumed_execution'), ('ff_issue_grant_and_claim'), ('ff_reclaim_execution');

-- Asked of the catalogue, so that a new write under a lease cannot be forgotten.
create temporary view zombie_forgotten as
select p.proname::text
from pg_catalog.pg_proc as p
where p.pronamespace = 'flowfabric'::regnamespace and starts_with(p.proname, 'ff_')
    and p.proargnames && array['p_lease_id', 'p_lease_ids']
    and not exists (select from pg_temp.zombie_call as c where c.function_name = p.proname)
    and not exists (select from pg_temp.zombie_exempt as x where x.function_name = p.proname);

-- How a worker loses its lease, and the code for it (F1 to F7 of the fence).
create temporary table zombie_situation (
    number integer generated always as identity,
    situation text primary key,
    code text not null
) on commit drop;

insert into pg_temp.zombie_situation (situation, code) values
('lease expired, nobody has noticed', 'lease_expired'),
('lease expired and marked', 'lease_expired'),
('lease expired and reclaimed by another', 'stale_lease'),
('lease revoked', 'lease_revoked'),
('lease revoked and reclaimed by another', 'stale_lease'),
('cancelled by an operator', 'execution_not_active'),
('past its deadline', 'execution_not_active'),
('completed by itself', 'execution_not_active'),
('completed and replayed', 'execution_not_active'),
('completed, replayed and claimed by another', 'stale_lease'),
('failed by itself, waits for its retry', 'execution_not_active'),
('failed by itself, retried by another', 'stale_lease'),
('suspended by itself', 'execution_not_active'),
('suspended and resumed', 'execution_not_active'),
('suspended, resumed and claimed by another', 'stale_lease'),
('delayed by itself', 'execution_not_active'),
('delayed, promoted and claimed by another', 'stale_lease'),
('given back and claimed by another', 'stale_lease'),
('another lease id', 'stale_lease'),
('an older epoch', 'stale_lease'),
('a later epoch', 'stale_lease'),
('another attempt id', 'stale_lease'),
('no fence', 'fence_required'),
('no lease id', 'partial_fence_triple'),
('no epoch', 'partial_fence_triple'),
('no attempt id', 'partial_fence_triple'),
('an execution that does not exist', 'execution_not_found');

-- What the specification lets a function say in its own way. A stream answers whoever may not append with one of two
-- codes; opening a waitpoint names a lease that is not held before it looks at the fence.
create temporary table zombie_other_code (
    function_name text not null,
    usual_code text not null,
    situation text,
    code text not null
) on commit drop;

insert into pg_temp.zombie_other_code values
('ff_append_frame', 'lease_expired', null, 'stale_owner_cannot_append'),
('ff_append_frame', 'lease_revoked', null, 'stale_owner_cannot_append'),
('ff_append_frame', 'stale_lease', null, 'stale_owner_cannot_append'),
('ff_append_frame', 'execution_not_active', null, 'stream_closed'),
('ff_append_frame', 'execution_not_found', null, 'stream_closed'),
('ff_create_pending_waitpoint', 'lease_revoked', null, 'no_active_lease'),
('ff_create_pending_waitpoint', 'lease_expired', 'lease expired and marked', 'no_active_lease');

create temporary table zombie_case (
    function_name text not null,
    situation text not null,
    situation_number integer not null,
    expected_code text not null,
    expected text not null,
    actual text,
    rows_written bigint not null,
    primary key (function_name, situation)
) on commit drop;

-- The same calls by a worker whose lease is live. Each must be accepted (actual is NULL), or refusals prove nothing.
create temporary table zombie_control (function_name text primary key, actual text) on commit drop;

-- A worker with everything that a lease can hold: a stream, a reservation, a waitpoint.
create type pg_temp.zombie as (
    execution_id text, lease_id uuid, lease_epoch bigint, attempt_id uuid, attempt_index integer, waitpoint_id uuid);

create function pg_temp.zombie_claim(p_execution_id text, p_worker text)
returns pg_temp.zombie
language sql volatile
as $$
    select row(c.execution_id, c.lease_id, c.lease_epoch, c.attempt_id, c.attempt_index, null)::pg_temp.zombie
    from flowfabric.ff_issue_grant_and_claim(
        p_execution_id, 600000, p_worker_id => 'zombies', p_worker_instance_id => p_worker) as c
$$;

create function pg_temp.zombie_with_lease()
returns pg_temp.zombie
language plpgsql volatile
as $$
declare
    v_zombie pg_temp.zombie;
begin
    select z.* into v_zombie
    from flowfabric.ff_create_execution(
        'zombie', p_lane_id => 'zombies',
        p_policy => '{"retry_policy": {"max_retries": 1, "backoff": {"type": "fixed", "delay_ms": 1}}}') as c
    cross join lateral pg_temp.zombie_claim(c.execution_id, 'zombie') as z;
    perform flowfabric.ff_append_frame(
        v_zombie.execution_id, v_zombie.attempt_index, v_zombie.lease_id, v_zombie.lease_epoch, v_zombie.attempt_id,
        'stdout', 'in time');
    perform flowfabric.ff_reserve_budget(
        'zombies', array['tokens'], array[1], v_zombie.execution_id, v_zombie.lease_id, v_zombie.lease_epoch,
        v_zombie.attempt_id, v_zombie.execution_id);
    select w.waitpoint_id into v_zombie.waitpoint_id
    from flowfabric.ff_create_pending_waitpoint(
        v_zombie.execution_id, v_zombie.lease_id, v_zombie.lease_epoch, v_zombie.attempt_id, 'in time', 600000) as w;
    return v_zombie;
end;
$$;

create function pg_temp.zombie_has_test_clock()
returns boolean
language sql stable
as $$
    select s.value = 1 from flowfabric.ff_setting as s where s.name = 'test_clock'
    union all
    select false
    limit 1
$$;

create function pg_temp.zombie_wait_until(p_ms bigint)
returns void
language plpgsql volatile
as $$
begin
    if pg_temp.zombie_has_test_clock() then
        perform flowfabric.ff_test_set_clock('freeze', p_ms);
    end if;
    while flowfabric.ff_now_ms() < p_ms loop
        perform pg_sleep(0.001);
    end loop;
end;
$$;

create function pg_temp.zombie_expire(p_zombie pg_temp.zombie)
returns void
language plpgsql volatile
as $$
begin
    perform pg_temp.zombie_wait_until(r.lease_expires_at_ms)
    from flowfabric.ff_renew_lease(
        p_zombie.execution_id, p_zombie.lease_id, p_zombie.lease_epoch, p_zombie.attempt_id, 1) as r;
end;
$$;

create function pg_temp.zombie_reclaim(p_zombie pg_temp.zombie)
returns void
language plpgsql volatile
as $$
begin
    perform flowfabric.ff_issue_reclaim_grant(p_zombie.execution_id, 'zombies', 'another');
    perform flowfabric.ff_reclaim_execution(p_zombie.execution_id, 'zombies', 'another', 600000);
end;
$$;

create function pg_temp.zombie_suspend(p_zombie pg_temp.zombie)
returns void
language plpgsql volatile
as $$
begin
    perform flowfabric.ff_suspend_execution(
        p_zombie.execution_id, p_zombie.lease_id, p_zombie.lease_epoch, p_zombie.attempt_id,
        '{"Single": {"waitpoint_key": "signal", "matcher": "Wildcard"}}', 'waiting_for_signal');
end;
$$;

create function pg_temp.zombie_claim_when_due(p_zombie pg_temp.zombie)
returns void
language plpgsql volatile
as $$
begin
    perform pg_temp.zombie_wait_until(e.delay_until_ms)
    from flowfabric.ff_describe_execution(p_zombie.execution_id) as e;
    perform flowfabric.ff_promote_delayed(p_zombie.execution_id);
    perform pg_temp.zombie_claim(p_zombie.execution_id, 'another');
end;
$$;

-- Brings a worker into a situation and returns what it believes that it holds.
create function pg_temp.zombie_in(p_situation text)
returns pg_temp.zombie
language plpgsql volatile
as $$
declare
    z pg_temp.zombie := pg_temp.zombie_with_lease();
    c_other constant uuid := '00000000-0000-4000-8000-00000000dead';
begin
    case
        when p_situation like 'lease expired%' then perform pg_temp.zombie_expire(z);
        when p_situation like 'lease revoked%' then perform flowfabric.ff_revoke_lease(z.execution_id);
        when p_situation like 'completed%' then
            perform flowfabric.ff_complete_execution(z.execution_id, z.lease_id, z.lease_epoch, z.attempt_id);
        when p_situation like 'failed%' then
            perform flowfabric.ff_fail_execution(z.execution_id, z.lease_id, z.lease_epoch, z.attempt_id, 'in time');
        when p_situation like 'suspended%' then perform pg_temp.zombie_suspend(z);
        when p_situation like 'delayed%' then
            perform flowfabric.ff_delay_execution(
                z.execution_id, flowfabric.ff_now_ms() + 1, z.lease_id, z.lease_epoch, z.attempt_id);
        when p_situation like 'given back%' then
            perform flowfabric.ff_move_to_waiting_children(z.execution_id, z.lease_id, z.lease_epoch, z.attempt_id);
        when p_situation = 'cancelled by an operator' then
            perform flowfabric.ff_cancel_execution(z.execution_id, 'late', 'operator_override');
        when p_situation = 'past its deadline' then
            perform flowfabric.ff_expire_execution(z.execution_id, 'execution_deadline');
        when p_situation = 'another lease id' then z.lease_id := c_other;
        when p_situation = 'an older epoch' then z.lease_epoch := z.lease_epoch - 1;
        when p_situation = 'a later epoch' then z.lease_epoch := z.lease_epoch + 1;
        when p_situation = 'another attempt id' then z.attempt_id := c_other;
        when p_situation = 'no fence' then z := row(z.execution_id, null, null, null, z.attempt_index, z.waitpoint_id);
        when p_situation = 'no lease id' then z.lease_id := null;
        when p_situation = 'no epoch' then z.lease_epoch := null;
        when p_situation = 'no attempt id' then z.attempt_id := null;
        when p_situation = 'an execution that does not exist' then
            z.execution_id := flowfabric.ff_mint_solo_execution_id('zombies', c_other);
    end case;
    case
        when p_situation = 'lease expired and marked' then
            perform flowfabric.ff_mark_lease_expired_if_due(z.execution_id);
        when p_situation like '%reclaimed by another' then perform pg_temp.zombie_reclaim(z);
        when p_situation like '%replayed%' then
            perform flowfabric.ff_replay_execution(z.execution_id, 'again', 'zombies', p_force => true);
        when p_situation like '%resumed%' then perform flowfabric.ff_resume_execution(z.execution_id);
        when p_situation like '%retried by another' or p_situation like '%promoted%' then
            perform pg_temp.zombie_claim_when_due(z);
        else null;
    end case;
    if p_situation like '%and claimed by another' and p_situation not like '%promoted%' then
        perform pg_temp.zombie_claim(z.execution_id, 'another');
    end if;
    return z;
end;
$$;

-- Attempts count too: a write that a refusal takes back is one.
create function pg_temp.zombie_rows_written()
returns bigint
language sql volatile
as $$
    select coalesce(sum(t.n_tup_ins + t.n_tup_upd + t.n_tup_del), 0)::bigint
    from pg_catalog.pg_stat_xact_user_tables as t
    where t.schemaname = 'flowfabric'
$$;

create function pg_temp.zombie_sqlstate_of(p_statement text)
returns text
language plpgsql volatile
as $$
declare
    v_sqlstate text;
begin
    perform set_config('role', 'flowfabric_worker', true);
    execute p_statement into v_sqlstate;
    perform set_config('role', 'none', true);
    return v_sqlstate;
exception when others then
    get stacked diagnostics v_sqlstate = returned_sqlstate;
    return v_sqlstate;
end;
$$;

create function pg_temp.zombie_statement(p_function_name text, p_zombie pg_temp.zombie)
returns text
language sql stable
as $$
    select format(
        c.statement, p_zombie.execution_id, p_zombie.lease_id, p_zombie.lease_epoch, p_zombie.attempt_id,
        p_zombie.attempt_index, p_zombie.waitpoint_id)
    from pg_temp.zombie_call as c
    where c.function_name = p_function_name
$$;

create function pg_temp.zombie_try(p_situation text)
returns void
language plpgsql volatile
as $$
declare
    z pg_temp.zombie := pg_temp.zombie_in(p_situation);
    v_call record;
    v_before bigint;
    v_sqlstate text;
    v_after bigint;
begin
    for v_call in
        select c.function_name, s.number, e.code, e.sqlstate, pg_temp.zombie_statement(c.function_name, z) as statement
        from pg_temp.zombie_call as c
        join pg_temp.zombie_situation as s on s.situation = p_situation
        left join pg_temp.zombie_other_code as o
            on o.function_name = c.function_name and o.usual_code = s.code
            and (o.situation is null or o.situation = s.situation)
        join flowfabric.ff_list_error_codes() as e on e.code = coalesce(o.code, s.code)
    loop
        v_before := pg_temp.zombie_rows_written();
        v_sqlstate := pg_temp.zombie_sqlstate_of(v_call.statement);
        v_after := pg_temp.zombie_rows_written();
        insert into pg_temp.zombie_case
        values (
            v_call.function_name, p_situation, v_call.number, v_call.code, v_call.sqlstate, v_sqlstate,
            v_after - v_before);
    end loop;
end;
$$;

do $$
declare
    v_situation text;
    v_function_name text;
begin
    if not pg_catalog.pg_has_role(current_user, 'flowfabric_worker', 'member') then
        raise exception 'Run this as a superuser, or as the owner of the installation with all of its roles.';
    end if;
    if pg_temp.zombie_has_test_clock() then
        perform flowfabric.ff_test_set_clock('freeze', flowfabric.ff_now_ms());
    end if;
    perform flowfabric.ff_seed_waitpoint_hmac_secret('zombies');
    perform flowfabric.ff_create_budget('zombies', 'lane', 'zombies', array['tokens'], array[1000], array[1000]);
    for v_situation in select s.situation from pg_temp.zombie_situation as s order by s.number loop
        perform pg_temp.zombie_try(v_situation);
    end loop;
    for v_function_name in select c.function_name from pg_temp.zombie_call as c loop
        insert into pg_temp.zombie_control
        select
            v_function_name,
            pg_temp.zombie_sqlstate_of(pg_temp.zombie_statement(v_function_name, pg_temp.zombie_with_lease()));
    end loop;
end;
$$;
