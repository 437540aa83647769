-- The moves of a lease: issuing it, losing it, and the three bodies of a claim (spec 40, section 1.10).

-- The one statement that makes an execution owned. The attempt's row is written by the body that calls it, or deferred
-- (_ff_write_deferred_attempt). Whatever grant there was ends here, be it the one that was consumed or an expired one:
-- beside a lease there is no grant.
create or replace function flowfabric._ff_issue_lease(
    p_exec flowfabric.ff_exec_core,
    p_attempt_id uuid,
    p_attempt_is_deferred boolean,
    p_total_attempt_count integer,
    p_lease_reclaim_count integer,
    p_lease_id uuid,
    p_worker_id text,
    p_worker_instance_id text,
    p_lease_ttl_ms bigint,
    p_attempt_timeout_at_ms bigint,
    p_deadline_at_ms bigint,
    p_event_type text,
    p_reason text,
    p_now_ms bigint
)
returns void
language plpgsql volatile
set enable_seqscan = off
set jit = off
as $$
begin
    update flowfabric.ff_exec_core as e
    set lifecycle_phase = 'active',
        ownership_state = 'leased',
        eligibility_state = 'not_applicable',
        blocking_reason = 'none',
        blocking_detail = null,
        attempt_state = 'running_attempt',
        attempt_is_deferred = p_attempt_is_deferred,
        total_attempt_count = p_total_attempt_count,
        lease_reclaim_count = p_lease_reclaim_count,
        current_attempt_id = p_attempt_id,
        current_lease_id = p_lease_id,
        current_lease_epoch = p_exec.current_lease_epoch + 1,
        current_worker_id = p_worker_id,
        current_worker_instance_id = p_worker_instance_id,
        lease_acquired_at_ms = p_now_ms,
        lease_last_renewed_at_ms = p_now_ms,
        lease_expires_at_ms = p_now_ms + p_lease_ttl_ms,
        lease_expired_at_ms = null,
        lease_revoked_at_ms = null,
        delay_until_ms = null,
        blocked_at_ms = null,
        started_at_ms = coalesce(e.started_at_ms, p_now_ms),
        attempt_timeout_at_ms = p_attempt_timeout_at_ms,
        deadline_at_ms = coalesce(nullif(p_deadline_at_ms, 0), e.deadline_at_ms),
        last_transition_at_ms = p_now_ms,
        last_mutation_at_ms = p_now_ms
    where e.partition_key = p_exec.partition_key and e.execution_id = p_exec.execution_id;
    delete from flowfabric.ff_claim_grant as g
    where g.partition_key = p_exec.partition_key and g.execution_id = p_exec.execution_id;
    perform flowfabric._ff_emit_lease(
        p_exec, p_event_type, p_lease_id, p_exec.current_lease_epoch + 1, p_total_attempt_count - 1, p_attempt_id,
        p_worker_id, p_worker_instance_id, p_reason, p_now_ms,
        case when p_event_type = 'reclaimed' then p_exec.current_lease_epoch end);
end;
$$;
comment on function flowfabric._ff_issue_lease(
    flowfabric.ff_exec_core, uuid, boolean, integer, integer, uuid, text, text, bigint, bigint, bigint, text, text,
    bigint) is
'Internal: the one way into leased; the epoch grows by one, whatever came before.';

-- What the end of an ownership means beyond the execution's own row (the columns are _ff_set_unowned_state's).
create or replace function flowfabric._ff_release_lease(
    p_exec flowfabric.ff_exec_core,
    p_reason text,
    p_now_ms bigint
)
returns void
language plpgsql volatile
as $$
begin
    perform flowfabric._ff_emit_lease(
        p_exec, case p_reason when 'reclaim_cap_exceeded' then 'revoked' else 'released' end,
        p_exec.current_lease_id, p_exec.current_lease_epoch, p_exec.total_attempt_count - 1,
        p_exec.current_attempt_id, p_exec.current_worker_id, p_exec.current_worker_instance_id, p_reason, p_now_ms);
    if p_exec.ownership_state = 'lease_revoked' then
        perform flowfabric._ff_note_revocation(p_exec, null);
    end if;
    if p_exec.quota_policy_id is not null then
        perform flowfabric._ff_release_quota_slot(p_exec.partition_key, p_exec.execution_id);
    end if;
    if p_exec.open_reservation_count > 0 then
        perform flowfabric._ff_return_reservations(
            p_exec.partition_key, p_exec.execution_id, 'lease_released', p_now_ms);
    end if;
