-- What the operations on grants and claims share: their arguments, and a grant's life from issue to consumption.
--
-- A grant row changes only under the lock of its execution, so it is read here without a lock of its own.

create or replace function flowfabric._ff_check_claimer(
    p_worker_id text,
    p_worker_instance_id text,
    p_lane_id text,
    p_fn text
)
returns void
language plpgsql stable
as $$
begin
    if not flowfabric._ff_is_name(p_worker_id) then
        perform flowfabric._ff_raise_invalid_name(p_worker_id, 'worker_id', p_fn);
    end if;
    if not flowfabric._ff_is_name(p_worker_instance_id) then
        perform flowfabric._ff_raise_invalid_name(p_worker_instance_id, 'worker_instance_id', p_fn);
    end if;
    if p_lane_id is not null and not flowfabric._ff_is_lane_id(p_lane_id) then
        perform flowfabric._ff_raise_invalid_lane(p_lane_id, p_fn);
    end if;
end;
$$;
comment on function flowfabric._ff_check_claimer(text, text, text, text) is
'Internal: raises invalid_input unless the names of a worker and, if given, of a lane are well formed.';

create or replace function flowfabric._ff_check_claim_args(
    p_worker_id text,
    p_worker_instance_id text,
    p_lane_id text,
    p_lease_ttl_ms bigint,
    p_attempt_timeout_ms bigint,
    p_deadline_at_ms bigint,
    p_fn text,
    p_timeout_field text default 'attempt_timeout_ms'
)
returns void
language plpgsql stable
as $$
begin
    perform flowfabric._ff_check_claimer(p_worker_id, p_worker_instance_id, p_lane_id, p_fn);
    if p_lease_ttl_ms is null or p_lease_ttl_ms not between 1 and 86400000 then
        perform flowfabric._ff_raise_invalid(p_fn, 'lease_ttl_ms', 'out_of_range', p_lease_ttl_ms::text);
    end if;
    perform flowfabric._ff_check_duration(p_attempt_timeout_ms, p_timeout_field, p_fn);
    perform flowfabric._ff_check_instant(p_deadline_at_ms, 'execution_deadline_at_ms', p_fn);
end;
$$;
comment on function flowfabric._ff_check_claim_args(text, text, text, bigint, bigint, bigint, text, text) is
'Internal: raises invalid_input unless the arguments that all claims share are well formed.';

create or replace function flowfabric._ff_check_grant_args(
    p_worker_id text,
    p_worker_instance_id text,
    p_lane_id text,
    p_grant_ttl_ms bigint,
    p_fn text
)
returns void
language plpgsql stable
as $$
begin
    perform flowfabric._ff_check_claimer(p_worker_id, p_worker_instance_id, p_lane_id, p_fn);
    if p_grant_ttl_ms is null or p_grant_ttl_ms not between 1 and 60000 then
        perform flowfabric._ff_raise_invalid(p_fn, 'grant_ttl_ms', 'out_of_range', p_grant_ttl_ms::text);
    end if;
end;
$$;
comment on function flowfabric._ff_check_grant_args(text, text, text, bigint, text) is
'Internal: raises invalid_input unless the arguments that both grant issuers share are well formed.';

create or replace function flowfabric._ff_check_lane_matches(p_exec flowfabric.ff_exec_core, p_lane_id text, p_fn text)
returns void
language plpgsql stable
as $$
begin
    if p_lane_id <> p_exec.lane_id then
        perform flowfabric._ff_raise_invalid(p_fn, 'lane_id', 'other_lane', p_lane_id);
    end if;
end;
$$;
comment on function flowfabric._ff_check_lane_matches(flowfabric.ff_exec_core, text, text) is
'Internal: raises invalid_input if a lane is given and is not the execution''s.';

-- Refusals that several of these operations share.

create or replace function flowfabric._ff_raise_not_leaseable(p_exec flowfabric.ff_exec_core, p_fn text)
returns void
language plpgsql stable
as $$
begin
    perform flowfabric._ff_raise(
        'execution_not_leaseable', p_fn,
        jsonb_build_object(
            'execution_id', flowfabric._ff_wire_id(p_exec),
            'lifecycle_phase', p_exec.lifecycle_phase,
            'eligibility_state', p_exec.eligibility_state,
            'terminal_outcome', p_exec.terminal_outcome));
