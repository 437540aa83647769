-- The composite types that functions return: one per shape of answer, so that a result has a name in every language.
--
-- Locks:  nothing that exists; everything here is new.
-- Beside: there is no previous release.
-- depends: 0007.event
--
-- A type that a function returns cannot be re-created in place; a new field is an `alter type … add attribute` in a
-- migration of its own.

do $$
begin
    -- Identity
    if to_regtype('flowfabric.ff_execution_key') is null then
        create type flowfabric.ff_execution_key as (
            partition_key smallint,
            execution_id uuid
        );
    end if;
    if to_regtype('flowfabric.ff_handle') is null then
        create type flowfabric.ff_handle as (
            execution_id text,
            attempt_index integer,
            attempt_id uuid,
            lease_id uuid,
            lease_epoch bigint,
            lease_ttl_ms bigint,
            lane_id text,
            worker_instance_id text,
            kind text
        );
    end if;
    if to_regtype('flowfabric.ff_refusal') is null then
        create type flowfabric.ff_refusal as (
            code text,
            detail jsonb
        );
    end if;
    if to_regtype('flowfabric.ff_policy_facts') is null then
        create type flowfabric.ff_policy_facts as (
            required_capabilities text[],
            budget_ids text[],
            quota_policy_id text,
            attempt_timeout_ms bigint,
            retention_ms bigint,
            dedup_window_ms bigint
        );
    end if;
    -- Installation and administration
    if to_regtype('flowfabric.ff_error_code_row') is null then
        create type flowfabric.ff_error_code_row as (
            code text,
            sqlstate text,
            category text,
            retry_class text,
            hint text
        );
    end if;
    if to_regtype('flowfabric.ff_boot_report') is null then
        create type flowfabric.ff_boot_report as (
            schema_version integer,
            library_version text,
            num_flow_partitions integer,
            event_epoch smallint,
            warnings text[]
        );
    end if;
    if to_regtype('flowfabric.ff_clock_state') is null then
        create type flowfabric.ff_clock_state as (
            mode text,
            now_ms bigint
        );
    end if;
    if to_regtype('flowfabric.ff_setting_change') is null then
        create type flowfabric.ff_setting_change as (
            outcome text,
            previous_value bigint
        );
    end if;
    if to_regtype('flowfabric.ff_setting_row') is null then
        create type flowfabric.ff_setting_row as (
            name text,
            value bigint,
            default_value bigint,
            is_default boolean
        );
    end if;
    if to_regtype('flowfabric.ff_initialize_step') is null then
        create type flowfabric.ff_initialize_step as (
            step text,
            outcome text
        );
    end if;
    if to_regtype('flowfabric.ff_capability_flag') is null then
        create type flowfabric.ff_capability_flag as (
            capability text,
            supported boolean,
            note text
        );
    end if;
    if to_regtype('flowfabric.ff_outcome') is null then
        create type flowfabric.ff_outcome as (
            outcome text
        );
    end if;
    -- Executions
    if to_regtype('flowfabric.ff_execution_outcome') is null then
        create type flowfabric.ff_execution_outcome as (
            outcome text,
            execution_id text,
            public_state flowfabric.ff_public_state
        );
    end if;
    if to_regtype('flowfabric.ff_execution_item') is null then
        create type flowfabric.ff_execution_item as (
            item integer,
            execution_id text,
            outcome text,
            code text,
            sqlstate text,
            detail jsonb,
            public_state flowfabric.ff_public_state
        );
    end if;
    if to_regtype('flowfabric.ff_claim') is null then
        create type flowfabric.ff_claim as (
            outcome text,
            execution_id text,
            lease_id uuid,
            lease_epoch bigint,
            lease_expires_at_ms bigint,
            lease_renewal_deadline_ms bigint,
            attempt_id uuid,
            attempt_index integer,
            attempt_type flowfabric.ff_attempt_type,
            lane_id text,
            worker_instance_id text,
            lease_ttl_ms bigint,
            handle_kind text
        );
    end if;
    if to_regtype('flowfabric.ff_reclaim') is null then
        create type flowfabric.ff_reclaim as (
            outcome text,
            execution_id text,
            lease_id uuid,
            lease_epoch bigint,
            lease_expires_at_ms bigint,
            lease_renewal_deadline_ms bigint,
            attempt_id uuid,
            attempt_index integer,
            attempt_type flowfabric.ff_attempt_type,
            lane_id text,
            worker_instance_id text,
            lease_ttl_ms bigint,
            handle_kind text,
            reclaim_count integer,
            max_reclaim_count integer
        );
    end if;
    if to_regtype('flowfabric.ff_renewal') is null then
        create type flowfabric.ff_renewal as (
            outcome text,
            execution_id text,
            lease_expires_at_ms bigint,
            lease_renewal_deadline_ms bigint,
            lease_epoch bigint
        );
    end if;
    if to_regtype('flowfabric.ff_renewal_item') is null then
        create type flowfabric.ff_renewal_item as (
            item integer,
            execution_id text,
            outcome text,
            code text,
            sqlstate text,
            detail jsonb,
            lease_expires_at_ms bigint,
            lease_renewal_deadline_ms bigint,
            lease_epoch bigint
        );
    end if;
    if to_regtype('flowfabric.ff_failure') is null then
        create type flowfabric.ff_failure as (
            outcome text,
            execution_id text,
            public_state flowfabric.ff_public_state,
            delay_until_ms bigint,
            next_attempt_index integer
        );
    end if;
    if to_regtype('flowfabric.ff_failure_item') is null then
        create type flowfabric.ff_failure_item as (
            item integer,
            execution_id text,
            outcome text,
            code text,
            sqlstate text,
            detail jsonb,
            public_state flowfabric.ff_public_state,
            delay_until_ms bigint,
            next_attempt_index integer
        );
    end if;
    if to_regtype('flowfabric.ff_delay') is null then
        create type flowfabric.ff_delay as (
            outcome text,
            execution_id text,
            delay_until_ms bigint,
            public_state flowfabric.ff_public_state
        );
    end if;
    if to_regtype('flowfabric.ff_cancellation') is null then
        create type flowfabric.ff_cancellation as (
            outcome text,
            execution_id text,
            cancelled_from flowfabric.ff_lifecycle_phase,
            public_state flowfabric.ff_public_state
        );
    end if;
    if to_regtype('flowfabric.ff_revocation') is null then
        create type flowfabric.ff_revocation as (
            outcome text,
            reason text,
            lease_id uuid,
            lease_epoch bigint
        );
    end if;
    if to_regtype('flowfabric.ff_expiry_mark') is null then
        create type flowfabric.ff_expiry_mark as (
            outcome text,
            reason text
        );
    end if;
    if to_regtype('flowfabric.ff_expiry') is null then
        create type flowfabric.ff_expiry as (
            outcome text,
            expired_from flowfabric.ff_lifecycle_phase,
            public_state flowfabric.ff_public_state
        );
    end if;
    if to_regtype('flowfabric.ff_tagging') is null then
        create type flowfabric.ff_tagging as (
            outcome text,
            tag_count integer
        );
    end if;
    if to_regtype('flowfabric.ff_replay') is null then
        create type flowfabric.ff_replay as (
            outcome text,
            public_state flowfabric.ff_public_state,
            branch text,
            replay_count integer,
            unsatisfied_count integer,
            stale_upstream_count integer
        );
    end if;
    -- Grants and scheduling
    if to_regtype('flowfabric.ff_grant') is null then
        create type flowfabric.ff_grant as (
            outcome text,
            execution_id text,
            lane_id text,
            grant_key text,
            grant_id bytea,
            expires_at_ms bigint,
            missing_capabilities text[]
        );
    end if;
    if to_regtype('flowfabric.ff_priority_change') is null then
        create type flowfabric.ff_priority_change as (
            old_priority integer,
            new_priority integer
        );
    end if;
    if to_regtype('flowfabric.ff_progress') is null then
        create type flowfabric.ff_progress as (
            outcome text,
            execution_id text
        );
    end if;
    if to_regtype('flowfabric.ff_state_outcome') is null then
        create type flowfabric.ff_state_outcome as (
            outcome text,
            public_state flowfabric.ff_public_state
        );
    end if;
    if to_regtype('flowfabric.ff_admission_block') is null then
        create type flowfabric.ff_admission_block as (
            outcome text,
            eligibility_state flowfabric.ff_eligibility_state
        );
    end if;
    if to_regtype('flowfabric.ff_scan') is null then
        create type flowfabric.ff_scan as (
            processed integer,
            skipped integer,
            errors integer,
            more boolean
        );
    end if;
    if to_regtype('flowfabric.ff_retention_scan') is null then
        create type flowfabric.ff_retention_scan as (
            processed integer,
            flows_purged integer,
            skipped integer,
            errors integer,
            more boolean
        );
    end if;
    -- Reads
    if to_regtype('flowfabric.ff_execution_snapshot') is null then
        create type flowfabric.ff_execution_snapshot as (
            execution_id text,
            partition_key smallint,
            flow_id uuid,
            namespace text,
            lane_id text,
            execution_kind text,
            creator_identity text,
            priority integer,
            required_capabilities text[],
            budget_ids text[],
            quota_policy_id text,
            lifecycle_phase flowfabric.ff_lifecycle_phase,
            ownership_state flowfabric.ff_ownership_state,
            eligibility_state flowfabric.ff_eligibility_state,
            blocking_reason flowfabric.ff_blocking_reason,
            blocking_detail text,
            terminal_outcome flowfabric.ff_terminal_outcome,
            attempt_state flowfabric.ff_attempt_state,
            public_state flowfabric.ff_public_state,
            created_at_ms bigint,
            started_at_ms bigint,
            terminal_at_ms bigint,
            last_transition_at_ms bigint,
            last_mutation_at_ms bigint,
            delay_until_ms bigint,
            deadline_at_ms bigint,
            attempt_timeout_at_ms bigint,
            total_attempt_count integer,
            retry_count integer,
            replay_count integer,
            lease_reclaim_count integer,
            current_attempt_id uuid,
            current_attempt_index integer,
            lease_id uuid,
            lease_epoch bigint,
            worker_id text,
            worker_instance_id text,
            lease_acquired_at_ms bigint,
            lease_expires_at_ms bigint,
            lease_last_renewed_at_ms bigint,
            lease_is_expired boolean,
            lease_expired_at_ms bigint,
            lease_revoked_at_ms bigint,
            lease_revoke_reason text,
            current_suspension_id uuid,
            current_waitpoint_id uuid,
            progress_pct smallint,
            progress_message text,
            progress_updated_at_ms bigint,
            failure_reason text,
            cancellation_reason text,
            cancelled_by text,
            last_capability_mismatch_at_ms bigint,
            tags jsonb,
            has_result boolean
        );
    end if;
    if to_regtype('flowfabric.ff_execution_info') is null then
        create type flowfabric.ff_execution_info as (
            execution_id text,
            namespace text,
            lane_id text,
            priority integer,
            execution_kind text,
            lifecycle_phase flowfabric.ff_lifecycle_phase,
            ownership_state flowfabric.ff_ownership_state,
            eligibility_state flowfabric.ff_eligibility_state,
            blocking_reason flowfabric.ff_blocking_reason,
            terminal_outcome flowfabric.ff_terminal_outcome,
            attempt_state flowfabric.ff_attempt_state,
            public_state flowfabric.ff_public_state,
            created_at_ms bigint,
            started_at_ms bigint,
            terminal_at_ms bigint,
            current_attempt_index integer,
            flow_id uuid,
            blocking_detail text,
            total_attempt_count integer,
            retry_count integer,
            replay_count integer,
            lease_reclaim_count integer,
            failure_reason text,
            cancellation_reason text,
            cancelled_by text
        );
    end if;
    if to_regtype('flowfabric.ff_execution_context') is null then
        create type flowfabric.ff_execution_context as (
            input_payload bytea,
            payload_encoding text,
            execution_kind text,
            tags jsonb,
            policy jsonb
        );
    end if;
    if to_regtype('flowfabric.ff_execution_result') is null then
        create type flowfabric.ff_execution_result as (
            result bytea,
            result_encoding text
        );
    end if;
    if to_regtype('flowfabric.ff_execution_listing') is null then
        create type flowfabric.ff_execution_listing as (
            execution_id text,
            namespace text,
            lane_id text,
            execution_kind text,
            public_state flowfabric.ff_public_state,
            priority integer,
            created_at_ms bigint,
            flow_id uuid,
            has_more boolean
        );
    end if;
    if to_regtype('flowfabric.ff_attempt_listing') is null then
        create type flowfabric.ff_attempt_listing as (
            attempt_index integer,
            attempt_id uuid,
            attempt_type flowfabric.ff_attempt_type,
            attempt_state flowfabric.ff_attempt_row_state,
            created_at_ms bigint,
            started_at_ms bigint,
            suspended_at_ms bigint,
            resumed_at_ms bigint,
            ended_at_ms bigint,
            lease_id uuid,
            lease_epoch bigint,
            worker_id text,
            worker_instance_id text,
            failure_reason text,
            failure_category text,
            retry_reason text,
            reclaim_reason text,
            replay_reason text,
            replay_requested_by text,
            previous_attempt_index integer,
            replayed_from_attempt_index integer,
            stream_closed_at_ms bigint,
            stream_closed_reason text,
            frame_count bigint,
            has_more boolean
        );
    end if;
    if to_regtype('flowfabric.ff_lease_history_row') is null then
        create type flowfabric.ff_lease_history_row as (
            event_id bigint,
            occurred_at_ms bigint,
            event_type text,
            lease_id uuid,
            lease_epoch bigint,
            old_lease_epoch bigint,
            attempt_index integer,
            attempt_id uuid,
            worker_id text,
            worker_instance_id text,
            reason text,
            has_more boolean
        );
    end if;
    if to_regtype('flowfabric.ff_invariant_finding') is null then
        create type flowfabric.ff_invariant_finding as (
            check_name text,
            execution_id text,
            detail jsonb
        );
    end if;
