-- Rotating the signing key: the new one signs, the old one verifies for its grace, and nobody sees either.
begin;
\ir helpers.sql
select plan(45);

select ff_tap.freeze_time(1000);
prepare rotate (text, text, bigint) as select r.* from flowfabric.ff_rotate_waitpoint_hmac_secret($1, $2, $3) as r;
prepare keys as select h.kid collate "default", h.is_current, h.expires_at_ms, h.installed_at_ms
from flowfabric.ff_waitpoint_hmac as h order by h.installed_at_ms;

-- Bootstrap, rotation, clean-up
select results_eq(
    $$execute rotate('a', repeat('0f', 32), 500)$$, $$values ('rotated', null::text, 'a', 'a', 0)$$,
    'the first key replaces none');
select results_eq('execute keys', $$values ('a', true, null::bigint, 1000::bigint)$$, 'it is current and has no end');
select is(
    (select row(h.inner_pad, h.outer_pad) from flowfabric.ff_waitpoint_hmac as h),
    row(
        decode(repeat('39', 32) || repeat('36', 32), 'hex'), decode(repeat('53', 32) || repeat('5c', 32), 'hex')),
    'its pads are stored, not the secret');
select ff_tap.freeze_time(2000);
select results_eq(
    $$execute rotate('b', repeat('AB', 32), 500)$$, $$values ('rotated', 'a', 'b', 'b', 0)$$,
    'a rotation names the key before it');
select results_eq(
    'execute keys', $$values ('a', false, 2500::bigint, 1000::bigint), ('b', true, null, 2000)$$,
    'which verifies until now + grace');
select ff_tap.freeze_time(2500);
select results_eq(
    $$execute rotate('c', repeat('ab', 32), 500)$$, $$values ('rotated', 'b', 'c', 'c', 0)$$,
    'in the last millisecond of its grace a key is not cleaned up');
select ff_tap.freeze_time(2501);
select results_eq(
    $$execute rotate('d', repeat('ab', 32), 0)$$, $$values ('rotated', 'c', 'd', 'd', 1)$$,
    'after it a rotation removes it and counts it');
select results_eq(
    'execute keys',
    $$values ('b', false, 3000::bigint, 2000::bigint), ('c', false, 2501, 2500), ('d', true, null, 2501)$$,
    'each key has its own deadline; a grace of 0 ends with this millisecond');
select ff_tap.freeze_time(2502);
select results_eq(
    $$execute rotate('e', repeat('ab', 32), 31536000000000)$$, $$values ('rotated', 'd', 'e', 'e', 1)$$,
    'a grace may be a thousand years');
select results_eq(
    $$execute rotate('a', repeat('0f', 32), 1)$$, $$values ('rotated', 'e', 'a', 'a', 0)$$,
    'after the clean-up a name is free again');

-- Repeats
create temporary table held as select array_agg(h::text order by h.kid) as keys from flowfabric.ff_waitpoint_hmac as h;
select ff_tap.freeze_time(3100);
select results_eq(
    $$execute rotate('a', repeat('0F', 32), 77)$$, $$values ('noop', null::text, 'a', 'a', 0)$$,
    'a repeat changes nothing');
select results_eq(
    $$execute rotate('a', null, 77)$$, $$values ('noop', null::text, 'a', 'a', 0)$$, 'nor does one without the secret');
select results_eq(
    $$execute rotate('e', repeat('ab', 32), 77)$$, $$values ('noop', null::text, 'e', 'a', 0)$$,
    'an older key does not become current again; the answer shows which one is');
select results_eq(
    $$execute rotate('b', null, 77)$$, $$values ('noop', null::text, 'b', 'a', 0)$$,
    'neither does one whose grace is over');
select is(
    ff_tap.error_of($$execute rotate('a', repeat('ab', 32), 77)$$) - 'fn',
    '{"code": "rotation_conflict", "kid": "a"}', 'another secret for an installed key is a conflict');
select is(
    (select array_agg(h::text order by h.kid) from flowfabric.ff_waitpoint_hmac as h), (select h.keys from held as h),
    'none of these wrote anything');

-- A secret that nobody knows
select results_eq(
    $$select r.outcome from flowfabric.ff_rotate_waitpoint_hmac_secret('made') as r$$, $$values ('rotated')$$,
    'the database makes a secret itself, and a day of grace is the default');
select is(
    (select h.expires_at_ms from flowfabric.ff_waitpoint_hmac as h where h.kid = 'a'), 86403100::bigint, 'as it is');
