-- The signal stream: one row per accepted or buffered signal, in the transaction that accepted it.

create or replace function flowfabric._ff_emit_signal(
    p_exec flowfabric.ff_exec_core,
    p_signal flowfabric.ff_signal,
    p_now_ms bigint
)
returns void
language plpgsql volatile
as $$
begin
    insert into flowfabric.ff_signal_event (
        partition_key, epoch, occurred_at_ms, namespace, instance_tag, execution_id, signal_id, waitpoint_id,
        signal_name, source_type, source_identity, effect)
    select
        p_exec.partition_key, c.event_epoch, p_now_ms, p_exec.namespace, p_exec.instance_tag, p_exec.execution_id,
        p_signal.signal_id, p_signal.waitpoint_id, p_signal.signal_name, p_signal.source_type,
        p_signal.source_identity, p_signal.observed_effect
    from flowfabric.ff_partition_config as c;
    perform flowfabric._ff_wake('ff_signal_event', '*');
end;
$$;
comment on function flowfabric._ff_emit_signal(flowfabric.ff_exec_core, flowfabric.ff_signal, bigint) is
'Internal: writes the signal event of a signal that was accepted.';
