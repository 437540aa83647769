-- ff_read_waitpoint_token: hand out the token of an open waitpoint again.
--
-- Fence:  the operator role.
-- Locks:  nothing.
-- Writes: nothing.
-- Raises: invalid_input, hmac_secret_not_initialized, invalid_secret.
-- Retry:  safe; the answer changes only when the key that signed the token stops being usable.
--
-- For an answer that was lost, a new bridge, or a token whose key has left its grace period: then it is a new token,
-- signed by the current key. What is not open gives no row, whatever the reason.
create or replace function flowfabric.ff_read_waitpoint_token(p_execution_id text, p_waitpoint_id uuid)
returns setof flowfabric.ff_readable_token
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    c_fn constant text := 'ff_read_waitpoint_token';
    v_key flowfabric.ff_execution_key := flowfabric._ff_parse_execution_id(p_execution_id, c_fn);
    v_now_ms bigint := flowfabric.ff_now_ms();
    v_waitpoint flowfabric.ff_waitpoint_pending;
begin
    perform flowfabric._ff_current_hmac(c_fn);
    select w.* into v_waitpoint
    from flowfabric.ff_waitpoint_pending as w
    where w.partition_key = v_key.partition_key and w.waitpoint_id = p_waitpoint_id
        and w.execution_id = v_key.execution_id and flowfabric._ff_is_open_waitpoint(w, v_now_ms);
    if found then
        return next flowfabric._ff_token_again(v_waitpoint, v_now_ms, c_fn);
    end if;
end;
$$;

comment on function flowfabric.ff_read_waitpoint_token(text, uuid) is
'The token of an open waitpoint, for an operator to hand out again; no row for anything else.';

grant execute on function flowfabric.ff_read_waitpoint_token(text, uuid) to flowfabric_operator;
