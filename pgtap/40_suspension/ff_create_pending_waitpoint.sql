-- Pending waitpoints: who may open a door to an execution before it is suspended, and for how long.
begin;
\ir helpers.sql
select plan(35);

select ff_tap.freeze_time(1000);
\set execution '{fp:86}:00000000-0000-4000-8000-000000000001'
select ff_tap.leased_execution(:'execution', p_lease_epoch => 7, p_lease_expires_at_ms => 9000);
prepare open_waitpoint (uuid, bigint, uuid, uuid) as select w.* from flowfabric.ff_create_pending_waitpoint(
    :'execution', $1, $2, $3, 'wpk:approval', 500, $4) as w;
create temporary table running as select ff_tap.core(:'execution') as core, ff_tap.attempt(:'execution', 1) as attempt;
select throws_ok(
    'execute open_waitpoint(ff_tap.lease_id(), 7, ff_tap.attempt_id(), null)', 'ZU002', 'hmac_secret_not_initialized',
    'without a signing key there is no waitpoint');
select ff_tap.signing_key();

-- Opened
create temporary table opened as
select w.* from flowfabric.ff_create_pending_waitpoint(
    :'execution', ff_tap.lease_id(), 7, ff_tap.attempt_id(), 'wpk:approval', 500, ff_tap.waitpoint_id(), 1) as w;
select results_eq(
    'select o.* from opened as o',
    $$values (ff_tap.waitpoint_id(), 'wpk:approval', ff_tap.token(), 1500::bigint)$$,
    'the answer has the token and the time when it ends');
select is(
    to_jsonb(ff_tap.waitpoint()),
    jsonb_build_object(
        'partition_key', 86, 'waitpoint_id', ff_tap.waitpoint_id(),
        'execution_id', '00000000-0000-4000-8000-000000000001', 'attempt_index', 1, 'waitpoint_key', 'wpk:approval',
        'state', 'pending', 'suspension_id', null, 'ordinal', null, 'token_kid', 'kid-1',
        'token_fingerprint', substr(ff_tap.token(), 7, 16), 'created_at_ms', 1000, 'activated_at_ms', null,
        'expires_at_ms', 1500, 'satisfied_at_ms', null, 'closed_at_ms', null, 'close_reason', null,
        'required_signal_names', '{}'::text[], 'signal_count', 0, 'matched_signal_count', 0,
        'last_signal_at_ms', null),
    'the waitpoint is pending and belongs to the attempt');
select is(ff_tap.core(:'execution'), (select r.core from running as r), 'the execution keeps its lease and its state');
select is(ff_tap.attempt(:'execution', 1), (select r.attempt from running as r), 'so does the attempt');
select matches((select o.waitpoint_token from opened as o), '^kid-1:[0-9a-f]{64}$', 'a token has its form');
select is(
    ff_tap.error_of(format(
        $$select flowfabric.ff_buffer_signal_for_pending_waitpoint(%L, %L, %L, 'x')$$, :'execution',
        ff_tap.waitpoint_id(), overlay(ff_tap.token() placing case substr(ff_tap.token(), 20, 1)
            when '0' then '1' else '0' end from 20 for 1))) ->> 'code',
    'invalid_token', 'with one digit changed it is invalid');
create temporary table twins as
select w.* from flowfabric.ff_create_pending_waitpoint(
    :'execution', ff_tap.lease_id(), 7, ff_tap.attempt_id(), 'same key', 500) as w;
insert into twins
select w.* from flowfabric.ff_create_pending_waitpoint(
    :'execution', ff_tap.lease_id(), 7, ff_tap.attempt_id(), 'same key', 500) as w;
select is(
    (select row(count(distinct t.waitpoint_id), count(distinct t.waitpoint_token), count(distinct t.waitpoint_key))
     from twins as t)::text, '(2,2,1)', 'two calls with one key make two waitpoints with tokens of their own');
select is(
    ff_tap.error_of(
        'execute open_waitpoint(ff_tap.lease_id(), 7, ff_tap.attempt_id(), ff_tap.waitpoint_id())') - 'fn',
    jsonb_build_object(
        'code', 'waitpoint_already_exists', 'waitpoint_id', ff_tap.waitpoint_id(), 'state', 'pending'),
    'an id is used once');
select flowfabric.ff_close_waitpoint(
    :'execution', ff_tap.waitpoint_id(), 'done', ff_tap.lease_id(), 7, ff_tap.attempt_id());
select throws_ok(
    'execute open_waitpoint(ff_tap.lease_id(), 7, ff_tap.attempt_id(), ff_tap.waitpoint_id())', 'ZK005',
    'waitpoint_already_exists', 'also when its waitpoint is closed: its signals must not reach a new one');
delete from flowfabric.ff_waitpoint_hmac as h;
select throws_ok(
    'execute open_waitpoint(ff_tap.lease_id(), 7, ff_tap.attempt_id(), ff_tap.waitpoint_id())', 'ZK005',
    'waitpoint_already_exists', 'that is told before the missing key');
select ff_tap.signing_key();
select is(
    (select w.expires_at_ms from flowfabric.ff_create_pending_waitpoint(
        :'execution', ff_tap.lease_id(), 7, ff_tap.attempt_id(), repeat('k', 512), 31536000000000) as w),
    flowfabric.ff_now_ms() + 31536000000000, 'a waitpoint may live for a thousand years; a key may have 512 bytes');
select is(
    ff_tap.error_of(format(
        $$select flowfabric.ff_create_pending_waitpoint(%L, ff_tap.lease_id(), 7, ff_tap.attempt_id(), 'k', 31536000000001)$$,
        :'execution')) ->> 'field',
    'expires_in_ms', 'and not for longer');

