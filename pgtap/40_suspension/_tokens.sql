-- Waitpoint tokens: the HMAC behind them, what they are bound to, and in which order a bad one is refused.
begin;
\ir helpers.sql
select plan(42);

-- HMAC-SHA-256: published vectors, and one of this project's own messages
create function ff_tap.hmac(p_secret bytea, p_message text)
returns text
language sql stable
as $$
    select encode(
        flowfabric._ff_hmac_sha256(
            flowfabric._ff_hmac_pad(p_secret, 54), flowfabric._ff_hmac_pad(p_secret, 92),
            convert_to(p_message, 'UTF8')),
        'hex')
$$;
select is(
    ff_tap.hmac(decode(repeat('0b', 20), 'hex'), 'Hi There'),
    'b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7', 'a key shorter than a block');
select is(
    ff_tap.hmac('Jefe', 'what do ya want for nothing?'),
    '5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843', 'a key shorter than the digest');
select is(
    ff_tap.hmac(decode(repeat('aa', 131), 'hex'), 'Test Using Larger Than Block-Size Key - Hash Key First'),
    '60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54', 'a key longer than a block is hashed first');
select is(
    ff_tap.hmac(
        decode(repeat('ab', 32), 'hex'),
        'v1|kid-1|{fp:7}:00000000-0000-4000-8000-000000000001|00000000-0000-4000-8000-0000000000aa|1700000000000|'
        || 'wpk:approval'),
    'dda70ee0c8cfcd94845c3090497717beaaff82642da8de198bd1db37aead30b9', 'the message of a waitpoint');
select is(
    length(flowfabric._ff_hmac_pad(decode(repeat('ab', 64), 'hex'), 54)), 64, 'a pad has the size of a block');
select is(
    ff_tap.hmac(decode(repeat('ab', 64), 'hex'), 'x') = ff_tap.hmac(decode(repeat('ab', 65), 'hex'), 'x'), false,
    'a key of exactly one block is used as it is');

-- What is signed
select ff_tap.freeze_time(1700000000000);
select ff_tap.signing_key();
\set seven '{fp:7}:00000000-0000-4000-8000-000000000001'
select ff_tap.leased_execution(:'seven');
select flowfabric.ff_create_pending_waitpoint(
    :'seven', ff_tap.lease_id(), 1, ff_tap.attempt_id(), 'wpk:approval', 1000,
    '00000000-0000-4000-8000-0000000000aa');
select is(
    (select t.waitpoint_token
     from flowfabric.ff_read_waitpoint_token(:'seven', '00000000-0000-4000-8000-0000000000aa') as t),
    'kid-1:dda70ee0c8cfcd94845c3090497717beaaff82642da8de198bd1db37aead30b9',
    'a token is the name of its key, a colon and the digest of v1, key name, execution, waitpoint, creation and key');
select is(
    (select row(w.token_kid, w.token_fingerprint)::text
     from flowfabric.ff_waitpoint_pending as w
     where w.waitpoint_id = '00000000-0000-4000-8000-0000000000aa'),
    '(kid-1,dda70ee0c8cfcd94)', 'the row has the name of the key and the first 16 digits, and not the token');
create temporary table minted as
with base as (
    select h as hmac, row(7, '00000000-0000-4000-8000-000000000001')::flowfabric.ff_execution_key as key
    from flowfabric.ff_waitpoint_hmac as h
)
select flowfabric._ff_mint_waitpoint_token(b.hmac, b.key, ff_tap.waitpoint_id(), 5, 'k') as token from base as b
union all
select flowfabric._ff_mint_waitpoint_token(
    b.hmac, row(8, (b.key).execution_id)::flowfabric.ff_execution_key, ff_tap.waitpoint_id(), 5, 'k') from base as b
union all
select flowfabric._ff_mint_waitpoint_token(
    b.hmac, row(7, ff_tap.waitpoint_id())::flowfabric.ff_execution_key, ff_tap.waitpoint_id(), 5, 'k') from base as b
union all
select flowfabric._ff_mint_waitpoint_token(b.hmac, b.key, ff_tap.waitpoint_id(2), 5, 'k') from base as b
union all
select flowfabric._ff_mint_waitpoint_token(b.hmac, b.key, ff_tap.waitpoint_id(), 6, 'k') from base as b
union all
select flowfabric._ff_mint_waitpoint_token(b.hmac, b.key, ff_tap.waitpoint_id(), 5, 'K') from base as b;
select is(
    (select count(distinct m.token) from minted as m), 6::bigint,
    'partition, execution, waitpoint, creation time and key each change the token');

-- Order of the refusals
select ff_tap.freeze_time(1000);
\set execution '{fp:86}:00000000-0000-4000-8000-000000000001'
\set other '{fp:86}:00000000-0000-4000-8000-000000000002'
select ff_tap.paused_execution(:'execution', p_first_waitpoint => 1);
select ff_tap.paused_execution(:'other', p_first_waitpoint => 2);
create temporary table good as select ff_tap.token(1) as mine, ff_tap.token(2) as others;
prepare deliver (text) as select d.outcome from flowfabric.ff_deliver_signal(
    :'execution', ff_tap.waitpoint_id(1), $1, 'rejected') as d;