end;
$$;
comment on function flowfabric._ff_raise_not_leaseable(flowfabric.ff_exec_core, text) is
'Internal: raises execution_not_leaseable.';

create or replace function flowfabric._ff_raise_not_eligible(
    p_exec flowfabric.ff_exec_core,
    p_fn text,
    p_lane_state text default null
)
returns void
language plpgsql stable
as $$
begin
    perform flowfabric._ff_raise(
        'execution_not_eligible', p_fn,
        jsonb_build_object(
            'execution_id', flowfabric._ff_wire_id(p_exec),
            'lifecycle_phase', p_exec.lifecycle_phase,
            'eligibility_state', p_exec.eligibility_state,
            'blocking_reason', p_exec.blocking_reason,
            'lane_state', p_lane_state));
end;
$$;
comment on function flowfabric._ff_raise_not_eligible(flowfabric.ff_exec_core, text, text) is
'Internal: raises execution_not_eligible.';

create or replace function flowfabric._ff_raise_not_in_eligible_set(
    p_exec flowfabric.ff_exec_core,
    p_lane_id text,
    p_fn text
)
returns void
language plpgsql stable
as $$
begin
    perform flowfabric._ff_raise(
        'execution_not_in_eligible_set', p_fn,
        jsonb_build_object(
            'execution_id', flowfabric._ff_wire_id(p_exec), 'lane_id', coalesce(p_lane_id, p_exec.lane_id)));
end;
$$;
comment on function flowfabric._ff_raise_not_in_eligible_set(flowfabric.ff_exec_core, text, text) is
'Internal: raises execution_not_in_eligible_set.';

create or replace function flowfabric._ff_check_unowned(p_exec flowfabric.ff_exec_core, p_fn text)
returns void
language plpgsql stable
as $$
begin
    if p_exec.ownership_state <> 'unowned' then
        perform flowfabric._ff_raise(
            'lease_conflict', p_fn,
            jsonb_build_object(
                'execution_id', flowfabric._ff_wire_id(p_exec), 'ownership_state', p_exec.ownership_state));
    end if;
end;
$$;
comment on function flowfabric._ff_check_unowned(flowfabric.ff_exec_core, text) is
'Internal: raises lease_conflict if somebody owns a locked execution.';

create or replace function flowfabric._ff_check_no_running_attempt(p_exec flowfabric.ff_exec_core, p_fn text)
returns void
language plpgsql stable
as $$
begin
    if p_exec.attempt_state = 'running_attempt' then
        perform flowfabric._ff_raise(
            'active_attempt_exists', p_fn,
            jsonb_build_object(
                'execution_id', flowfabric._ff_wire_id(p_exec), 'attempt_state', p_exec.attempt_state));
    end if;
end;
$$;
comment on function flowfabric._ff_check_no_running_attempt(flowfabric.ff_exec_core, text) is
'Internal: raises active_attempt_exists if an unowned execution claims to run.';

create or replace function flowfabric._ff_check_reclaimable(
    p_exec flowfabric.ff_exec_core,
    p_max_reclaim_count integer,
    p_now_ms bigint,
    p_fn text
)
returns void
language plpgsql stable
as $$
declare
    v_is_lost boolean := flowfabric._ff_is_reclaimable(p_exec, p_now_ms);
    v_takeover_at_ms bigint;
begin
    -- A first takeover waits for nothing, also if the clock was set back since the lease was marked.
    if v_is_lost and p_exec.lease_reclaim_count > 0 then
        v_takeover_at_ms := flowfabric._ff_takeover_at_ms(p_exec, p_max_reclaim_count);
    end if;
    if not v_is_lost or v_takeover_at_ms > p_now_ms then
        perform flowfabric._ff_raise(
            'execution_not_reclaimable', p_fn,
            jsonb_build_object(
                'execution_id', flowfabric._ff_wire_id(p_exec),
                'lifecycle_phase', p_exec.lifecycle_phase,
                'ownership_state', p_exec.ownership_state,
                'lease_expires_at_ms', p_exec.lease_expires_at_ms,
                'takeover_at_ms', v_takeover_at_ms));
    end if;
