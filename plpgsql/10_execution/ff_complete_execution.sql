-- ff_complete_execution: end an execution successfully, with a result if there is one.
--
-- Fence:  the whole triple of the current, unexpired lease; an operator may leave it out with source operator_override.
-- Locks:  the ff_flow_core row of a member, the ff_exec_core row, the ff_attempt row.
-- Writes: ff_exec_core, ff_lease_event, ff_completion_event; ff_attempt if the attempt has a row; ff_exec_payload with
--         a result; ff_stream_meta of a stream that exists; the quota slot, the open budget reservations and the edges
--         of a flow member.
-- Raises: invalid_input, payload_too_large, flow_membership_changed and the codes of _ff_check_fence.
-- Retry:  safe; a repeat answers execution_not_active, whose detail tells whether the first call won.
--
-- The lease holder of an execution without a flow takes a quick way through the body: scalars instead of the composite
-- row, one IF for the fence, plain statements instead of moves (HOTPATH 2.7, 2.9, 2.10). Everybody else, and every
-- refusal, goes through _ff_complete_by_moves, which is the general form; a test holds the rows of both equal. The
-- quick way deletes no grant, because there is none beside a live lease (reading 9), and writes no result without one,
-- because a replay has cleared the old one (reading 10).
--
-- The planner settings keep a plan made for a table of a few pages from scanning it when it has grown (HOTPATH 4).
create or replace function flowfabric.ff_complete_execution(
    p_execution_id text,
    p_lease_id uuid default null,
    p_lease_epoch bigint default null,
    p_attempt_id uuid default null,
    p_result bytea default null,
    p_result_encoding text default null,
    p_source text default null
)
returns flowfabric.ff_execution_outcome
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    c_fn constant text := 'ff_complete_execution';
    v_key flowfabric.ff_execution_key := flowfabric._ff_parse_execution_id(p_execution_id, c_fn);
    v_flow_id uuid;
    v_ownership flowfabric.ff_ownership_state;
    v_lease_id uuid;
    v_lease_epoch bigint;
    v_attempt_id uuid;
    v_attempt_index integer;
    v_attempt_is_deferred boolean;
    v_lease_expires_at_ms bigint;
    v_worker_id text;
    v_worker_instance_id text;
    v_namespace text;
    v_lane_id text;
    v_instance_tag text;
    v_has_quota boolean;
    v_has_reservations boolean;
    v_event_epoch smallint;
    v_has_stream boolean;
    v_emits_lease_event boolean;
    v_may_be_awaited boolean;
    v_now_ms bigint;
