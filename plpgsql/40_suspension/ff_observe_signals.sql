-- ff_observe_signals: the signals that woke an attempt, in the order of their acceptance.
--
-- Fence:  none.
-- Locks:  nothing.
-- Writes: nothing.
-- Raises: invalid_input, execution_not_found.
-- Retry:  safe until the next suspend, which replaces the suspension that is read here.
--
-- Exactly the signals that counted towards the condition. A pause that ended in any other way, by an operator, a
-- timeout or an end, has none, and neither has another attempt than the one that paused.
create or replace function flowfabric.ff_observe_signals(p_execution_id text, p_attempt_index integer)
returns setof flowfabric.ff_observed_signal
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    c_fn constant text := 'ff_observe_signals';
    v_key flowfabric.ff_execution_key := flowfabric._ff_parse_execution_id(p_execution_id, c_fn);
begin
    if p_attempt_index is null then
        perform flowfabric._ff_raise_invalid(c_fn, 'attempt_index', 'null');
    end if;
    if not exists (
        select from flowfabric.ff_exec_core as e
        where e.partition_key = v_key.partition_key and e.execution_id = v_key.execution_id)
    then
        perform flowfabric._ff_raise_not_found(v_key, c_fn);
    end if;
    return query
    select
        s.signal_id, s.waitpoint_id, w.waitpoint_key, s.signal_name, s.signal_category, s.source_type,
        s.source_identity, s.correlation_id, s.payload, s.payload_encoding, s.accepted_at_ms
    from flowfabric.ff_suspension_current as u
    join flowfabric.ff_signal as s
        on s.partition_key = u.partition_key and s.execution_id = u.execution_id
        and s.signal_id = any (u.satisfier_signal_ids)
    join flowfabric.ff_waitpoint_pending as w
        on w.partition_key = s.partition_key and w.waitpoint_id = s.waitpoint_id
    where u.partition_key = v_key.partition_key and u.execution_id = v_key.execution_id
        and u.attempt_index = p_attempt_index and u.close_reason = 'resumed' and u.resume_trigger = 'signal'
    order by s.seq;
end;
$$;

comment on function flowfabric.ff_observe_signals(text, integer) is
'The signals that satisfied the resume condition of an attempt''s last pause; none if it ended in any other way.';

grant execute on function flowfabric.ff_observe_signals(text, integer)
to flowfabric_worker, flowfabric_reader, flowfabric_operator;
