-- ff_format_execution_id: the wire form of a partition number and a uuid.
--
-- Fence:  none.
-- Locks:  nothing.
-- Writes: nothing.
-- Raises: nothing.
-- Retry:  safe.
--
-- Without SECURITY DEFINER and SET, so that the planner inlines it; with explicit casts, because `text || smallint`
-- is only STABLE and would keep it from being inlined (31 us a call). Names are qualified, because it runs
-- under the search path of its caller.
create or replace function flowfabric.ff_format_execution_id(p_partition_key smallint, p_execution_id uuid)
returns text
language sql immutable parallel safe
as $$
    select '{fp:' operator(pg_catalog.||) p_partition_key::pg_catalog.text operator(pg_catalog.||) '}:'
        operator(pg_catalog.||) p_execution_id::pg_catalog.text
$$;

comment on function flowfabric.ff_format_execution_id(smallint, uuid) is
'The wire id {fp:N}:<uuid> of a partition number and a uuid.';

grant execute on function flowfabric.ff_format_execution_id(smallint, uuid)
to flowfabric_producer, flowfabric_worker, flowfabric_signaller, flowfabric_operator, flowfabric_reader;
