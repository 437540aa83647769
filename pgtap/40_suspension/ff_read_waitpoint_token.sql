-- Reading a token again: for an operator, while its waitpoint is open, and valid whatever became of its key.
begin;
\ir helpers.sql
select plan(16);

select ff_tap.freeze_time(1000);
\set execution '{fp:86}:00000000-0000-4000-8000-000000000001'
prepare read_token (text, uuid) as select t.waitpoint_token, t.token_kid
from flowfabric.ff_read_waitpoint_token($1, $2) as t;
select throws_ok(
    $$execute read_token('{fp:86}:00000000-0000-4000-8000-00000000ffff', null)$$, 'ZU002',
    'hmac_secret_not_initialized', 'without a signing key there is no token');
select ff_tap.signing_key();
select ff_tap.leased_execution(:'execution');
create temporary table answer as
select s.waitpoint_token from flowfabric.ff_suspend_execution(
    :'execution', ff_tap.lease_id(), 1, ff_tap.attempt_id(), ff_tap.count_of(9, 'DistinctSignals'),
    'manual_pause', p_waitpoint_ids => array[ff_tap.waitpoint_id()], p_waitpoint_keys => array['wpk:approval']) as s;
select results_eq(
    format('execute read_token(%L, ff_tap.waitpoint_id())', :'execution'),
    $$select a.waitpoint_token, 'kid-1' from answer as a$$, 'it is the token that the suspend handed out');
select is_empty(
    format('execute read_token(%L, ff_tap.waitpoint_id(9))', :'execution'), 'an unknown waitpoint has none');
select is_empty(format('execute read_token(%L, null)', :'execution'), 'nor has no waitpoint');
select is_empty(
    $$execute read_token('{fp:86}:00000000-0000-4000-8000-00000000ffff', ff_tap.waitpoint_id())$$,
    'nor has one of another execution');
select throws_ok(
    $$execute read_token('x', ff_tap.waitpoint_id())$$, 'ZV001', 'invalid_input', 'a malformed id is refused');

-- Rotation
select ff_tap.signing_key('kid-2', 1000);
select ff_tap.freeze_time(2000);
select results_eq(
    format('execute read_token(%L, ff_tap.waitpoint_id())', :'execution'),
    $$select a.waitpoint_token, 'kid-1' from answer as a$$, 'within the grace of its key it stays the same');
select ff_tap.freeze_time(2001);
create temporary table again as
select t.* from flowfabric.ff_read_waitpoint_token(:'execution', ff_tap.waitpoint_id()) as t;
select is((select a.token_kid from again as a), 'kid-2', 'after it the current key signs a new one');
select is(
    (select d.outcome from again as a, flowfabric.ff_deliver_signal(
        :'execution', ff_tap.waitpoint_id(), a.waitpoint_token, 'x') as d), 'accepted', 'which is good');
select throws_ok(
    format(
        $$select flowfabric.ff_deliver_signal(%L, ff_tap.waitpoint_id(), %L, 'x')$$, :'execution',
        (select a.waitpoint_token from answer as a)), 'ZV030', 'token_expired', 'while the old one is not');
select is((ff_tap.waitpoint()).token_kid, 'kid-1', 'reading writes nothing');

-- Only while open
select flowfabric.ff_close_waitpoint(:'execution', ff_tap.waitpoint_id(), p_source => 'operator_override');
select is_empty(
    format('execute read_token(%L, ff_tap.waitpoint_id())', :'execution'), 'a closed waitpoint has no token');
\set pending '{fp:86}:00000000-0000-4000-8000-000000000002'
select ff_tap.leased_execution(:'pending');
select ff_tap.pending_waitpoint(:'pending', 21, p_expires_in_ms => 10);
select ff_tap.freeze_time(2010);
select isnt_empty(
    format('execute read_token(%L, ff_tap.waitpoint_id(21))', :'pending'), 'a pending one has its token');
select ff_tap.freeze_time(2011);
select is_empty(
    format('execute read_token(%L, ff_tap.waitpoint_id(21))', :'pending'), 'until it expires, to the millisecond');

-- Who may
select is(
    (select array_agg(r.role order by r.role)
     from unnest(array['producer', 'worker', 'signaller', 'operator', 'reader']) as r (role)
     where has_function_privilege(
        'flowfabric_' || r.role, 'flowfabric.ff_read_waitpoint_token(text, uuid)', 'execute')),
    array['operator'], 'no other role may read a token');
select is(
    ff_tap.sqlstate_of(format(
        'select ff_tap.as_role(''flowfabric_worker'', %L)',
        format('select flowfabric.ff_read_waitpoint_token(%L, null)', :'execution'))), '42501', 'a worker is refused');

select * from finish();
rollback;
