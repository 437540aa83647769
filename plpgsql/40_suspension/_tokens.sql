-- Waitpoint tokens and the keys that sign them.
--
-- A token is `<kid>:<64 hex digits>`: an HMAC-SHA-256 over everything that never changes about a waitpoint. It is
-- computed whenever it is handed out or checked and is stored nowhere. Whoever could call the functions of this file
-- could forge tokens, so none of them is ever granted.

-- HMAC-SHA-256 of core functions only

-- The pads of a secret are all that HMAC needs of it, so they are what is stored.
create or replace function flowfabric._ff_hmac_pad(p_secret bytea, p_mask integer)
returns bytea
language plpgsql immutable strict parallel safe
as $$
declare
    c_block_bytes constant integer := 64;
    v_pad bytea := case when length(p_secret) > c_block_bytes then sha256(p_secret) else p_secret end;
begin
    v_pad := v_pad || decode(repeat('00', c_block_bytes - length(v_pad)), 'hex');
    for i in 0 .. c_block_bytes - 1 loop
        v_pad := set_byte(v_pad, i, get_byte(v_pad, i) # p_mask);
    end loop;
    return v_pad;
end;
$$;
comment on function flowfabric._ff_hmac_pad(bytea, integer) is
'Internal: a secret brought to the block size of SHA-256, every byte XOR a mask: 54 (0x36) inner, 92 (0x5c) outer.';

create or replace function flowfabric._ff_hmac_sha256(p_inner_pad bytea, p_outer_pad bytea, p_message bytea)
returns bytea
language sql immutable parallel safe
as $$
    select sha256(p_outer_pad || sha256(p_inner_pad || p_message))
$$;
comment on function flowfabric._ff_hmac_sha256(bytea, bytea, bytea) is
'Internal: HMAC-SHA-256 of a message under the pads of a secret.';

-- Tokens

-- The key comes last: it is free text, and could otherwise be read as two parts. The execution is part of what is
-- signed, so a token is useless for any other.
create or replace function flowfabric._ff_waitpoint_digest(
    p_hmac flowfabric.ff_waitpoint_hmac,
    p_key flowfabric.ff_execution_key,
    p_waitpoint_id uuid,
    p_created_at_ms bigint,
    p_waitpoint_key text
)
returns bytea
language sql stable
as $$
    select flowfabric._ff_hmac_sha256(
        p_hmac.inner_pad, p_hmac.outer_pad,
        convert_to(
            concat_ws(
                '|', 'v1', p_hmac.kid,
                flowfabric.ff_format_execution_id(p_key.partition_key, p_key.execution_id), p_waitpoint_id::text,
                p_created_at_ms::text, p_waitpoint_key),
            'UTF8'))
$$;
comment on function flowfabric._ff_waitpoint_digest(
    flowfabric.ff_waitpoint_hmac, flowfabric.ff_execution_key, uuid, bigint, text) is
'Internal: what a signing key makes of a waitpoint: the second half of its token.';

create or replace function flowfabric._ff_mint_waitpoint_token(
    p_hmac flowfabric.ff_waitpoint_hmac,
    p_key flowfabric.ff_execution_key,
    p_waitpoint_id uuid,
    p_created_at_ms bigint,
    p_waitpoint_key text
)
returns text
language sql stable
as $$
    select p_hmac.kid || ':' || encode(
        flowfabric._ff_waitpoint_digest(p_hmac, p_key, p_waitpoint_id, p_created_at_ms, p_waitpoint_key), 'hex')
$$;
comment on function flowfabric._ff_mint_waitpoint_token(
    flowfabric.ff_waitpoint_hmac, flowfabric.ff_execution_key, uuid, bigint, text) is
'Internal: the token of a waitpoint under a signing key.';

create or replace function flowfabric._ff_token_fingerprint(p_token text)
returns text
language sql immutable parallel safe
as $$
    select substr(p_token, strpos(p_token, ':') + 1, 16)
$$;
comment on function flowfabric._ff_token_fingerprint(text) is
'Internal: the part of a token that may be shown, to recognise it by.';

create or replace function flowfabric._ff_current_hmac(p_fn text)
returns flowfabric.ff_waitpoint_hmac
language plpgsql stable
as $$
declare
    v_hmac flowfabric.ff_waitpoint_hmac;
begin
    select h.* into v_hmac from flowfabric.ff_waitpoint_hmac as h where h.is_current;
    if not found then
        perform flowfabric._ff_raise('hmac_secret_not_initialized', p_fn);
    end if;
    perform flowfabric._ff_check_pads(v_hmac, p_fn);
    return v_hmac;
end;
$$;
comment on function flowfabric._ff_current_hmac(text) is
'Internal: the key that signs new tokens, or raises hmac_secret_not_initialized.';

-- A constraint of the table makes this unreachable; a restored or hand-edited key store may lack it.
create or replace function flowfabric._ff_check_pads(p_hmac flowfabric.ff_waitpoint_hmac, p_fn text)
returns void
language plpgsql stable
as $$
begin
    if (length(p_hmac.inner_pad) = 64 and length(p_hmac.outer_pad) = 64) is not true then
        perform flowfabric._ff_raise('invalid_secret', p_fn, jsonb_build_object('kid', p_hmac.kid));
    end if;
end;
$$;
comment on function flowfabric._ff_check_pads(flowfabric.ff_waitpoint_hmac, text) is
'Internal: raises invalid_secret for a signing key whose stored form is damaged.';

-- The last millisecond of a grace period belongs to it.
create or replace function flowfabric._ff_is_usable_hmac(p_hmac flowfabric.ff_waitpoint_hmac, p_now_ms bigint)
returns boolean
language sql immutable parallel safe
as $$
    select p_hmac.is_current or p_hmac.expires_at_ms >= p_now_ms
$$;
comment on function flowfabric._ff_is_usable_hmac(flowfabric.ff_waitpoint_hmac, bigint) is
'Internal: whether tokens under a signing key are good at an instant.';

-- Under the key it was minted with the answer is the token that was handed out first. Once that key is out of grace the
-- holder needs another one anyway.
create or replace function flowfabric._ff_token_again(
    p_waitpoint flowfabric.ff_waitpoint_pending,
    p_now_ms bigint,
    p_fn text
)
returns flowfabric.ff_readable_token
language plpgsql stable
as $$
declare
    v_hmac flowfabric.ff_waitpoint_hmac;
begin
    select h.* into v_hmac
    from flowfabric.ff_waitpoint_hmac as h
    where h.kid = p_waitpoint.token_kid and flowfabric._ff_is_usable_hmac(h, p_now_ms);
    if not found then
        v_hmac := flowfabric._ff_current_hmac(p_fn);
    end if;
    perform flowfabric._ff_check_pads(v_hmac, p_fn);
    return row(
        flowfabric._ff_mint_waitpoint_token(
            v_hmac, row(p_waitpoint.partition_key, p_waitpoint.execution_id)::flowfabric.ff_execution_key,
            p_waitpoint.waitpoint_id, p_waitpoint.created_at_ms, p_waitpoint.waitpoint_key),
        v_hmac.kid)::flowfabric.ff_readable_token;
end;
$$;
comment on function flowfabric._ff_token_again(flowfabric.ff_waitpoint_pending, bigint, text) is
'Internal: a token of an existing waitpoint: the first one while its key is usable, else one under the current key.';

-- Takes no lock: a caller without a valid token cannot make anybody wait. Whatever depends on the waitpoint is compared
-- in the last step, with the same work and the same answer for one that does not exist or belongs to another
-- execution; so no refusal tells a prober which of the two it is. Reads the clock itself, for the grace of the key and
-- for nothing else.
create or replace function flowfabric._ff_verify_waitpoint_token(
    p_key flowfabric.ff_execution_key,
    p_waitpoint_id uuid,
    p_token text,
    p_fn text
)
returns void
language plpgsql volatile
as $$
declare
    c_longest_token constant integer := 64 + 1 + 64;
    v_kid text;
    v_hex text;
    v_hmac flowfabric.ff_waitpoint_hmac;
    v_execution_id uuid;
    v_created_at_ms bigint;
    v_waitpoint_key text;
    v_expected bytea;
    v_salt bytea := uuid_send(gen_random_uuid());
begin
    if nullif(p_token, '') is null then
        perform flowfabric._ff_raise('missing_token', p_fn);
    end if;
    if octet_length(p_token) > c_longest_token then
        perform flowfabric._ff_raise('invalid_token', p_fn);
    end if;
    v_kid := split_part(p_token, ':', 1);
    v_hex := substr(p_token, length(v_kid) + 2);
    if not flowfabric._ff_is_kid(v_kid) or v_hex collate "C" !~ '^[0-9a-f]{64}$' then
        perform flowfabric._ff_raise('invalid_token', p_fn);
    end if;
    if not exists (select from flowfabric.ff_waitpoint_hmac as h where h.is_current) then
        perform flowfabric._ff_raise('hmac_secret_not_initialized', p_fn);
    end if;
    select h.* into v_hmac from flowfabric.ff_waitpoint_hmac as h where h.kid = v_kid;
    if not found then
        perform flowfabric._ff_raise('invalid_token', p_fn);
    end if;
    if not flowfabric._ff_is_usable_hmac(v_hmac, flowfabric.ff_now_ms()) then
        perform flowfabric._ff_raise('token_expired', p_fn, jsonb_build_object('kid', v_kid));
    end if;
    perform flowfabric._ff_check_pads(v_hmac, p_fn);

    select w.execution_id, w.created_at_ms, w.waitpoint_key
    into v_execution_id, v_created_at_ms, v_waitpoint_key
    from flowfabric.ff_waitpoint_pending as w
    where w.partition_key = p_key.partition_key and w.waitpoint_id = p_waitpoint_id;
    v_expected := flowfabric._ff_waitpoint_digest(v_hmac, p_key, p_waitpoint_id, v_created_at_ms, v_waitpoint_key);
    -- Salted with what the caller cannot know, the place where two hashes first differ says nothing about how much of
    -- the digest was right.
    if v_execution_id is distinct from p_key.execution_id
        or sha256(v_salt || decode(v_hex, 'hex')) <> sha256(v_salt || v_expected)
    then
        perform flowfabric._ff_raise('invalid_token', p_fn);
    end if;
end;
$$;
comment on function flowfabric._ff_verify_waitpoint_token(flowfabric.ff_execution_key, uuid, text, text) is
'Internal: raises unless a token is good for a waitpoint of an execution.';

-- Keys

create or replace function flowfabric._ff_is_kid(p_kid text)
returns boolean
language sql immutable parallel safe
as $$
    select coalesce(
        octet_length(p_kid) between 1 and 64 and strpos(p_kid, ':') = 0 and strpos(p_kid, '|') = 0
        and not flowfabric._ff_has_space_or_control(p_kid),
        false)
$$;
comment on function flowfabric._ff_is_kid(text) is
'Internal: whether a text can name a signing key: what separates the parts of a token or of its message cannot occur.';

-- A generated secret never exists outside this transaction: nobody can leak it.
create or replace function flowfabric._ff_secret_bytes(
    p_secret_hex text,
    p_min_digits integer,
    p_max_digits integer,
    p_fn text
)
returns bytea
language plpgsql volatile
as $$
begin
    if p_secret_hex is null then
        return sha256(
            uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())
            || uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()));
    end if;
    -- decode() by itself would skip white space.
    if length(p_secret_hex) not between p_min_digits and p_max_digits or length(p_secret_hex) % 2 <> 0
        or translate(p_secret_hex, '0123456789abcdefABCDEF', '') <> ''
    then
        perform flowfabric._ff_raise('invalid_secret_hex', p_fn);
    end if;
    return decode(p_secret_hex, 'hex');
