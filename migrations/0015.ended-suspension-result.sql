-- The composite type that ff_list_ended_suspensions returns.
--
-- Locks:  nothing that exists; everything here is new.
-- Beside: there is no previous release.
-- depends: 0014.operations-results

do $$
begin
    if to_regtype('flowfabric.ff_ended_suspension') is null then
        create type flowfabric.ff_ended_suspension as (
            suspension_id uuid,
            attempt_index integer,
            ended_by text,
            waitpoint_id uuid,
            waitpoint_key text,
            signal_id uuid,
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
end;
$$;

comment on type flowfabric.ff_ended_suspension is
'A waitpoint of a pause that is over, with one of the signals that ended the pause if there were any.';

insert into flowfabric.ff_migration_annotation (version, name, applied_at_ms, backward_compatible)
values (15, 'ended-suspension-result', floor(extract(epoch from clock_timestamp()) * 1000)::bigint, true)
on conflict (version) do nothing;
