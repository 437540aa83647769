-- ff_list_pending_waitpoints: the open waitpoints of an execution, pending and active, by id.
--
-- Fence:  none.
-- Locks:  nothing.
-- Writes: nothing.
-- Raises: invalid_input, execution_not_found.
-- Retry:  safe.
--
-- Never a token: its fingerprint recognises it, and ff_read_waitpoint_token hands it out to operators.
create or replace function flowfabric.ff_list_pending_waitpoints(
    p_execution_id text,
    p_after uuid default null,
    p_limit integer default 100
)
returns setof flowfabric.ff_waitpoint_listing
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    c_fn constant text := 'ff_list_pending_waitpoints';
    v_key flowfabric.ff_execution_key := flowfabric._ff_parse_execution_id(p_execution_id, c_fn);
    v_limit integer := least(greatest(coalesce(p_limit, 100), 1), 1000);
    v_now_ms bigint := flowfabric.ff_now_ms();
begin
    if not exists (
        select from flowfabric.ff_exec_core as e
        where e.partition_key = v_key.partition_key and e.execution_id = v_key.execution_id)
    then
        perform flowfabric._ff_raise_not_found(v_key, c_fn);
    end if;
    return query
    select
        w.waitpoint_id, w.waitpoint_key, w.state, w.required_signal_names, w.created_at_ms, w.activated_at_ms,
        w.expires_at_ms, flowfabric.ff_format_execution_id(w.partition_key, w.execution_id), w.token_kid,
        w.token_fingerprint, case when w.number = v_limit and w.has_next then w.waitpoint_id end
    from (
        select
            o.*, row_number() over (order by o.waitpoint_id) as number,
            lead(o.waitpoint_id) over (order by o.waitpoint_id) is not null as has_next
        from (
            select p.*
            from flowfabric.ff_waitpoint_pending as p
            where p.partition_key = v_key.partition_key and p.execution_id = v_key.execution_id
                and (p_after is null or p.waitpoint_id > p_after)
                and flowfabric._ff_is_open_waitpoint(p, v_now_ms)
            order by p.waitpoint_id
            limit v_limit + 1
        ) as o
    ) as w
    where w.number <= v_limit
    order by w.waitpoint_id;
end;
$$;

comment on function flowfabric.ff_list_pending_waitpoints(text, uuid, integer) is
'The open waitpoints of an execution, a page at a time, with key and fingerprint of their tokens.';

grant execute on function flowfabric.ff_list_pending_waitpoints(text, uuid, integer)
to flowfabric_reader, flowfabric_operator;
