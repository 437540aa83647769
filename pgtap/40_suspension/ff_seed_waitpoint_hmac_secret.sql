-- Seeding the first signing key: once, at whichever start comes first.
begin;
\ir helpers.sql
select plan(19);

select ff_tap.freeze_time(1000);
prepare seed (text, text) as select s.* from flowfabric.ff_seed_waitpoint_hmac_secret($1, $2) as s;
select results_eq(
    $$execute seed('kid-1', repeat('ab', 32))$$, $$values ('seeded', 'kid-1', null::boolean)$$,
    'the first key is seeded');
create temporary table held as select h::text as key from flowfabric.ff_waitpoint_hmac as h;
select is(
    (select row(h.kid, h.is_current, h.expires_at_ms, h.installed_at_ms) from flowfabric.ff_waitpoint_hmac as h)::text,
    '(kid-1,t,,1000)', 'and is current');
select ff_tap.freeze_time(2000);
select results_eq(
    $$execute seed('kid-1', repeat('AB', 32))$$, $$values ('already_seeded', 'kid-1', true)$$,
    'every later start finds it there');
select results_eq(
    $$execute seed('kid-1', null)$$, $$values ('already_seeded', 'kid-1', true)$$, 'with or without the secret');
select results_eq(
    $$execute seed('kid-1', repeat('cd', 32))$$, $$values ('already_seeded', 'kid-1', false)$$,
    'another secret is reported');
select is(
    (select h::text from flowfabric.ff_waitpoint_hmac as h), (select h.key from held as h), 'and changes nothing');
select is(
    ff_tap.error_of($$execute seed('kid-2', null)$$) - 'fn',
    '{"code": "invalid_input", "field": "kid", "reason": "different_kid_active", "value": "kid-2"}',
    'another key is not installed: that is a rotation');
select ff_tap.signing_key('kid-2', 0);
select results_eq(
    $$execute seed('kid-1', null)$$, $$values ('already_seeded', 'kid-1', true)$$,
    'a key that was rotated out counts as installed');
select is(
    (select h.kid from flowfabric.ff_waitpoint_hmac as h where h.is_current), 'kid-2' collate "C",
    'and does not come back');
delete from flowfabric.ff_waitpoint_hmac as h where h.is_current;
select results_eq(
    $$execute seed('made', null)$$, $$values ('seeded', 'made', null::boolean)$$, 'the database can make the secret');
select is(
    (select length(h.inner_pad) from flowfabric.ff_waitpoint_hmac as h where h.is_current), 64, 'a whole one');

select is(
    ff_tap.error_of(format('execute seed(%L, %L)', b.kid, b.secret)) - 'fn', jsonb_build_object('code', b.code), b.what)
from (values
    (1, null, 'x', 'invalid_kid', 'a name is required'),
    (2, 'a:b', 'x', 'invalid_kid', 'a name has no colon, and that comes before the secret'),
    (3, repeat('k', 65), null, 'invalid_kid', 'a name has 64 bytes at most'),
    (4, 'k', '', 'invalid_secret_hex', 'a secret that is given is not empty'),
    (5, 'k', repeat('ab', 31), 'invalid_secret_hex', 'a secret has 64 digits, not fewer'),
    (6, 'k', repeat('ab', 33), 'invalid_secret_hex', 'and not more'),
    (7, 'k', repeat('xy', 32), 'invalid_secret_hex', 'a secret is written in hex')
) as b (number, kid, secret, code, what)
order by b.number;
select is(
    (select array_agg(h.kid order by h.kid) from flowfabric.ff_waitpoint_hmac as h), '{kid-1,made}'::text[],
    'refused seeds install nothing');

select * from finish();
rollback;
