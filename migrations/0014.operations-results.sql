-- The composite types that the tick and the functions for operating an installation return.
--
-- Locks:  nothing that exists; everything here is new.
-- Beside: there is no previous release.
-- depends: 0013.stream-event-results

do $$
begin
    -- The tick
    if to_regtype('flowfabric.ff_scanner_run') is null then
        create type flowfabric.ff_scanner_run as (
            scanner text,
            status text,
            processed integer,
            skipped integer,
            errors integer,
            more boolean,
            duration_ms integer,
            last_error text
        );
    end if;
    if to_regtype('flowfabric.ff_known_scanner') is null then
        create type flowfabric.ff_known_scanner as (
            scanner text,
            function_name text,
            run_order integer,
            interval_ms bigint,
            batch_limit integer
        );
    end if;
    if to_regtype('flowfabric.ff_scanner_listing') is null then
        create type flowfabric.ff_scanner_listing as (
            scanner text,
            function_name text,
            run_order integer,
            enabled boolean,
            interval_ms bigint,
            batch_limit integer,
            next_due_at_ms bigint,
            last_run_at_ms bigint,
            last_duration_ms integer,
            last_processed integer,
            last_skipped integer,
            last_errors integer,
            total_processed bigint,
            consecutive_failures integer,
            last_error text,
            overdue_ms bigint
        );
    end if;
    if to_regtype('flowfabric.ff_scanner_failure_listing') is null then
        create type flowfabric.ff_scanner_failure_listing as (
            scanner text,
            item_key text,
            failures integer,
            skip_until_ms bigint,
            last_error text,
            last_failed_at_ms bigint,
            has_more boolean
        );
    end if;
    -- Operation
    if to_regtype('flowfabric.ff_queue_stat') is null then
        create type flowfabric.ff_queue_stat as (
            lane_id text,
            waiting bigint,
            delayed bigint,
            rate_limited bigint,
            waiting_children bigint,
            active bigint,
            suspended bigint,
            oldest_eligible_created_at_ms bigint,
            expired_leases bigint
        );
    end if;
    if to_regtype('flowfabric.ff_explanation') is null then
        create type flowfabric.ff_explanation as (
            execution_id text,
            public_state flowfabric.ff_public_state,
            verdict text,
            summary text,
            since_ms bigint,
            until_ms bigint,
            what_to_do text,
            detail jsonb
        );
    end if;
    if to_regtype('flowfabric.ff_finding') is null then
        create type flowfabric.ff_finding as (
            check_name text,
            severity text,
            finding text,
            what_to_do text,
            detail jsonb
        );
    end if;
    if to_regtype('flowfabric.ff_metric') is null then
        create type flowfabric.ff_metric as (
            metric text,
            labels jsonb,
            value double precision,
            unit text,
            capped boolean
        );
    end if;
    -- Between functions
    if to_regtype('flowfabric.ff_lane_count') is null then
        create type flowfabric.ff_lane_count as (
            lane_id text,
            state text,
            executions bigint,
            capped boolean
        );
    end if;
end;
$$;

comment on type flowfabric.ff_scanner_run is 'What became of one scanner in a tick, and what it did if it ran.';
comment on type flowfabric.ff_known_scanner is 'Internal: a scanner of the engine with its defaults.';
comment on type flowfabric.ff_scanner_listing is 'A scanner: its schedule, its last run and by how much it is late.';
comment on type flowfabric.ff_scanner_failure_listing is 'An item at which a scanner keeps failing.';
comment on type flowfabric.ff_queue_stat is 'One lane: its executions that have not ended, by state.';
comment on type flowfabric.ff_explanation is 'Why an execution is where it is, until when, and what to do about it.';
comment on type flowfabric.ff_finding is 'Something about the installation that deserves attention, and what to do.';
comment on type flowfabric.ff_metric is 'One measurement; capped says that the true value is at least this.';
comment on type flowfabric.ff_lane_count is
'Internal: how many executions of a lane are in a state; capped says that there may be more.';

insert into flowfabric.ff_migration_annotation (version, name, applied_at_ms, backward_compatible)
values (14, 'operations-results', floor(extract(epoch from clock_timestamp()) * 1000)::bigint, true)
on conflict (version) do nothing;