end;
$$;
comment on function flowfabric._ff_release_lease(flowfabric.ff_exec_core, text, bigint) is
'Internal: event, quota slot and budget reservations of a lease that ends; called by _ff_set_unowned_state.';

-- A lost lease is not released: the execution stays active, the lease stays readable and the quota slot held, until
-- somebody reclaims, cancels or expires it. Only reservations go back, because no worker can settle them any more.
create or replace function flowfabric._ff_lose_lease(
    p_exec flowfabric.ff_exec_core,
    p_ownership flowfabric.ff_ownership_state,
    p_reason text,
    p_now_ms bigint
)
returns flowfabric.ff_exec_core
language plpgsql volatile
set enable_seqscan = off
set jit = off
as $$
declare
    v_exec flowfabric.ff_exec_core;
begin
    update flowfabric.ff_exec_core as e
    set ownership_state = p_ownership,
        blocking_reason = 'waiting_for_worker',
        blocking_detail = case p_ownership
            when 'lease_revoked' then 'lease revoked: ' || left(p_reason, 200) else 'lease expired' end,
        attempt_state = 'attempt_interrupted',
        lease_expired_at_ms = case p_ownership when 'lease_expired_reclaimable' then p_now_ms end,
        lease_revoked_at_ms = case p_ownership when 'lease_revoked' then p_now_ms end,
        delay_until_ms = case p_ownership
            when 'lease_revoked' then p_now_ms else flowfabric._ff_takeover_at_ms(p_exec, null) end,
        open_reservation_count = 0,
        last_mutation_at_ms = p_now_ms
    where e.partition_key = p_exec.partition_key and e.execution_id = p_exec.execution_id
    returning e.* into v_exec;
    perform flowfabric._ff_emit_lease(
        p_exec, case p_ownership when 'lease_revoked' then 'revoked' else 'expired' end,
        p_exec.current_lease_id, p_exec.current_lease_epoch, p_exec.total_attempt_count - 1,
        p_exec.current_attempt_id, p_exec.current_worker_id, p_exec.current_worker_instance_id, p_reason, p_now_ms);
    if p_ownership = 'lease_revoked' then
        perform flowfabric._ff_note_revocation(p_exec, p_reason);
    else
        -- A reader of a dead worker's stream would otherwise wait for ever.
        perform flowfabric._ff_close_stream(
            p_exec.partition_key, p_exec.execution_id, p_exec.total_attempt_count - 1, 'lease_expired', true,
            p_now_ms);
    end if;
    if p_exec.open_reservation_count > 0 then
        perform flowfabric._ff_return_reservations(
            p_exec.partition_key, p_exec.execution_id,
            case p_ownership when 'lease_revoked' then 'lease_revoked' else 'lease_expired' end, p_now_ms);
    end if;
    return v_exec;
end;
$$;
comment on function flowfabric._ff_lose_lease(
    flowfabric.ff_exec_core, flowfabric.ff_ownership_state, text, bigint) is
'Internal: the one way into lease_expired_reclaimable and lease_revoked; returns the row as it is then.';

-- Body F: a fresh claim starts a new attempt.
create or replace function flowfabric._ff_start_attempt(
    p_exec flowfabric.ff_exec_core,
    p_worker_id text,
    p_worker_instance_id text,
    p_lease_ttl_ms bigint,
    p_lease_id uuid,
    p_attempt_id uuid,
    p_attempt_policy jsonb,
    p_attempt_timeout_ms bigint,
    p_deadline_at_ms bigint,
    p_reason text,
    p_now_ms bigint
)
returns flowfabric.ff_claim
language plpgsql volatile
as $$
declare
    v_lease_id uuid := coalesce(p_lease_id, gen_random_uuid());
    v_attempt_id uuid := coalesce(p_attempt_id, gen_random_uuid());
    v_type flowfabric.ff_attempt_type := case p_exec.attempt_state
        when 'pending_retry_attempt' then 'retry'::flowfabric.ff_attempt_type
        when 'pending_replay_attempt' then 'replay'
        else 'initial'
    end;
    -- Nothing to tell of a first attempt that the execution's own row does not.
    v_is_deferred boolean := v_type = 'initial' and p_attempt_policy is null;
    v_note flowfabric.ff_exec_note;
