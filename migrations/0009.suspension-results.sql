-- The composite types that the functions of suspensions, waitpoints, signals and signing keys return.
--
-- Locks:  nothing that exists; everything here is new.
-- Beside: there is no previous release.
-- depends: 0008.result-types
--
-- A token appears in three of them and in no table: it is computed for the answer. No type has a field for a signing
-- key or its pads.

do $$
begin
    -- Suspensions and waitpoints
    if to_regtype('flowfabric.ff_suspended_waitpoint') is null then
        create type flowfabric.ff_suspended_waitpoint as (
            outcome text,
            suspension_id uuid,
            ordinal integer,
            waitpoint_id uuid,
            waitpoint_key text,
            waitpoint_token text,
            replayed boolean
        );
    end if;
    if to_regtype('flowfabric.ff_minted_waitpoint') is null then
        create type flowfabric.ff_minted_waitpoint as (
            waitpoint_id uuid,
            waitpoint_key text,
            waitpoint_token text,
            expires_at_ms bigint
        );
    end if;
    if to_regtype('flowfabric.ff_readable_token') is null then
        create type flowfabric.ff_readable_token as (
            waitpoint_token text,
            token_kid text
        );
    end if;
    if to_regtype('flowfabric.ff_resumption') is null then
        create type flowfabric.ff_resumption as (
            public_state flowfabric.ff_public_state,
            delay_until_ms bigint
        );
    end if;
    if to_regtype('flowfabric.ff_waitpoint_listing') is null then
        create type flowfabric.ff_waitpoint_listing as (
            waitpoint_id uuid,
            waitpoint_key text,
            state text,
            required_signal_names text [],
            created_at_ms bigint,
            activated_at_ms bigint,
            expires_at_ms bigint,
            execution_id text,
            token_kid text,
            token_fingerprint text,
            next_cursor uuid
        );
    end if;
    if to_regtype('flowfabric.ff_suspension_listing') is null then
        create type flowfabric.ff_suspension_listing as (
            execution_id text,
            suspended_at_ms bigint,
            reason_code text,
            timeout_at_ms bigint
        );
    end if;
    if to_regtype('flowfabric.ff_condition_node') is null then
        create type flowfabric.ff_condition_node as (
            number integer,
            path text,
            depth integer,
            kind text,
            body jsonb
        );
    end if;
    -- Signals
    if to_regtype('flowfabric.ff_signal_delivery') is null then
        create type flowfabric.ff_signal_delivery as (
            outcome text,
            signal_id uuid,
            effect text
        );
    end if;
    if to_regtype('flowfabric.ff_observed_signal') is null then
        create type flowfabric.ff_observed_signal as (
            signal_id uuid,
            waitpoint_id uuid,
            waitpoint_key text,
            signal_name text,
            signal_category text,
            source_type text,
            source_identity text,
            correlation_id text,
            payload bytea,
            payload_encoding text,
            accepted_at_ms bigint
        );
    end if;
    -- Signing keys
    if to_regtype('flowfabric.ff_key_rotation') is null then
        create type flowfabric.ff_key_rotation as (
            outcome text,
            previous_kid text,
            new_kid text,
            current_kid text,
            gc_count integer
        );
    end if;
    if to_regtype('flowfabric.ff_key_seeding') is null then
        create type flowfabric.ff_key_seeding as (
            outcome text,
            kid text,
            same_secret boolean
        );
    end if;
    if to_regtype('flowfabric.ff_kid_listing') is null then
        create type flowfabric.ff_kid_listing as (
            kid text,
            status text,
            expires_at_ms bigint,
            installed_at_ms bigint
        );
    end if;
end;
$$;

comment on type flowfabric.ff_suspended_waitpoint is
'One waitpoint of a suspension with its token, and whether the execution is suspended or goes on.';
comment on type flowfabric.ff_minted_waitpoint is 'A waitpoint opened before its suspension, with its token.';
comment on type flowfabric.ff_readable_token is 'A token handed out again, and the key it was minted under.';
comment on type flowfabric.ff_resumption is 'A resumed execution: waiting, or delayed until a time.';
comment on type flowfabric.ff_waitpoint_listing is
'One open waitpoint of a list; next_cursor is on the last row of a page that has a next one.';
comment on type flowfabric.ff_suspension_listing is 'One open suspension of a list.';
comment on type flowfabric.ff_condition_node is 'Internal: one node of a resume condition, numbered depth first.';
comment on type flowfabric.ff_signal_delivery is 'What became of a signal; a duplicate has no effect.';
comment on type flowfabric.ff_observed_signal is 'One of the signals that satisfied a resume condition.';
comment on type flowfabric.ff_key_rotation is 'Whether a signing key was installed, and which one signs now.';
comment on type flowfabric.ff_key_seeding is
'Whether the first signing key was installed; same_secret compares a secret given for a key that is there.';
comment on type flowfabric.ff_kid_listing is 'One signing key that verifies tokens now, by name.';

insert into flowfabric.ff_migration_annotation (version, name, applied_at_ms, backward_compatible)
values (9, 'suspension-results', floor(extract(epoch from clock_timestamp()) * 1000)::bigint, true)
on conflict (version) do nothing;