select flowfabric.ff_rotate_waitpoint_hmac_secret('made-2');
select is(
    (select count(distinct h.inner_pad) from flowfabric.ff_waitpoint_hmac as h where h.kid like 'made%'), 2::bigint,
    'it makes another one each time');
select is(
    (select bool_and(h.inner_pad <> h.outer_pad and length(h.inner_pad) = 64)
     from flowfabric.ff_waitpoint_hmac as h), true, 'all pads are whole');
\set execution '{fp:86}:00000000-0000-4000-8000-000000000001'
select ff_tap.paused_execution(:'execution');
select matches(ff_tap.token(), '^made-2:', 'new tokens are signed by the new key');
select is(ff_tap.deliver('rejected'), 'no_op', 'and are good');

-- A secret beyond the block size, and its digest, are the same key
select results_eq(
    $$select r.outcome from flowfabric.ff_rotate_waitpoint_hmac_secret('long', repeat('aa', 131)) as r$$,
    $$values ('rotated')$$, 'a secret may be longer than a block');
select results_eq(
    $$select r.outcome from flowfabric.ff_rotate_waitpoint_hmac_secret(
        'long', encode(sha256(decode(repeat('aa', 131), 'hex')), 'hex')) as r$$, $$values ('noop')$$,
    'it is hashed first, as HMAC wants it');
select results_eq(
    $$select r.outcome from flowfabric.ff_rotate_waitpoint_hmac_secret('longest', repeat('aa', 1024)) as r$$,
    $$values ('rotated')$$, 'a secret has 1024 bytes at most');

-- Arguments, in their order
select is(
    ff_tap.error_of(format('execute rotate(%L, ''x'', -1)', b.kid)) - 'fn', '{"code": "invalid_kid"}',
    'a name ' || b.what)
from (values
    (1, null, 'is required'), (2, '', 'is not empty'), (3, 'a:b', 'has no colon'), (4, 'a|b', 'has no pipe'),
    (5, 'a b', 'has no blank'), (6, E'a\tb', 'has no tab'), (7, E'a\u00a0b', 'has no space of any script'),
    (8, repeat('k', 65), 'has 64 bytes at most')) as b (number, kid, what)
order by b.number;
select is(
    ff_tap.error_of(format('execute rotate(''new'', %L, -1)', b.secret)) - 'fn', '{"code": "invalid_secret_hex"}',
    'a secret ' || b.what)
from (values
    (1, '', 'that is given is not empty'), (2, repeat('a', 65), 'has an even number of digits'),
    (3, repeat('zz', 32), 'is written in hex'), (4, repeat('ab', 31), 'has 32 bytes at least'),
    (5, repeat('ab', 1025), 'has 1024 bytes at most'), (6, repeat('ab ', 32), 'has no blanks')
) as b (number, secret, what)
order by b.number;
select is(
    ff_tap.error_of('execute rotate(''new'', null, -1)') - 'fn', '{"code": "invalid_grace_ms", "value": -1}',
    'a grace is not negative');
select is(
    ff_tap.error_of('execute rotate(''new'', null, 9007199254740992)') - 'fn',
    '{"code": "invalid_grace_ms", "value": 9007199254740992}', 'a grace is a time');
select is(
    ff_tap.error_of('execute rotate(''new'', null, null)') - 'fn', '{"code": "invalid_grace_ms"}',
    'a grace is required');
select results_eq(
    format('select r.outcome from flowfabric.ff_rotate_waitpoint_hmac_secret(%L) as r', repeat('k', 64)),
    $$values ('rotated')$$, 'a name may have 64 bytes');

-- Nobody reads a key
select is_empty(
    $$select r.rolname from pg_roles as r
      where r.rolname like 'flowfabric\_%' and has_any_column_privilege(
          r.oid, 'flowfabric.ff_waitpoint_hmac', 'select, insert, update, references')$$,
    'no role has a privilege on the key store, or on a column of it');
-- The engine's types whose fields have the type of a pad, and the functions that return one of them.
select results_eq(
    $$select distinct p.proname::text collate "default" from pg_proc as p
      join pg_type as t on t.oid = p.prorettype
      join pg_attribute as a on a.attrelid = t.typrelid and a.attnum > 0
      where p.pronamespace = 'flowfabric'::regnamespace and p.proname like 'ff\_%'
          and (t.typrelid = 'flowfabric.ff_waitpoint_hmac'::regclass
              or a.attname in ('inner_pad', 'outer_pad', 'secret'))$$,
    $$select null::text where false$$, 'no function returns a pad');

select * from finish();
rollback;