-- The fence
create temporary table held as select ff_tap.suspension_rows() as rows;
select throws_ok(
    'execute open_waitpoint(ff_tap.lease_id(), null, null, null)', 'ZV027', 'partial_fence_triple',
    'a fence is whole or none');
select throws_ok(
    'execute open_waitpoint(null, null, null, null)', 'ZV026', 'fence_required', 'a fence is required');
select is(
    ff_tap.error_of('execute open_waitpoint(ff_tap.attempt_id(), 6, ff_tap.lease_id(), null)') -> 'mismatch',
    '["lease_id", "lease_epoch", "attempt_id"]', 'a stale worker opens nothing');
select is(
    ff_tap.error_of(format(
        $$select flowfabric.ff_create_pending_waitpoint(
            %L, ff_tap.lease_id(), 7, ff_tap.attempt_id(), 'k', 500, p_attempt_index => 0)$$, :'execution'))
        - array['fn', 'execution_id'],
    '{"code": "stale_lease", "mismatch": ["attempt_index"], "lease_epoch": 7}',
    'an attempt index that is given must be right');
select ff_tap.freeze_time(9000);
select throws_ok(
    'execute open_waitpoint(ff_tap.attempt_id(), 6, ff_tap.lease_id(), null)', 'ZS002', 'lease_expired',
    'a lease is over at the instant of its expiry, and that comes before the comparison');
select flowfabric._ff_lose_lease(ff_tap.core(:'execution'), 'lease_expired_reclaimable', null, 9000);
select is(
    ff_tap.error_of('execute open_waitpoint(ff_tap.lease_id(), 7, ff_tap.attempt_id(), null)') - 'fn',
    jsonb_build_object(
        'code', 'no_active_lease', 'execution_id', :'execution', 'ownership_state', 'lease_expired_reclaimable'),
    'a lease that was marked expired is none');
select throws_ok(
    'execute open_waitpoint(ff_tap.lease_id(), 7, null, null)', 'ZV027', 'partial_fence_triple',
    'but a partial fence is refused first');
select flowfabric._ff_lose_lease(ff_tap.core(:'execution'), 'lease_revoked', 'maintenance', 9000);
select is(
    ff_tap.error_of('execute open_waitpoint(ff_tap.lease_id(), 7, ff_tap.attempt_id(), null)') ->> 'ownership_state',
    'lease_revoked', 'nor is a revoked one');
select flowfabric.ff_cancel_execution(:'execution', 'stop', 'operator_override');
select throws_ok(
    'execute open_waitpoint(ff_tap.lease_id(), 7, ff_tap.attempt_id(), null)', 'ZC011', 'execution_not_active',
    'an ended execution has no waitpoints to open');
select is(
    ff_tap.suspension_rows() -> 'waitpoint', (select h.rows -> 'waitpoint' from held as h),
    'a refusal opens nothing');
\set suspended '{fp:86}:00000000-0000-4000-8000-000000000002'
select ff_tap.paused_execution(:'suspended', p_first_waitpoint => 20);
select throws_ok(
    format(
        $$select flowfabric.ff_create_pending_waitpoint(%L, ff_tap.lease_id(), 1, ff_tap.attempt_id(), 'k', 500)$$,
        :'suspended'), 'ZC011', 'execution_not_active', 'a suspended one neither');

-- Arguments
select is(
    ff_tap.error_of(format(
        $$select flowfabric.ff_create_pending_waitpoint(
            '{fp:86}:00000000-0000-4000-8000-00000000ffff', null, null, null, %s)$$, b.arguments))
        - array['code', 'fn', 'value'],
    jsonb_build_object('field', b.field, 'reason', b.reason), b.what)
from (values
    (1, 'null, 500', 'waitpoint_key', 'null', 'a key is required'),
    (2, ''''', 500', 'waitpoint_key', 'length', 'a key is not empty'),
    (3, 'repeat(''k'', 513), 500', 'waitpoint_key', 'length', 'a key has 512 bytes at most'),
    (4, '''k'', null', 'expires_in_ms', 'null', 'a life is required'),
    (5, '''k'', 0', 'expires_in_ms', 'out_of_range', 'a life is longer than nothing'),
    (6, '''k'', -5', 'expires_in_ms', 'out_of_range', 'a life is not negative')
) as b (number, arguments, field, reason, what)
order by b.number;
select throws_ok(
    $$select flowfabric.ff_create_pending_waitpoint(null, null, null, null, 'k', 500)$$, 'ZV001', 'invalid_input',
    'an execution id is required');
select throws_ok(
    $$select flowfabric.ff_create_pending_waitpoint(
        '{fp:86}:00000000-0000-4000-8000-00000000ffff', null, null, null, 'k', 500)$$, 'ZN001',
    'execution_not_found', 'an unknown execution is refused before its fence is looked at');

-- The life of a pending waitpoint
\set living '{fp:86}:00000000-0000-4000-8000-000000000003'
select ff_tap.leased_execution(:'living');
select ff_tap.pending_waitpoint(:'living', 30, p_expires_in_ms => 100);
select ff_tap.freeze_time(9099);
select is(ff_tap.buffer('x', 30), 'buffered_for_pending_waitpoint', 'it takes signals in its last millisecond');
select ff_tap.freeze_time(9100);
select throws_ok(
    $$select ff_tap.buffer('x', 30)$$, 'ZS006', 'waitpoint_closed',
    'at the instant of its expiry it is closed, before any scanner has come by');
select is((ff_tap.waitpoint(30)).state, 'pending', 'although it is still written down as pending');

select * from finish();
rollback;
