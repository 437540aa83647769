-- ff_list_waitpoint_hmac_kids: the signing keys that verify tokens right now, by name.
--
-- Fence:  none.
-- Locks:  nothing.
-- Writes: nothing.
-- Raises: nothing.
-- Retry:  safe.
create or replace function flowfabric.ff_list_waitpoint_hmac_kids()
returns setof flowfabric.ff_kid_listing
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_now_ms bigint := flowfabric.ff_now_ms();
begin
    return query
    select
        h.kid, case when h.is_current then 'current' else 'verifying' end, h.expires_at_ms, h.installed_at_ms
    from flowfabric.ff_waitpoint_hmac as h
    where flowfabric._ff_is_usable_hmac(h, v_now_ms)
    order by h.is_current desc, h.expires_at_ms, h.kid;
end;
$$;

comment on function flowfabric.ff_list_waitpoint_hmac_kids() is
'The names of the signing keys that verify tokens right now, the current one first; never a secret.';

grant execute on function flowfabric.ff_list_waitpoint_hmac_kids() to flowfabric_reader, flowfabric_operator;
