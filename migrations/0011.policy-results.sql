-- The composite types that the functions of quotas, budgets, reservations and the worker registry return.
--
-- Locks:  nothing that exists; everything here is new.
-- Beside: there is no previous release.
-- depends: 0010.claim-results

do $$
begin
    -- Admission
    if to_regtype('flowfabric.ff_admission_decision') is null then
        create type flowfabric.ff_admission_decision as (
            outcome text,
            retry_after_ms bigint
        );
    end if;
    if to_regtype('flowfabric.ff_quota_load') is null then
        create type flowfabric.ff_quota_load as (
            entries_in_window bigint,
            active_concurrency bigint,
            tokens_left bigint,
            slots_left bigint
        );
    end if;
    if to_regtype('flowfabric.ff_budget_denial') is null then
        create type flowfabric.ff_budget_denial as (
            budget_id text,
            detail text
        );
    end if;
    -- Quotas
    if to_regtype('flowfabric.ff_quota_creation') is null then
        create type flowfabric.ff_quota_creation as (
            outcome text,
            quota_policy_id text
        );
    end if;
    if to_regtype('flowfabric.ff_admission') is null then
        create type flowfabric.ff_admission as (
            execution_id text,
            quota_policy_id text,
            outcome text,
            retry_after_ms bigint
        );
    end if;
    if to_regtype('flowfabric.ff_quota_status') is null then
        create type flowfabric.ff_quota_status as (
            quota_policy_id text,
            requests_per_window_seconds bigint,
            max_requests_per_window bigint,
            active_concurrency_cap bigint,
            jitter_ms bigint,
            entries_in_window bigint,
            active_concurrency bigint,
            is_unlimited boolean,
            created_at_ms bigint
        );
    end if;
    if to_regtype('flowfabric.ff_quota_reconciliation') is null then
        create type flowfabric.ff_quota_reconciliation as (
            processed integer,
            skipped integer,
            errors integer,
            more boolean,
            slots_released integer,
            window_entries_deleted integer,
            admissions_deleted integer
        );
    end if;
    -- Budgets
    if to_regtype('flowfabric.ff_budget_creation') is null then
        create type flowfabric.ff_budget_creation as (
            outcome text,
            budget_id text
        );
    end if;
    if to_regtype('flowfabric.ff_budget_breach') is null then
        create type flowfabric.ff_budget_breach as (
            dimension text,
            current_usage bigint,
            reserved_usage bigint,
            limit_value bigint
        );
    end if;
    if to_regtype('flowfabric.ff_usage_report') is null then
        create type flowfabric.ff_usage_report as (
            outcome text,
            dimension text,
            current_usage bigint,
            limit_value bigint,
            action text
        );
    end if;
    if to_regtype('flowfabric.ff_reservation') is null then
        create type flowfabric.ff_reservation as (
            outcome text,
            budget_id text,
            reservation_key text,
            dimensions text[],
            amounts bigint[],
            dimension text,
            current_usage bigint,
            reserved_usage bigint,
            limit_value bigint,
            action text
        );
    end if;
    if to_regtype('flowfabric.ff_budget_reset') is null then
        create type flowfabric.ff_budget_reset as (
            next_reset_at_ms bigint,
            reset_count bigint
        );
    end if;
    if to_regtype('flowfabric.ff_budget_status') is null then
        create type flowfabric.ff_budget_status as (
            budget_id text,
            scope_type text,
            scope_id text,
            enforcement_mode text,
            on_hard_limit text,
            on_soft_limit text,
            reset_interval_ms bigint,
            breach_count bigint,
            soft_breach_count bigint,
            reset_count bigint,
            last_breach_at_ms bigint,
            last_breach_dim text,
            last_reset_at_ms bigint,
            next_reset_at_ms bigint,
            created_at_ms bigint,
            updated_at_ms bigint
        );
    end if;
    if to_regtype('flowfabric.ff_budget_dimension') is null then
        create type flowfabric.ff_budget_dimension as (
            dimension text,
            current_value bigint,
            reserved_value bigint,
            hard_limit bigint,
            soft_limit bigint,
            hard_reached boolean
        );
    end if;
    -- Workers
    if to_regtype('flowfabric.ff_worker_registration') is null then
        create type flowfabric.ff_worker_registration as (
            outcome text,
            next_expiry_ms bigint,
            draining boolean
        );
    end if;
    if to_regtype('flowfabric.ff_worker_heartbeat') is null then
        create type flowfabric.ff_worker_heartbeat as (
            outcome text,
            next_expiry_ms bigint,
            draining boolean,
            drain_reason text
        );
    end if;
    if to_regtype('flowfabric.ff_worker_listing') is null then
        create type flowfabric.ff_worker_listing as (
            namespace text,
            worker_instance_id text,
            worker_id text,
            lanes text[],
            capabilities text[],
            last_heartbeat_ms bigint,
            liveness_ttl_ms bigint,
            expires_at_ms bigint,
            registered_at_ms bigint,
            draining boolean,
            drain_reason text,
            live boolean,
            has_more boolean
        );
    end if;
    -- Scanners
    if to_regtype('flowfabric.ff_unblock_scan') is null then
        create type flowfabric.ff_unblock_scan as (
            processed integer,
            skipped integer,
            errors integer,
            more boolean,
            budget integer,
            quota integer,
            route integer,
            lane integer
        );
    end if;
end;
$$;

comment on type flowfabric.ff_admission_decision is
'Internal: whether a quota policy lets an execution start, and if not by when to ask again.';
comment on type flowfabric.ff_quota_load is 'Internal: what of a quota policy is in use and what is left.';
comment on type flowfabric.ff_budget_denial is
'Internal: a budget that has reached a hard limit, and the words for it.';
comment on type flowfabric.ff_quota_creation is 'Whether a quota policy was defined or was there before.';
comment on type flowfabric.ff_admission is
'Whether an execution may start under a quota policy; a denial is an outcome.';
comment on type flowfabric.ff_quota_status is 'The limits of a quota policy and what of them is in use.';
comment on type flowfabric.ff_quota_reconciliation is 'What one run of the quota scanner repaired and removed.';
comment on type flowfabric.ff_budget_creation is 'Whether a budget was defined or was there before.';
comment on type flowfabric.ff_budget_breach is 'Internal: the dimension that meets a limit.';
comment on type flowfabric.ff_usage_report is 'Whether usage was booked, and the limit it met.';
comment on type flowfabric.ff_reservation is 'Amounts set aside, or the limit they would pass.';
comment on type flowfabric.ff_budget_reset is 'A budget after its usage was set to zero.';
comment on type flowfabric.ff_budget_status is 'A budget with its breaches and resets.';
comment on type flowfabric.ff_budget_dimension is 'Usage, reservations and limits of a budget in one dimension.';
comment on type flowfabric.ff_worker_registration is 'A worker process that is known until its time runs out.';
comment on type flowfabric.ff_worker_heartbeat is
'Whether a worker process is still known, and whether it should stop taking work.';
comment on type flowfabric.ff_worker_listing is 'One worker process of a list.';
comment on type flowfabric.ff_unblock_scan is 'What one run of the unblock scanner let go, in all and by cause.';

insert into flowfabric.ff_migration_annotation (version, name, applied_at_ms, backward_compatible)
values (11, 'policy-results', floor(extract(epoch from clock_timestamp()) * 1000)::bigint, true)
on conflict (version) do nothing;