create temporary table before as select ff_tap.suspension_rows() as rows;
select throws_ok('execute deliver(null)', 'ZV029', 'missing_token', 'no token is a missing token');
select throws_ok($$execute deliver('')$$, 'ZV029', 'missing_token', 'an empty token is a missing token');
create temporary table bad (number integer, token text, what text);
insert into bad
select b.number, b.token, b.what
from good as g
cross join lateral (values
    (1, 'x', 'without a colon'),
    (2, ':' || substr(g.mine, 7), 'without a kid'),
    (3, 'kid-1:', 'without a digest'),
    (4, substr(g.mine, 1, length(g.mine) - 1), 'cut by one digit'),
    (5, g.mine || '0', 'one digit longer'),
    (6, 'kid-1:' || upper(substr(g.mine, 7)), 'with upper-case digits'),
    (7, 'kid-1:' || encode(decode(substr(g.mine, 7), 'hex'), 'base64'), 'in base64'),
    (8, ' ' || g.mine, 'after a blank'),
    (9, g.mine || E'\n', 'before a line feed'),
    (10, 'kid-1:' || g.mine, 'with a kid too many'),
    (11, 'KID-1:' || substr(g.mine, 7), 'with a kid in another case'),
    (12, 'kid-2:' || substr(g.mine, 7), 'of an unknown kid'),
    (13, repeat('k', 65) || ':' || substr(g.mine, 7), 'with a kid of 65 bytes'),
    (14, repeat(g.mine, 100000), 'of several megabytes'),
    (15, 'kid|1:' || substr(g.mine, 7), 'with a pipe'),
    (16, 'kid-1:' || repeat('g', 64), 'of letters that are no digits'),
    (17, 'kid-1:' || translate(substr(g.mine, 7, 1), '0123456789abcdef', '123456789abcdef0') || substr(g.mine, 8),
        'with its first digit changed'),
    (18, substr(g.mine, 1, length(g.mine) - 1)
        || translate(right(g.mine, 1), '0123456789abcdef', '123456789abcdef0'), 'with its last digit changed'),
    (19, 'kid-1:' || reverse(substr(g.mine, 7)), 'reversed'),
    (20, g.others, 'of another waitpoint')
) as b (number, token, what);
select throws_ok(
    format('execute deliver(%L)', b.token), 'ZV009', 'invalid_token', 'a token ' || b.what || ' is invalid')
from bad as b order by b.number;
select is(
    (select array_agg(distinct ff_tap.error_of(format('execute deliver(%L)', b.token))::text) from bad as b),
    array['{"fn": "ff_deliver_signal", "code": "invalid_token"}'], 'the refusal says nothing else, whatever is wrong');
select is(ff_tap.suspension_rows(), (select b.rows from before as b), 'a refused token leaves no trace');
select results_eq(
    (select format('execute deliver(%L)', g.mine) from good as g), $$values ('accepted')$$, 'the good one is accepted');

-- A missing waitpoint, one of another execution and a wrong token are the same refusal
prepare probe (uuid, text) as select d.outcome from flowfabric.ff_deliver_signal(:'execution', $1, $2, 'rejected') as d;
create function ff_tap.refusals(p_token text)
returns text[]
language sql volatile
as $$
    select array_agg(ff_tap.error_of(format('execute probe(%L, %L)', w.id, p_token))::text order by w.number)
    from (values
        (1, ff_tap.waitpoint_id(1)), (2, ff_tap.waitpoint_id(2)), (3, ff_tap.waitpoint_id(99))) as w (number, id)
$$;
select is(
    ff_tap.refusals('kid-1:' || repeat('0', 64)),
    array_fill('{"fn": "ff_deliver_signal", "code": "invalid_token"}'::text, array[3]),
    'a wrong digest reads the same for a waitpoint that is there, one of another execution and one that is not');
select is(
    ff_tap.refusals(''), array_fill('{"fn": "ff_deliver_signal", "code": "missing_token"}'::text, array[3]),
    'so does a missing token');
select ff_tap.signing_key('kid-9', 0);
select ff_tap.freeze_time(1001);
select is(
    ff_tap.refusals((select g.mine from good as g)),
    array_fill('{"fn": "ff_deliver_signal", "kid": "kid-1", "code": "token_expired"}'::text, array[3]),
    'so does a token whose key is out of grace');
select throws_ok(
    format('execute probe(%L, %L)', ff_tap.waitpoint_id(2), ff_tap.token(2)), 'ZV009', 'invalid_token',
    'a good token of another execution in the same partition is useless here');

-- The key store
delete from flowfabric.ff_waitpoint_hmac as h where h.is_current;
select is(
    ff_tap.refusals('kid-1:' || repeat('0', 64)),
    array_fill('{"fn": "ff_deliver_signal", "code": "hmac_secret_not_initialized"}'::text, array[3]),
    'without a current key nothing is verified, and that is told first');
select throws_ok(
    $$execute deliver('nonsense')$$, 'ZV009', 'invalid_token', 'but after the form of the token');
select ff_tap.signing_key('kid-2');
alter table flowfabric.ff_waitpoint_hmac drop constraint ff_waitpoint_hmac_inner_pad_has_64_bytes;
update flowfabric.ff_waitpoint_hmac as h set inner_pad = '\x00' where h.kid = 'kid-2';
select is(
    ff_tap.error_of(format('execute deliver(%L)', 'kid-2:' || repeat('0', 64))),
    '{"fn": "ff_deliver_signal", "kid": "kid-2", "code": "invalid_secret"}',
    'a damaged key is reported by its name');
select throws_ok(
    format('select flowfabric.ff_read_waitpoint_token(%L, ff_tap.waitpoint_id(1))', :'execution'),
    'ZX003', 'invalid_secret', 'and mints no token');

select * from finish();
rollback;