begin
    -- The pending lineage is consumed by the attempt that it describes.
    if v_type <> 'initial' then
        select n.* into v_note
        from flowfabric.ff_exec_note as n
        where n.partition_key = p_exec.partition_key and n.execution_id = p_exec.execution_id;
        update flowfabric.ff_exec_note as n
        set pending_retry_reason = null,
            pending_replay_reason = null,
            pending_replay_requested_by = null,
            pending_previous_attempt_index = null
        where n.partition_key = p_exec.partition_key and n.execution_id = p_exec.execution_id;
    end if;
    if not v_is_deferred then
        insert into flowfabric.ff_attempt (
            partition_key, execution_id, attempt_index, attempt_type, attempt_state, attempt_id, lease_id, lease_epoch,
            worker_id, worker_instance_id, created_at_ms, started_at_ms, policy, retry_reason, previous_attempt_index,
            replay_reason, replay_requested_by, replayed_from_attempt_index)
        values (
            p_exec.partition_key, p_exec.execution_id, p_exec.total_attempt_count, v_type, 'started', v_attempt_id,
            v_lease_id, p_exec.current_lease_epoch + 1, p_worker_id, p_worker_instance_id, p_now_ms, p_now_ms,
            p_attempt_policy,
            case v_type when 'retry' then v_note.pending_retry_reason end,
            case v_type when 'retry' then v_note.pending_previous_attempt_index end,
            case v_type when 'replay' then v_note.pending_replay_reason end,
            case v_type when 'replay' then v_note.pending_replay_requested_by end,
            case v_type when 'replay' then v_note.pending_previous_attempt_index end);
    end if;
    perform flowfabric._ff_issue_lease(
        p_exec, v_attempt_id, v_is_deferred, p_exec.total_attempt_count + 1, p_exec.lease_reclaim_count, v_lease_id,
        p_worker_id, p_worker_instance_id, p_lease_ttl_ms,
        p_now_ms + nullif(coalesce(p_attempt_timeout_ms, p_exec.attempt_timeout_ms), 0), p_deadline_at_ms, 'acquired',
        p_reason, p_now_ms);
    return flowfabric._ff_claim_row(
        p_exec, 'claimed', v_lease_id, v_attempt_id, p_exec.total_attempt_count, v_type, p_worker_instance_id,
        p_lease_ttl_ms, 'fresh', p_now_ms);
end;
$$;
comment on function flowfabric._ff_start_attempt(
    flowfabric.ff_exec_core, text, text, bigint, uuid, uuid, jsonb, bigint, bigint, text, bigint) is
'Internal: Body F. A new attempt under a new lease, of the type that the execution was waiting for.';

-- Body R: a resumed claim goes on with the paused attempt.
create or replace function flowfabric._ff_resume_attempt(
    p_exec flowfabric.ff_exec_core,
    p_worker_id text,
    p_worker_instance_id text,
    p_lease_ttl_ms bigint,
    p_lease_id uuid,
    p_attempt_timeout_ms bigint,
    p_deadline_at_ms bigint,
    p_reason text,
    p_now_ms bigint
)
returns flowfabric.ff_claim
language plpgsql volatile
set enable_seqscan = off
set jit = off
as $$
declare
    v_lease_id uuid := coalesce(p_lease_id, gen_random_uuid());
    v_type flowfabric.ff_attempt_type;
    v_remaining_ms bigint;