end;
$$;
comment on function flowfabric._ff_check_reclaimable(flowfabric.ff_exec_core, integer, bigint, text) is
'Internal: raises execution_not_reclaimable unless the lease of a locked execution is lost and its back-off over.';

-- A grant's life

create or replace function flowfabric._ff_check_no_live_grant(
    p_exec flowfabric.ff_exec_core,
    p_now_ms bigint,
    p_fn text
)
returns void
language plpgsql stable
as $$
declare
    v_kind text;
    v_expires_at_ms bigint;
begin
    select g.kind, g.expires_at_ms into v_kind, v_expires_at_ms
    from flowfabric.ff_claim_grant as g
    where g.partition_key = p_exec.partition_key and g.execution_id = p_exec.execution_id
        and g.expires_at_ms >= p_now_ms;
    if found then
        perform flowfabric._ff_raise(
            'grant_already_exists', p_fn,
            jsonb_build_object(
                'execution_id', flowfabric._ff_wire_id(p_exec), 'kind', v_kind,
                'grant_expires_at_ms', v_expires_at_ms));
    end if;
end;
$$;
comment on function flowfabric._ff_check_no_live_grant(flowfabric.ff_exec_core, bigint, text) is
'Internal: raises grant_already_exists if an unexpired grant of any kind and owner is out for a locked execution.';

create or replace function flowfabric._ff_missing_capabilities(
    p_exec flowfabric.ff_exec_core,
    p_worker_capabilities text[]
)
returns text[]
language sql stable
as $$
    select array(
        select t.token
        from flowfabric.ff_capability_set as s, unnest(s.tokens) as t (token)
        where s.capability_set_id = p_exec.capability_set_id and t.token <> all (p_worker_capabilities)
        order by t.token collate "C")
$$;
comment on function flowfabric._ff_missing_capabilities(flowfabric.ff_exec_core, text[]) is
'Internal: the required capabilities of an execution that a worker does not offer, in byte order.';

-- The key is a secret of the issuer: only its hash is stored, so that reading the table lets nobody claim. Two uuids
-- are hashed because one of them holds only 122 random bits.
create or replace function flowfabric._ff_write_grant(
    p_exec flowfabric.ff_exec_core,
    p_kind text,
    p_worker_id text,
    p_worker_instance_id text,
    p_worker_capabilities text[],
    p_grant_ttl_ms bigint,
    p_capability_hash text,
    p_route_snapshot jsonb,
    p_admission_summary text,
    p_now_ms bigint
)
returns flowfabric.ff_grant
language plpgsql volatile
as $$
declare
    v_execution_id text := flowfabric._ff_wire_id(p_exec);
    v_expires_at_ms bigint := p_now_ms + p_grant_ttl_ms;
    v_secret text := left(
        encode(sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())), 'hex'), 32);
    v_grant_key text := concat_ws(':', 'ffg1', p_kind, v_execution_id, v_expires_at_ms, v_secret);
    v_grant_id bytea := sha256(convert_to(v_grant_key, 'UTF8'));
begin
    insert into flowfabric.ff_claim_grant as g (
        partition_key, execution_id, grant_ttl_ms, issued_at_ms, expires_at_ms, grant_id, kind, worker_id,
        worker_instance_id, lane_id, capability_hash, worker_capabilities, route_snapshot, admission_summary)
    values (
        p_exec.partition_key, p_exec.execution_id, p_grant_ttl_ms, p_now_ms, v_expires_at_ms, v_grant_id, p_kind,
        p_worker_id, p_worker_instance_id, p_exec.lane_id, p_capability_hash, p_worker_capabilities,
        p_route_snapshot, p_admission_summary)
    on conflict (partition_key, execution_id) do update
    set grant_ttl_ms = excluded.grant_ttl_ms,
        issued_at_ms = excluded.issued_at_ms,
        expires_at_ms = excluded.expires_at_ms,
        grant_id = excluded.grant_id,
        kind = excluded.kind,
        worker_id = excluded.worker_id,
        worker_instance_id = excluded.worker_instance_id,
        lane_id = excluded.lane_id,
        capability_hash = excluded.capability_hash,
        worker_capabilities = excluded.worker_capabilities,
        route_snapshot = excluded.route_snapshot,
        admission_summary = excluded.admission_summary;
    perform flowfabric._ff_touch_execution(p_exec.partition_key, p_exec.execution_id);
    return row(
        'granted', v_execution_id, p_exec.lane_id, v_grant_key, v_grant_id, v_expires_at_ms, '{}'::text[]
    )::flowfabric.ff_grant;
