-- ff_list_ended_suspensions: how the pauses of an execution ended, and the signals that ended them.
--
-- Fence:  none.
-- Locks:  nothing.
-- Writes: nothing.
-- Raises: invalid_input, execution_not_found.
-- Retry:  safe.
--
-- For a worker that runs its code again from the beginning and must find what it had waited for. ff_observe_signals
-- knows the last pause of one attempt; here are all pauses since the execution was created or last replayed, whichever
-- attempt made them: an answer stays given when the worker that heard it dies, or fails and is retried. A replay asks
-- anew. One row per waitpoint, and one per signal where several counted; no signal unless signals ended the pause.
--
-- The row of a pause is replaced by the next pause, its waitpoints and signals are not, so they are what is read. Only
-- a pause whose waitpoints an operator has closed one by one cannot tell any more whether it was resumed or timed out.
create or replace function flowfabric.ff_list_ended_suspensions(
    p_execution_id text,
    p_waitpoint_key text default null
)
returns setof flowfabric.ff_ended_suspension
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    c_fn constant text := 'ff_list_ended_suspensions';
    v_key flowfabric.ff_execution_key := flowfabric._ff_parse_execution_id(p_execution_id, c_fn);
begin
    if not exists (
        select from flowfabric.ff_exec_core as e
        where e.partition_key = v_key.partition_key and e.execution_id = v_key.execution_id)
    then
        perform flowfabric._ff_raise_not_found(v_key, c_fn);
    end if;
    return query
    -- Each subquery is read by its own index. Without statistics, and for the lack of one row to tell the indexes
    -- apart, the planner would read all waitpoints of the partition, and join them with each other.
    with pause as materialized (
        select
            w.suspension_id, max(w.closed_at_ms) as ended_at_ms,
            case
                when bool_or(w.satisfied_at_ms is not null) then 'signal'
                when bool_or(w.close_reason = 'timed_out_auto_resume') then 'timeout'
                when bool_or(w.close_reason = 'resumed') then 'operator'
                else 'closed'
            end as ended_by
        from (
            select x.suspension_id, x.waitpoint_key, x.attempt_index, x.closed_at_ms, x.satisfied_at_ms, x.close_reason
            from flowfabric.ff_waitpoint_pending as x
            where x.partition_key = v_key.partition_key and x.execution_id = v_key.execution_id
            offset 0
        ) as w
        where w.suspension_id is not null
            and w.attempt_index >= coalesce((
                select max(a.attempt_index)
                from flowfabric.ff_attempt as a
                where a.partition_key = v_key.partition_key and a.execution_id = v_key.execution_id
                    and a.attempt_type = 'replay'), 0)
        group by w.suspension_id
        having (p_waitpoint_key is null or bool_or(w.waitpoint_key = p_waitpoint_key))
            and not exists (
                select from flowfabric.ff_suspension_current as u
                where u.partition_key = v_key.partition_key and u.execution_id = v_key.execution_id
                    and u.suspension_id = w.suspension_id and u.closed_at_ms is null)
    )

    select
        p.suspension_id, w.attempt_index, p.ended_by, w.waitpoint_id, w.waitpoint_key, s.signal_id, s.signal_name,
        s.signal_category, s.source_type, s.source_identity, s.correlation_id, s.payload, s.payload_encoding,
        s.accepted_at_ms
    from pause as p
    cross join lateral (
        select x.attempt_index, x.waitpoint_id, x.waitpoint_key, x.ordinal
        from flowfabric.ff_waitpoint_pending as x
        where x.partition_key = v_key.partition_key and x.suspension_id = p.suspension_id
        offset 0
    ) as w
    left join lateral (
        select x.*
        from flowfabric.ff_signal as x
        where x.partition_key = v_key.partition_key and x.waitpoint_id = w.waitpoint_id
            and x.is_satisfier and p.ended_by = 'signal'
        offset 0
    ) as s on true
    order by p.ended_at_ms, p.suspension_id, s.seq, w.ordinal;
end;
$$;

comment on function flowfabric.ff_list_ended_suspensions(text, text) is
'How the pauses of an execution since its last replay ended, and the signals that ended them; one key or all.';

grant execute on function flowfabric.ff_list_ended_suspensions(text, text)
to flowfabric_worker, flowfabric_reader, flowfabric_operator;
