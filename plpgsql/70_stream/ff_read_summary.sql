-- ff_read_summary: the document that the summary frames of an attempt add up to.
--
-- Fence:  none.
-- Locks:  nothing.
-- Writes: nothing.
-- Raises: invalid_input.
-- Retry:  safe.
--
-- The document outlives the trimming and the end of its stream; only retention removes it.
create or replace function flowfabric.ff_read_summary(p_execution_id text, p_attempt_index integer)
returns setof flowfabric.ff_summary_document
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    c_fn constant text := 'ff_read_summary';
    v_key flowfabric.ff_execution_key := flowfabric._ff_parse_execution_id(p_execution_id, c_fn);
begin
    perform flowfabric._ff_check_attempt_index(p_attempt_index, c_fn);
    return query
    select s.document_json, s.version, s.patch_kind, s.last_updated_ms, s.first_applied_ms
    from flowfabric.ff_stream_summary as s
    where s.partition_key = v_key.partition_key and s.execution_id = v_key.execution_id
        and s.attempt_index = p_attempt_index;
end;
$$;

comment on function flowfabric.ff_read_summary(text, integer) is
'The summary document of an attempt with its version; no row if no summary frame was ever appended.';

grant execute on function flowfabric.ff_read_summary(text, integer) to flowfabric_reader, flowfabric_operator;