begin
    select a.attempt_type, a.timeout_remaining_ms into v_type, v_remaining_ms
    from flowfabric.ff_attempt as a
    where a.partition_key = p_exec.partition_key and a.execution_id = p_exec.execution_id
        and a.attempt_index = p_exec.total_attempt_count - 1
    for no key update;
    update flowfabric.ff_attempt as a
    set attempt_state = 'started',
        resumed_at_ms = p_now_ms,
        lease_id = v_lease_id,
        lease_epoch = p_exec.current_lease_epoch + 1,
        worker_id = p_worker_id,
        worker_instance_id = p_worker_instance_id,
        suspended_at_ms = null,
        suspension_id = null,
        timeout_remaining_ms = null
    where a.partition_key = p_exec.partition_key and a.execution_id = p_exec.execution_id
        and a.attempt_index = p_exec.total_attempt_count - 1;
    perform flowfabric._ff_issue_lease(
        p_exec, p_exec.current_attempt_id, false, p_exec.total_attempt_count, p_exec.lease_reclaim_count, v_lease_id,
        p_worker_id, p_worker_instance_id, p_lease_ttl_ms,
        p_now_ms + nullif(coalesce(p_attempt_timeout_ms, v_remaining_ms, p_exec.attempt_timeout_ms), 0),
        p_deadline_at_ms, 'acquired', p_reason, p_now_ms);
    return flowfabric._ff_claim_row(
        p_exec, 'claimed', v_lease_id, p_exec.current_attempt_id, p_exec.total_attempt_count - 1, v_type,
        p_worker_instance_id, p_lease_ttl_ms, 'resumed', p_now_ms);
end;
$$;
comment on function flowfabric._ff_resume_attempt(
    flowfabric.ff_exec_core, text, text, bigint, uuid, bigint, bigint, text, bigint) is
'Internal: Body R. The paused attempt goes on under a new lease, with the rest of its timeout.';

create or replace function flowfabric._ff_claim_row(
    p_exec flowfabric.ff_exec_core,
    p_outcome text,
    p_lease_id uuid,
    p_attempt_id uuid,
    p_attempt_index integer,
    p_attempt_type flowfabric.ff_attempt_type,
    p_worker_instance_id text,
    p_lease_ttl_ms bigint,
    p_handle_kind text,
    p_now_ms bigint
)
returns flowfabric.ff_claim
language sql immutable parallel safe
as $$
    select row(
        p_outcome, flowfabric._ff_wire_id(p_exec), p_lease_id, p_exec.current_lease_epoch + 1,
        p_now_ms + p_lease_ttl_ms, p_now_ms + p_lease_ttl_ms * 2 / 3, p_attempt_id, p_attempt_index, p_attempt_type,
        p_exec.lane_id, p_worker_instance_id, p_lease_ttl_ms, p_handle_kind)::flowfabric.ff_claim
$$;
comment on function flowfabric._ff_claim_row(
    flowfabric.ff_exec_core, text, uuid, uuid, integer, flowfabric.ff_attempt_type, text, bigint, text, bigint) is
'Internal: the answer of a claim, from the row as it was before the lease was issued.';

-- Lost leases: how often, and when, one may be taken over

-- The policy was validated at creation; a number beyond integer means "no cap".
create or replace function flowfabric._ff_reclaim_cap(p_exec flowfabric.ff_exec_core, p_max_reclaim_count integer)
returns integer
language sql stable
as $$
    select coalesce(
        (
            select least(floor((p.policy ->> 'max_reclaim_count')::numeric), 2147483647)::integer
            from flowfabric.ff_exec_payload as p
            where p.partition_key = p_exec.partition_key and p.execution_id = p_exec.execution_id
                and p.policy ? 'max_reclaim_count'
        ),
        p_max_reclaim_count, 5)
$$;
comment on function flowfabric._ff_reclaim_cap(flowfabric.ff_exec_core, integer) is
'Internal: how many takeovers in a row an execution may have: by its policy, else as given, else 5.';

-- An operator who revokes a lease says nothing about the handler, so a revocation is no loss.
create or replace function flowfabric._ff_losses_in_a_row(p_exec flowfabric.ff_exec_core)
returns integer
language sql immutable parallel safe
as $$
    select p_exec.lease_reclaim_count + (p_exec.ownership_state <> 'lease_revoked')::integer
$$;
comment on function flowfabric._ff_losses_in_a_row(flowfabric.ff_exec_core) is
'Internal: the leases that an execution has lost since its last progress, the present lost one included.';

