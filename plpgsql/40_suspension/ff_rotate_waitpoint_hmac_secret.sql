-- ff_rotate_waitpoint_hmac_secret: install a new signing key; the old one goes on verifying for a grace period.
--
-- Fence:  the operator role.
-- Locks:  the table ff_waitpoint_hmac, SHARE ROW EXCLUSIVE, for which it waits at most 2 s.
-- Writes: ff_waitpoint_hmac; ff_operator_event, without the secret.
-- Raises: invalid_kid, invalid_secret_hex, invalid_grace_ms, rotation_conflict, retry_exhausted.
-- Retry:  safe; a repeat is a `noop`.
--
-- Without a secret the database makes one that nobody ever sees, which is the better way. A kid that is installed, in
-- whatever state, is never installed again: re-promoting an old one would make its stale expiry that of a live key. A
-- grace of 0 revokes every token that was handed out.
create or replace function flowfabric.ff_rotate_waitpoint_hmac_secret(
    p_new_kid text,
    p_new_secret_hex text default null,
    p_grace_ms bigint default 86400000
)
returns flowfabric.ff_key_rotation
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    c_fn constant text := 'ff_rotate_waitpoint_hmac_secret';
    v_secret bytea;
    v_installed flowfabric.ff_waitpoint_hmac;
    v_previous_kid text;
    v_removed integer;
    v_now_ms bigint;
begin
    if not flowfabric._ff_is_kid(p_new_kid) then
        perform flowfabric._ff_raise('invalid_kid', c_fn);
    end if;
    v_secret := flowfabric._ff_secret_bytes(p_new_secret_hex, 64, 2048, c_fn);
    if (p_grace_ms between 0 and flowfabric._ff_longest_ms()) is not true then
        perform flowfabric._ff_raise('invalid_grace_ms', c_fn, jsonb_build_object('value', p_grace_ms));
    end if;

    perform flowfabric._ff_lock_hmac_keys(c_fn);
    v_now_ms := flowfabric.ff_now_ms();
    select h.kid into v_previous_kid from flowfabric.ff_waitpoint_hmac as h where h.is_current;
    select h.* into v_installed from flowfabric.ff_waitpoint_hmac as h where h.kid = p_new_kid;
    if found then
        if p_new_secret_hex is not null and not flowfabric._ff_is_secret_of(v_installed, v_secret) then
            perform flowfabric._ff_raise('rotation_conflict', c_fn, jsonb_build_object('kid', p_new_kid));
        end if;
        return row('noop', null, p_new_kid, v_previous_kid, 0)::flowfabric.ff_key_rotation;
    end if;

    delete from flowfabric.ff_waitpoint_hmac as h where not flowfabric._ff_is_usable_hmac(h, v_now_ms);
    get diagnostics v_removed = row_count;
    update flowfabric.ff_waitpoint_hmac as h
    set is_current = false, expires_at_ms = v_now_ms + p_grace_ms
    where h.is_current;
    perform flowfabric._ff_install_hmac(p_new_kid, v_secret, v_now_ms);
    perform flowfabric._ff_emit_operator(
        0::smallint, null, null, null, null, 'signing_key_rotated',
        jsonb_build_object('kid', p_new_kid, 'previous_kid', v_previous_kid, 'grace_ms', p_grace_ms), v_now_ms);
    return row('rotated', v_previous_kid, p_new_kid, p_new_kid, v_removed)::flowfabric.ff_key_rotation;
end;
$$;

comment on function flowfabric.ff_rotate_waitpoint_hmac_secret(text, text, bigint) is
'Installs a new signing key for waitpoint tokens; tokens of the old one stay good for a grace period.';

grant execute on function flowfabric.ff_rotate_waitpoint_hmac_secret(text, text, bigint) to flowfabric_operator;
