-- The composite types of the claim family, of lanes and of waiting for work.
--
-- Locks:  nothing that exists; everything here is new.
-- Beside: there is no previous release.
-- depends: 0009.suspension-results

do $$
begin
    -- Claims
    if to_regtype('flowfabric.ff_claim_candidate') is null then
        create type flowfabric.ff_claim_candidate as (
            partition_key smallint,
            execution_id uuid,
            row_id tid,
            lane_id text,
            capability_set_id integer,
            priority integer,
            total_attempt_count integer,
            attempt_state flowfabric.ff_attempt_state,
            quota_policy_id text,
            budget_ids text[],
            has_floor boolean,
            has_grant boolean
        );
    end if;
    if to_regtype('flowfabric.ff_admission_memory') is null then
        create type flowfabric.ff_admission_memory as (
            is_admitted boolean,
            clear_budgets text[],
            denied_budgets jsonb,
            settled_quotas text[],
            locked_quotas text[],
            busy_quotas text[],
            denied_quotas jsonb
        );
    end if;
    if to_regtype('flowfabric.ff_claimed_execution') is null then
        create type flowfabric.ff_claimed_execution as (
            execution_id text,
            lane_id text,
            namespace text,
            execution_kind text,
            priority integer,
            lease_id uuid,
            lease_epoch bigint,
            lease_expires_at_ms bigint,
            lease_renewal_deadline_ms bigint,
            attempt_id uuid,
            attempt_index integer,
            attempt_type flowfabric.ff_attempt_type,
            handle_kind text,
            worker_instance_id text,
            lease_ttl_ms bigint,
            payload bytea,
            payload_encoding text,
            tags jsonb,
            policy jsonb,
            flow_id uuid,
            required_capabilities text[],
            created_at_ms bigint,
            started_at_ms bigint,
            deadline_at_ms bigint,
            attempt_timeout_at_ms bigint,
            total_attempt_count integer
        );
    end if;
    if to_regtype('flowfabric.ff_reclaimed_execution') is null then
        create type flowfabric.ff_reclaimed_execution as (
            outcome text,
            execution_id text,
            lane_id text,
            namespace text,
            execution_kind text,
            priority integer,
            lease_id uuid,
            lease_epoch bigint,
            lease_expires_at_ms bigint,
            lease_renewal_deadline_ms bigint,
            attempt_id uuid,
            attempt_index integer,
            attempt_type flowfabric.ff_attempt_type,
            handle_kind text,
            worker_instance_id text,
            lease_ttl_ms bigint,
            payload bytea,
            payload_encoding text,
            tags jsonb,
            policy jsonb,
            flow_id uuid,
            required_capabilities text[],
            created_at_ms bigint,
            started_at_ms bigint,
            deadline_at_ms bigint,
            attempt_timeout_at_ms bigint,
            total_attempt_count integer,
            reclaim_count integer,
            max_reclaim_count integer
        );
    end if;
    if to_regtype('flowfabric.ff_granted_execution') is null then
        create type flowfabric.ff_granted_execution as (
            execution_id text,
            lane_id text,
            resumed boolean,
            grant_key text,
            grant_id bytea,
            expires_at_ms bigint
        );
    end if;
    -- Reads
    if to_regtype('flowfabric.ff_eligible_listing') is null then
        create type flowfabric.ff_eligible_listing as (
            execution_id text,
            priority integer,
            created_at_ms bigint,
            attempt_state flowfabric.ff_attempt_state,
            required_capabilities text[],
            has_more boolean
        );
    end if;
    if to_regtype('flowfabric.ff_worker_lease_listing') is null then
        create type flowfabric.ff_worker_lease_listing as (
            execution_id text,
            lease_id uuid,
            lease_epoch bigint,
            attempt_id uuid,
            attempt_index integer,
            lease_expires_at_ms bigint,
            lane_id text,
            ownership_state flowfabric.ff_ownership_state,
            has_more boolean
        );
    end if;
    if to_regtype('flowfabric.ff_expired_lease_listing') is null then
        create type flowfabric.ff_expired_lease_listing as (
            execution_id text,
            lease_id uuid,
            lease_epoch bigint,
            attempt_id uuid,
            attempt_index integer,
            worker_id text,
            worker_instance_id text,
            lease_expires_at_ms bigint,
            ownership_state flowfabric.ff_ownership_state,
            has_more boolean
        );
    end if;
    -- Waiting, floors and lanes
    if to_regtype('flowfabric.ff_work_wait') is null then
        create type flowfabric.ff_work_wait as (
            until_ms bigint,
            notify boolean
        );
    end if;
    if to_regtype('flowfabric.ff_floor_scan') is null then
        create type flowfabric.ff_floor_scan as (
            processed integer,
            skipped integer,
            errors integer,
            more boolean,
            deleted integer
        );
    end if;
    if to_regtype('flowfabric.ff_lane_state_change') is null then
        create type flowfabric.ff_lane_state_change as (
            outcome text,
            previous_state text
        );
    end if;
    if to_regtype('flowfabric.ff_lane_listing') is null then
        create type flowfabric.ff_lane_listing as (
            lane_id text,
            lane_state text,
            registered_at_ms bigint,
            registered_by text,
            state_changed_at_ms bigint,
            state_reason text,
            has_more boolean
        );
    end if;
end;
$$;

comment on type flowfabric.ff_claim_candidate is
'Internal: an eligible execution on its way from the queue to a claim or a grant.';
comment on type flowfabric.ff_admission_memory is
'Internal: the verdict on a candidate and what the call has learnt of budgets and quotas, denials with their text.';
comment on type flowfabric.ff_claimed_execution is 'An execution under a new lease, with everything needed to run it.';
comment on type flowfabric.ff_reclaimed_execution is
'An execution taken over under a new lease, or one that was ended because that had happened too often.';
comment on type flowfabric.ff_granted_execution is 'A short reservation of the next execution for one worker.';
comment on type flowfabric.ff_eligible_listing is 'One execution of a lane''s queue.';
comment on type flowfabric.ff_worker_lease_listing is 'One lease of a worker, with the whole fence.';
comment on type flowfabric.ff_expired_lease_listing is 'One lease that has run out, and who held it.';
comment on type flowfabric.ff_work_wait is 'Until when a worker is woken for new work, and whether at all.';
comment on type flowfabric.ff_floor_scan is 'What one run of the scanner of claim floors did.';
comment on type flowfabric.ff_lane_state_change is 'Outcome of ff_set_lane_state.';
comment on type flowfabric.ff_lane_listing is 'One lane of a list.';

insert into flowfabric.ff_migration_annotation (version, name, applied_at_ms, backward_compatible)
values (10, 'claim-results', floor(extract(epoch from clock_timestamp()) * 1000)::bigint, true)
on conflict (version) do nothing;