-- 1 to 2 s after the second loss in a row, then twice as long after each, up to 5 minutes. The place in that range
-- follows from execution and lease, so that every caller computes the same time and what was lost together comes back
-- spread: the executions that only shared a process with the one that kills it are then likely to run without it.
create or replace function flowfabric._ff_takeover_backoff_ms(
    p_execution_id uuid,
    p_lease_epoch bigint,
    p_losses integer
)
returns bigint
language sql immutable parallel safe
as $$
    select b.least_ms + b.least_ms * (get_byte(b.hash, 0) * 256 + get_byte(b.hash, 1)) / 65536
    from (
        select
            least(1000 * power(2, least(p_losses - 2, 8)), 150000)::bigint as least_ms,
            sha256(uuid_send(p_execution_id) || int8send(p_lease_epoch)) as hash
    ) as b
$$;
comment on function flowfabric._ff_takeover_backoff_ms(uuid, bigint, integer) is
'Internal: how long after its expiry a lease waits for its takeover if it is the second lost in a row, or a later one.';

-- The one rule for everything that takes over, grants, lists or explains a lost lease. At the cap there is nothing to
-- wait for: the execution is ended.
create or replace function flowfabric._ff_takeover_at_ms(p_exec flowfabric.ff_exec_core, p_max_reclaim_count integer)
returns bigint
language plpgsql stable
as $$
begin
    return case
        when p_exec.ownership_state = 'lease_revoked' then p_exec.lease_revoked_at_ms
        when p_exec.lease_reclaim_count = 0 then p_exec.lease_expires_at_ms
        when p_exec.lease_reclaim_count >= flowfabric._ff_reclaim_cap(p_exec, p_max_reclaim_count)
            then p_exec.lease_expires_at_ms
        else p_exec.lease_expires_at_ms + flowfabric._ff_takeover_backoff_ms(
            p_exec.execution_id, p_exec.current_lease_epoch, flowfabric._ff_losses_in_a_row(p_exec))
    end;
end;
$$;
comment on function flowfabric._ff_takeover_at_ms(flowfabric.ff_exec_core, integer) is
'Internal: from when on a lost lease may be taken over, or the execution ended if its takeovers are used up.';

-- Progress is what lets the next attempt start further on. _ff_set_unowned_state resets the count for every pause and
-- retry; this is for progress that is recorded under a lease that goes on. A percentage or a frame of a stream is none:
-- a handler that reports one and then kills its process would never be stopped.
create or replace function flowfabric._ff_note_progress(p_exec flowfabric.ff_exec_core)
returns void
language plpgsql volatile
as $$
begin
    if p_exec.lease_reclaim_count > 0 then
        update flowfabric.ff_exec_core as e
        set lease_reclaim_count = 0
        where e.partition_key = p_exec.partition_key and e.execution_id = p_exec.execution_id;
    end if;
end;
$$;
comment on function flowfabric._ff_note_progress(flowfabric.ff_exec_core) is
'Internal: forgets the lost leases of a locked execution that has recorded progress.';

-- Body C: a lost lease is taken over. The caller holds the flow lock of a member, has checked that the lease is lost
-- and, below the cap, that the grant is good (ff_reclaim_next needs none).
create or replace function flowfabric._ff_reclaim_attempt(
    p_exec flowfabric.ff_exec_core,
    p_worker_id text,
    p_worker_instance_id text,
    p_lease_ttl_ms bigint,
    p_lease_id uuid,
    p_attempt_id uuid,
    p_attempt_policy jsonb,
    p_attempt_timeout_ms bigint,
    p_max_reclaim_count integer,
    p_now_ms bigint
)
returns flowfabric.ff_reclaim
language plpgsql volatile
as $$
declare
    v_exec flowfabric.ff_exec_core := p_exec;
    v_lease_id uuid := coalesce(p_lease_id, gen_random_uuid());
    v_attempt_id uuid := coalesce(p_attempt_id, gen_random_uuid());
    v_losses integer := flowfabric._ff_losses_in_a_row(p_exec);
    v_reason text;
    v_claim flowfabric.ff_claim;