end;
$$;

comment on type flowfabric.ff_execution_key is 'An execution id as the tables hold it.';
comment on type flowfabric.ff_handle is 'What a worker keeps to talk about its current lease.';
comment on type flowfabric.ff_refusal is 'Internal: a typed error that is reported instead of raised.';
comment on type flowfabric.ff_policy_facts is 'Internal: what a creation reads from a policy document.';
comment on type flowfabric.ff_error_code_row is 'One typed error of the catalogue.';
comment on type flowfabric.ff_boot_report is 'What a client process finds at its first call.';
comment on type flowfabric.ff_clock_state is 'The engine''s clock after ff_test_set_clock.';
comment on type flowfabric.ff_setting_change is 'Outcome of ff_set_setting.';
comment on type flowfabric.ff_setting_row is 'A setting with its default.';
comment on type flowfabric.ff_initialize_step is 'One step of ff_initialize.';
comment on type flowfabric.ff_capability_flag is 'Whether this engine supports a named capability.';
comment on type flowfabric.ff_outcome is 'An outcome with nothing beside it.';
comment on type flowfabric.ff_execution_outcome is
'What became of one execution: create, complete, wait for children.';
comment on type flowfabric.ff_execution_item is
'What became of one item of a batch; code, sqlstate and detail only when it was refused.';
comment on type flowfabric.ff_claim is 'A new lease with everything a handle needs.';
comment on type flowfabric.ff_reclaim is
'A lease taken over, or the end of an execution that was taken over too often.';
comment on type flowfabric.ff_renewal is 'A lease with its new expiry.';
comment on type flowfabric.ff_renewal_item is 'A lease of a batch with its new expiry, or why it has none.';
comment on type flowfabric.ff_failure is 'What became of a failed attempt: a retry or the end.';
comment on type flowfabric.ff_failure_item is 'What became of a failed attempt of a batch.';
comment on type flowfabric.ff_delay is 'An execution given back until a time.';
comment on type flowfabric.ff_cancellation is 'A cancelled execution and the phase it was taken from.';
comment on type flowfabric.ff_revocation is 'A lease taken away, or why there was nothing to take.';
comment on type flowfabric.ff_expiry_mark is 'Whether a lease was marked expired, and if not why.';
comment on type flowfabric.ff_expiry is 'Whether an execution was ended by a time limit.';
comment on type flowfabric.ff_tagging is 'How many tags were set.';
comment on type flowfabric.ff_replay is 'An ended execution re-opened for another attempt.';
comment on type flowfabric.ff_grant is 'A short reservation for one worker, or the capabilities it lacks.';
comment on type flowfabric.ff_priority_change is 'A priority before and after, both within range.';
comment on type flowfabric.ff_progress is 'Acknowledges a progress report.';
comment on type flowfabric.ff_state_outcome is 'What a move between queue states did.';
comment on type flowfabric.ff_admission_block is 'Whether admission took an execution off the queue.';
comment on type flowfabric.ff_scan is 'What one run of a scanner did.';
comment on type flowfabric.ff_retention_scan is 'What one run of the retention scanner removed.';
comment on type flowfabric.ff_execution_snapshot is 'Everything about an execution but its bytes.';
comment on type flowfabric.ff_execution_info is 'The state of an execution in upstream''s shape.';
comment on type flowfabric.ff_execution_context is 'What a worker needs to run an execution.';
comment on type flowfabric.ff_execution_result is 'The bytes of the last successful completion.';
comment on type flowfabric.ff_execution_listing is 'One execution of a list.';
comment on type flowfabric.ff_attempt_listing is 'One attempt of a list, with the end of its stream.';
comment on type flowfabric.ff_lease_history_row is 'One lease event of an execution.';
comment on type flowfabric.ff_invariant_finding is 'A stored row that breaks a rule of the state model.';

insert into flowfabric.ff_migration_annotation (version, name, applied_at_ms, backward_compatible)
values (8, 'result-types', floor(extract(epoch from clock_timestamp()) * 1000)::bigint, true)
on conflict (version) do nothing;
