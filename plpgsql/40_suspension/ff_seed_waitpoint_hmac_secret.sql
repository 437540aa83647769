-- ff_seed_waitpoint_hmac_secret: install the very first signing key; for every start of a deployment.
--
-- Fence:  the operator role.
-- Locks:  the table ff_waitpoint_hmac, SHARE ROW EXCLUSIVE, for which it waits at most 2 s.
-- Writes: ff_waitpoint_hmac and ff_operator_event, only if there is no key.
-- Raises: invalid_kid, invalid_secret_hex, invalid_input, retry_exhausted.
-- Retry:  safe; a repeat answers `already_seeded`.
--
-- Another secret for a kid that is installed is a report, not an error: the caller must choose a fresh kid and rotate.
create or replace function flowfabric.ff_seed_waitpoint_hmac_secret(
    p_kid text,
    p_secret_hex text default null
)
returns flowfabric.ff_key_seeding
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    c_fn constant text := 'ff_seed_waitpoint_hmac_secret';
    v_secret bytea;
    v_installed flowfabric.ff_waitpoint_hmac;
    v_now_ms bigint;
begin
    if not flowfabric._ff_is_kid(p_kid) then
        perform flowfabric._ff_raise('invalid_kid', c_fn);
    end if;
    v_secret := flowfabric._ff_secret_bytes(p_secret_hex, 64, 64, c_fn);

    perform flowfabric._ff_lock_hmac_keys(c_fn);
    select h.* into v_installed from flowfabric.ff_waitpoint_hmac as h where h.kid = p_kid;
    if found then
        return row(
            'already_seeded', p_kid, p_secret_hex is null or flowfabric._ff_is_secret_of(v_installed, v_secret)
        )::flowfabric.ff_key_seeding;
    end if;
    if exists (select from flowfabric.ff_waitpoint_hmac as h where h.is_current) then
        perform flowfabric._ff_raise_invalid(c_fn, 'kid', 'different_kid_active', p_kid);
    end if;
    v_now_ms := flowfabric.ff_now_ms();
    perform flowfabric._ff_install_hmac(p_kid, v_secret, v_now_ms);
    perform flowfabric._ff_emit_operator(
        0::smallint, null, null, null, null, 'signing_key_installed', jsonb_build_object('kid', p_kid), v_now_ms);
    return row('seeded', p_kid, null)::flowfabric.ff_key_seeding;
end;
$$;

comment on function flowfabric.ff_seed_waitpoint_hmac_secret(text, text) is
'Installs the first signing key for waitpoint tokens, once; safe to call at every start.';

grant execute on function flowfabric.ff_seed_waitpoint_hmac_secret(text, text) to flowfabric_operator;
