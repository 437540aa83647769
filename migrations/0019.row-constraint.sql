-- The constraint on the state vector gets the row instead of 20 of its columns.
--
-- PostgreSQL reads the text of a constraint anew for every statement that writes the table, and the 20 arguments in it
-- took 66 of the 150 thousand instructions that the constraint cost a statement. With the row as its one argument it
-- takes 85. The rules are the same: what is not one of the vectors that hot paths write is left to _ff_state_is_legal.
--
-- Locks:  ff_exec_core, ACCESS EXCLUSIVE for a moment: no row is read. 0020 validates the constraint; until then every
--         row that is there has passed the old one.
-- Beside: the functions of the previous release go on working.
-- depends: 0018.deferred-attempts

create or replace function flowfabric._ff_row_is_legal(p_row flowfabric.ff_exec_core)
returns boolean
language plpgsql immutable parallel safe
as $$
begin
    if p_row.priority between 0 and 9000
        and least(
            p_row.current_lease_epoch, p_row.total_attempt_count, p_row.retry_count, p_row.replay_count,
            p_row.lease_reclaim_count, p_row.open_reservation_count) >= 0
        and (p_row.current_lease_epoch = 0) = (p_row.total_attempt_count = 0)
        and p_row.current_suspension_id is null
    then
        if p_row.lifecycle_phase = 'active' then
            if p_row.ownership_state = 'leased' and p_row.eligibility_state = 'not_applicable'
                and p_row.blocking_reason = 'none' and p_row.attempt_state = 'running_attempt'
                and p_row.terminal_outcome = 'none' and p_row.terminal_at_ms is null
                and num_nulls(
                    p_row.current_lease_id, p_row.current_worker_id, p_row.current_worker_instance_id,
                    p_row.lease_expires_at_ms) = 0
            then
                return true;
            end if;
        elsif p_row.ownership_state = 'unowned' and p_row.open_reservation_count = 0
            and num_nulls(
                p_row.current_lease_id, p_row.current_worker_id, p_row.current_worker_instance_id,
                p_row.lease_expires_at_ms) = 4
        then
            if p_row.lifecycle_phase = 'terminal' then
                if p_row.attempt_state = 'attempt_terminal' and p_row.terminal_outcome <> 'none'
                    and p_row.terminal_at_ms is not null and p_row.eligibility_state = 'not_applicable'
                    and p_row.blocking_reason = 'none'
                then
                    return true;
                end if;
            elsif p_row.lifecycle_phase = 'runnable' and p_row.eligibility_state = 'eligible_now'
                and p_row.blocking_reason = 'waiting_for_worker' and p_row.attempt_state = 'pending_first_attempt'
                and p_row.terminal_outcome = 'none' and p_row.terminal_at_ms is null
            then
                return true;
            end if;
        end if;
    end if;
    return flowfabric._ff_state_is_legal(
        p_row.lifecycle_phase, p_row.ownership_state, p_row.eligibility_state, p_row.blocking_reason,
        p_row.terminal_outcome, p_row.attempt_state, p_row.current_lease_id, p_row.current_worker_id,
        p_row.current_worker_instance_id, p_row.lease_expires_at_ms, p_row.terminal_at_ms, p_row.delay_until_ms,
        p_row.current_suspension_id, p_row.priority, p_row.current_lease_epoch, p_row.total_attempt_count,
        p_row.retry_count, p_row.replay_count, p_row.lease_reclaim_count, p_row.open_reservation_count);
end;
$$;
comment on function flowfabric._ff_row_is_legal(flowfabric.ff_exec_core) is
'Internal: whether the state of an execution is legal; _ff_state_is_legal raises what is wrong with it.';

alter table flowfabric.ff_exec_core
-- squawk-ignore ban-drop-constraint
drop constraint if exists ff_exec_core_state_is_legal;
alter table flowfabric.ff_exec_core
add constraint ff_exec_core_state_is_legal check (flowfabric._ff_row_is_legal(ff_exec_core.*)) not valid;

insert into flowfabric.ff_migration_annotation (version, name, applied_at_ms, backward_compatible)
values (19, 'row-constraint', floor(extract(epoch from clock_timestamp()) * 1000)::bigint, true)
on conflict (version) do nothing;