end;
$$;
comment on function flowfabric._ff_write_grant(
    flowfabric.ff_exec_core, text, text, text, text[], bigint, text, jsonb, text, bigint) is
'Internal: reserves a locked execution for a worker, in place of an expired grant; returns the key, once.';

-- A mismatch is an answer and not an error: its stamp must be kept, so that operators find work that nobody can do.
create or replace function flowfabric._ff_grant_to_capable_worker(
    p_exec flowfabric.ff_exec_core,
    p_kind text,
    p_worker_id text,
    p_worker_instance_id text,
    p_worker_capabilities text[],
    p_grant_ttl_ms bigint,
    p_capability_hash text,
    p_route_snapshot jsonb,
    p_admission_summary text,
    p_now_ms bigint
)
returns flowfabric.ff_grant
language plpgsql volatile
as $$
declare
    v_missing text[] := flowfabric._ff_missing_capabilities(p_exec, p_worker_capabilities);
begin
    if cardinality(v_missing) > 0 then
        perform flowfabric._ff_note_capability_mismatch(p_exec, p_now_ms);
        return row(
            'capability_mismatch', flowfabric._ff_wire_id(p_exec), p_exec.lane_id, null, null, null, v_missing
        )::flowfabric.ff_grant;
    end if;
    return flowfabric._ff_write_grant(
        p_exec, p_kind, p_worker_id, p_worker_instance_id, p_worker_capabilities, p_grant_ttl_ms,
        nullif(p_capability_hash, ''), p_route_snapshot, nullif(p_admission_summary, ''), p_now_ms);
end;
$$;
comment on function flowfabric._ff_grant_to_capable_worker(
    flowfabric.ff_exec_core, text, text, text, text[], bigint, text, jsonb, text, bigint) is
'Internal: grants a locked execution to a worker that has the capabilities, or notes and reports what is missing.';

create or replace function flowfabric._ff_check_grant(
    p_exec flowfabric.ff_exec_core,
    p_kind text,
    p_worker_id text,
    p_grant_key text,
    p_now_ms bigint,
    p_fn text
)
returns void
language plpgsql stable
as $$
declare
    v_grant flowfabric.ff_claim_grant;
    v_reason text;
begin
    select g.* into v_grant
    from flowfabric.ff_claim_grant as g
    where g.partition_key = p_exec.partition_key and g.execution_id = p_exec.execution_id;
    v_reason := case
        when v_grant.execution_id is null then 'missing'
        when v_grant.kind <> p_kind then 'other_kind'
        when v_grant.worker_id <> p_worker_id then 'other_worker'
        when sha256(convert_to(nullif(p_grant_key, ''), 'UTF8')) <> v_grant.grant_id then 'other_key'
    end;
    if v_reason is not null then
        perform flowfabric._ff_raise(
            'invalid_claim_grant', p_fn,
            jsonb_build_object('execution_id', flowfabric._ff_wire_id(p_exec), 'reason', v_reason));
    end if;
    if v_grant.expires_at_ms < p_now_ms then
        perform flowfabric._ff_raise(
            'claim_grant_expired', p_fn,
            jsonb_build_object(
                'execution_id', flowfabric._ff_wire_id(p_exec), 'grant_expires_at_ms', v_grant.expires_at_ms,
                'now_ms', p_now_ms));
    end if;
end;
$$;
comment on function flowfabric._ff_check_grant(flowfabric.ff_exec_core, text, text, text, bigint, text) is
'Internal: raises unless a locked execution has an unexpired grant of this kind, for this worker and, if given, key.';