begin
    -- Without a lock: a member's flow must be locked before the member (spec 30, R3).
    select e.flow_id into v_flow_id
    from flowfabric.ff_exec_core as e
    where e.partition_key = v_key.partition_key and e.execution_id = v_key.execution_id;
    if v_flow_id is not null or p_source is not null then
        return flowfabric._ff_complete_by_moves(
            v_key, p_lease_id, p_lease_epoch, p_attempt_id, p_result, p_result_encoding, p_source, false, null, c_fn);
    end if;

    select
        e.flow_id, e.ownership_state, e.current_lease_id, e.current_lease_epoch, e.current_attempt_id,
        e.total_attempt_count - 1, e.attempt_is_deferred, e.lease_expires_at_ms, e.current_worker_id,
        e.current_worker_instance_id, e.namespace, e.lane_id, e.instance_tag, e.quota_policy_id is not null,
        e.open_reservation_count > 0
    into
        v_flow_id, v_ownership, v_lease_id, v_lease_epoch, v_attempt_id, v_attempt_index, v_attempt_is_deferred,
        v_lease_expires_at_ms, v_worker_id, v_worker_instance_id, v_namespace, v_lane_id, v_instance_tag, v_has_quota,
        v_has_reservations
    from flowfabric.ff_exec_core as e
    where e.partition_key = v_key.partition_key and e.execution_id = v_key.execution_id
    for no key update;
    v_now_ms := flowfabric.ff_now_ms();
    if (v_ownership = 'leased' and p_lease_id = v_lease_id and p_lease_epoch = v_lease_epoch
        and p_attempt_id = v_attempt_id and v_lease_expires_at_ms > v_now_ms and v_flow_id is null) is not true
    then
        return flowfabric._ff_complete_by_moves(
            v_key, p_lease_id, p_lease_epoch, p_attempt_id, p_result, p_result_encoding, p_source,
            v_flow_id is not null, v_now_ms, c_fn);
    end if;

    -- After the lock, because the first frame of a stream may have been what it waited for.
    select
        c.event_epoch,
        exists (
            select from flowfabric.ff_stream_meta as m
            where m.partition_key = v_key.partition_key and m.execution_id = v_key.execution_id
                and m.attempt_index = v_attempt_index),
        c.lease_events, c.event_waiters_until_ms > v_now_ms
    into v_event_epoch, v_has_stream, v_emits_lease_event, v_may_be_awaited
    from flowfabric.ff_partition_config as c;

    if not v_attempt_is_deferred then
        update flowfabric.ff_attempt as a
        set attempt_state = 'ended_success', ended_at_ms = v_now_ms
        where a.partition_key = v_key.partition_key and a.execution_id = v_key.execution_id
            and a.attempt_index = v_attempt_index;
    end if;
    if v_has_stream then
        perform flowfabric._ff_close_stream(
            v_key.partition_key, v_key.execution_id, v_attempt_index, 'attempt_success', false, v_now_ms);
    end if;
    if length(p_result) > 0 then
        perform flowfabric._ff_store_result(v_key, p_result, p_result_encoding, c_fn);
    end if;
    -- The columns of _ff_set_unowned_state that can differ: an active, leased row has no delay, block, suspension or
    -- mark of a lost lease.
    update flowfabric.ff_exec_core as e
    set lifecycle_phase = 'terminal',
        ownership_state = 'unowned',
        terminal_outcome = 'success',
        attempt_state = 'attempt_terminal',
        ended_lease_id = v_lease_id,
        ended_worker_id = v_worker_id,
        ended_worker_instance_id = v_worker_instance_id,
        current_lease_id = null,
        current_worker_id = null,
        current_worker_instance_id = null,
        lease_acquired_at_ms = null,
        lease_expires_at_ms = null,
        lease_last_renewed_at_ms = null,
        attempt_timeout_at_ms = null,
        open_reservation_count = 0,
        deadline_at_ms = null,
        terminal_at_ms = v_now_ms,
        purge_after_ms = v_now_ms + e.retention_ms,
        last_transition_at_ms = v_now_ms,
        last_mutation_at_ms = v_now_ms
    where e.partition_key = v_key.partition_key and e.execution_id = v_key.execution_id;
    if v_emits_lease_event then
        insert into flowfabric.ff_lease_event (
            partition_key, epoch, occurred_at_ms, namespace, instance_tag, execution_id, event_type, lease_id,
            lease_epoch, attempt_index, attempt_id, worker_id, worker_instance_id, reason)
        values (
            v_key.partition_key, v_event_epoch, v_now_ms, v_namespace, v_instance_tag, v_key.execution_id, 'released',
            v_lease_id, v_lease_epoch, v_attempt_index, v_attempt_id, v_worker_id, v_worker_instance_id, 'completed');
    end if;
    if v_has_quota then
        perform flowfabric._ff_release_quota_slot(v_key.partition_key, v_key.execution_id);
    end if;
    if v_has_reservations then
        perform flowfabric._ff_return_reservations(
            v_key.partition_key, v_key.execution_id, 'lease_released', v_now_ms);
    end if;
    insert into flowfabric.ff_completion_event (
        partition_key, epoch, occurred_at_ms, namespace, instance_tag, execution_id, lane_id, attempt_index, outcome)
    values (
        v_key.partition_key, v_event_epoch, v_now_ms, v_namespace, v_instance_tag, v_key.execution_id, v_lane_id,
        v_attempt_index, 'success');
    if v_may_be_awaited then
        perform flowfabric._ff_wake('ff_lease_event', '*');
        perform flowfabric._ff_wake('ff_completion', '*');
    end if;
    return row(
        'completed', flowfabric.ff_format_execution_id(v_key.partition_key, v_key.execution_id), 'completed'
    )::flowfabric.ff_execution_outcome;
end;
$$;

comment on function flowfabric.ff_complete_execution(text, uuid, bigint, uuid, bytea, text, text) is
'Ends an execution successfully and stores its result.';

grant execute on function flowfabric.ff_complete_execution(text, uuid, bigint, uuid, bytea, text, text)
to flowfabric_worker, flowfabric_operator;

-- The general form. The quick way passes the time that it read under the execution's lock, and whether it found there
-- that the execution has joined a flow: that flow must not be waited for any more.
create or replace function flowfabric._ff_complete_by_moves(
    p_key flowfabric.ff_execution_key,
    p_lease_id uuid,
    p_lease_epoch bigint,
    p_attempt_id uuid,
    p_result bytea,
    p_result_encoding text,
    p_source text,
    p_has_joined_flow boolean,
    p_now_ms bigint,
    p_fn text
)
returns flowfabric.ff_execution_outcome
language plpgsql volatile
as $$
declare
    v_override boolean := flowfabric._ff_is_override(p_source, p_fn);
    v_exec flowfabric.ff_exec_core;
    v_now_ms bigint;
begin
    if p_has_joined_flow then
        v_exec := flowfabric._ff_lock_execution(p_key, p_fn);
        perform flowfabric._ff_lock_joined_flow(v_exec, p_fn);
    else
        v_exec := flowfabric._ff_lock_execution_with_flow(p_key, p_fn);
    end if;
    v_now_ms := coalesce(p_now_ms, flowfabric.ff_now_ms());
    perform flowfabric._ff_check_fence(
        v_exec, p_lease_id, p_lease_epoch, p_attempt_id, v_override, v_now_ms, p_fn);

    perform flowfabric._ff_end_attempt(v_exec, 'ended_success', null, null, 'attempt_success', v_now_ms);
    if length(p_result) > 0 then
        perform flowfabric._ff_store_result(p_key, p_result, p_result_encoding, p_fn);
    end if;
    perform flowfabric._ff_become_terminal(v_exec, 'success', 'completed', v_now_ms);
    return row('completed', flowfabric._ff_wire_id(v_exec), 'completed')::flowfabric.ff_execution_outcome;
end;
$$;
comment on function flowfabric._ff_complete_by_moves(
    flowfabric.ff_execution_key, uuid, bigint, uuid, bytea, text, text, boolean, bigint, text) is
'Internal: completes an execution through the shared moves: flow members, operators, and whoever must be refused.';