begin
    if v_exec.ownership_state = 'leased' then
        v_exec := flowfabric._ff_lose_lease(v_exec, 'lease_expired_reclaimable', null, p_now_ms);
    end if;

    if v_exec.lease_reclaim_count >= p_max_reclaim_count then
        v_reason := format(
            'max_reclaims_exceeded: %s leases lost in a row without recorded progress, %s takeovers allowed',
            v_losses, p_max_reclaim_count);
        perform flowfabric._ff_end_attempt(v_exec, 'interrupted_reclaimed', v_reason, null, 'reclaimed', p_now_ms);
        perform flowfabric._ff_note_failure(v_exec, v_reason);
        perform flowfabric._ff_become_terminal(v_exec, 'failed', 'reclaim_cap_exceeded', p_now_ms);
        return row(
            'reclaim_cap_exceeded', flowfabric._ff_wire_id(v_exec), null, null, null, null, null, null, null,
            v_exec.lane_id, null, null, null, v_exec.lease_reclaim_count, p_max_reclaim_count)::flowfabric.ff_reclaim;
    end if;

    v_reason := case v_exec.ownership_state when 'lease_revoked' then 'lease_revoked' else 'lease_expired' end;
    perform flowfabric._ff_end_attempt(v_exec, 'interrupted_reclaimed', v_reason, null, 'reclaimed', p_now_ms);
    if v_reason = 'lease_revoked' then
        perform flowfabric._ff_note_revocation(v_exec, null);
    end if;
    insert into flowfabric.ff_attempt (
        partition_key, execution_id, attempt_index, attempt_type, attempt_state, attempt_id, lease_id, lease_epoch,
        worker_id, worker_instance_id, created_at_ms, started_at_ms, policy, reclaim_reason, previous_attempt_index)
    values (
        v_exec.partition_key, v_exec.execution_id, v_exec.total_attempt_count, 'reclaim', 'started', v_attempt_id,
        v_lease_id, v_exec.current_lease_epoch + 1, p_worker_id, p_worker_instance_id, p_now_ms, p_now_ms,
        p_attempt_policy, v_reason, v_exec.total_attempt_count - 1);
    perform flowfabric._ff_issue_lease(
        v_exec, v_attempt_id, false, v_exec.total_attempt_count + 1, v_losses, v_lease_id,
        p_worker_id, p_worker_instance_id, p_lease_ttl_ms,
        p_now_ms + nullif(coalesce(p_attempt_timeout_ms, v_exec.attempt_timeout_ms), 0), null, 'reclaimed', v_reason,
        p_now_ms);
    if v_losses % 100 = 0 and v_reason = 'lease_expired' then
        raise notice 'execution % has lost % leases in a row', flowfabric._ff_wire_id(v_exec), v_losses;
    end if;
    v_claim := flowfabric._ff_claim_row(
        v_exec, 'reclaimed', v_lease_id, v_attempt_id, v_exec.total_attempt_count, 'reclaim', p_worker_instance_id,
        p_lease_ttl_ms, 'reclaimed', p_now_ms);
    return row(
        v_claim.outcome, v_claim.execution_id, v_claim.lease_id, v_claim.lease_epoch, v_claim.lease_expires_at_ms,
        v_claim.lease_renewal_deadline_ms, v_claim.attempt_id, v_claim.attempt_index, v_claim.attempt_type,
        v_claim.lane_id, v_claim.worker_instance_id, v_claim.lease_ttl_ms, v_claim.handle_kind,
        v_losses, p_max_reclaim_count)::flowfabric.ff_reclaim;
end;
$$;
comment on function flowfabric._ff_reclaim_attempt(
    flowfabric.ff_exec_core, text, text, bigint, uuid, uuid, jsonb, bigint, integer, bigint) is
'Internal: Body C. Ends the attempt of a lost lease and starts the next one, or fails the execution at its cap.';

create or replace function flowfabric._ff_is_reclaimable(p_exec flowfabric.ff_exec_core, p_now_ms bigint)
returns boolean
language sql immutable parallel safe
as $$
    select p_exec.lifecycle_phase = 'active'
        and (p_exec.ownership_state <> 'leased' or p_exec.lease_expires_at_ms <= p_now_ms)
$$;
comment on function flowfabric._ff_is_reclaimable(flowfabric.ff_exec_core, bigint) is
'Internal: whether the lease is lost: revoked, marked expired, or expired by the clock and not yet marked.';
