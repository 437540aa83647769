-- What the files of this folder include first: the common fixtures, and events of transactions that are long over.
--
-- A file is one transaction, and nobody reads the events of a transaction that still runs. So events that are to be
-- read are written by hand here, under transaction ids that were used up before the server's first client came.
\ir ../helpers.sql
\if :ff_tap_is_alone
    \quit
\endif

create function ff_tap.id(p_number integer)
returns text
language sql immutable
as $$ select '{fp:86}:00000000-0000-4000-8000-' || lpad(p_number::text, 12, '0') $$;

comment on function ff_tap.id(integer) is 'The id of the n-th execution.';

create function ff_tap.completion(
    p_xact_id integer,
    p_event_id bigint,
    p_number integer default 1,
    p_outcome flowfabric.ff_terminal_outcome default 'success',
    p_namespace text default 'default',
    p_instance_tag text default null,
    p_occurred_at_ms bigint default 1000,
    p_epoch integer default 1,
    p_partition_key integer default 86
)
returns void
language sql volatile
as $$
    insert into flowfabric.ff_completion_event (
        epoch, xact_id, event_id, partition_key, occurred_at_ms, namespace, instance_tag, execution_id, lane_id, outcome)
    values (
        p_epoch, p_xact_id::text::xid8, p_event_id, p_partition_key, p_occurred_at_ms, p_namespace, p_instance_tag,
        right(ff_tap.id(p_number), 36)::uuid, 'default', p_outcome)
$$;

comment on function ff_tap.completion(
    integer, bigint, integer, flowfabric.ff_terminal_outcome, text, text, bigint, integer, integer) is
'Writes the completion event of the n-th execution under a transaction id.';

create function ff_tap.horizon()
returns text
language sql volatile
as $$ select pg_snapshot_xmin(pg_current_snapshot())::text $$;

comment on function ff_tap.horizon() is 'The oldest transaction that runs: at the latest the one of the file.';