end;
$$;
comment on function flowfabric._ff_secret_bytes(text, integer, integer, text) is
'Internal: the bytes of a secret in hex, or 32 random ones for NULL; raises invalid_secret_hex.';

-- One for the whole key store, so that of two rotations or boots at once the second sees what the first did. Reading
-- goes on beside it. The table itself is locked, because any login could hold an advisory lock.
create or replace function flowfabric._ff_lock_hmac_keys(p_fn text)
returns void
language plpgsql volatile
set lock_timeout = '2s'
as $$
begin
    lock table flowfabric.ff_waitpoint_hmac in share row exclusive mode;
exception when lock_not_available then
    perform flowfabric._ff_raise_tables_busy(
        flowfabric._ff_row_holders(array['flowfabric.ff_waitpoint_hmac'::regclass]), 2000, p_fn);
end;
$$;
comment on function flowfabric._ff_lock_hmac_keys(text) is
'Internal: serialises changes of the signing keys until the end of the transaction; raises retry_exhausted.';

create or replace function flowfabric._ff_is_secret_of(p_hmac flowfabric.ff_waitpoint_hmac, p_secret bytea)
returns boolean
language sql immutable parallel safe
as $$
    select p_hmac.inner_pad = flowfabric._ff_hmac_pad(p_secret, 54)
        and p_hmac.outer_pad = flowfabric._ff_hmac_pad(p_secret, 92)
$$;
comment on function flowfabric._ff_is_secret_of(flowfabric.ff_waitpoint_hmac, bytea) is
'Internal: whether an installed signing key was made from a secret.';

create or replace function flowfabric._ff_install_hmac(p_kid text, p_secret bytea, p_now_ms bigint)
returns void
language sql volatile
as $$
    insert into flowfabric.ff_waitpoint_hmac (kid, inner_pad, outer_pad, installed_at_ms, is_current)
    values (p_kid, flowfabric._ff_hmac_pad(p_secret, 54), flowfabric._ff_hmac_pad(p_secret, 92), p_now_ms, true)
$$;
comment on function flowfabric._ff_install_hmac(text, bytea, bigint) is
'Internal: installs a signing key as the current one; there must be none.';
