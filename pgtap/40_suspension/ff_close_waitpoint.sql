-- Closing one waitpoint: who may take a token's power away, and what stays open.
begin;
\ir helpers.sql
select plan(52);

select ff_tap.freeze_time(1000);
select ff_tap.signing_key();
\set execution '{fp:86}:00000000-0000-4000-8000-000000000001'
select ff_tap.leased_execution(:'execution');
select ff_tap.pending_waitpoint(:'execution', 1, p_expires_in_ms => 500);
prepare close_waitpoint (uuid, text) as select c.outcome from flowfabric.ff_close_waitpoint(
    :'execution', $1, $2, ff_tap.lease_id(), 1, ff_tap.attempt_id()) as c;
create temporary table before as
select to_jsonb(ff_tap.waitpoint(1)) as waitpoint, ff_tap.core(:'execution') as core;

-- A worker changes its mind
select ff_tap.freeze_time(1499);
select results_eq(
    $$execute close_waitpoint(ff_tap.waitpoint_id(1), 'changed my mind')$$, $$values ('closed')$$,
    'a worker closes what it opened');
select is(
    to_jsonb(ff_tap.waitpoint(1)),
    (select b.waitpoint from before as b)
    || '{"state": "closed", "closed_at_ms": 1499, "close_reason": "changed my mind"}', 'the waitpoint is closed');
select is(ff_tap.core(:'execution'), (select b.core from before as b), 'the execution is not touched');
select throws_ok('select ff_tap.buffer()', 'ZS006', 'waitpoint_closed', 'its token is refused from then on');
select results_eq(
    $$execute close_waitpoint(ff_tap.waitpoint_id(1), 'again')$$, $$values ('already_closed')$$,
    'a repeat is told that it is done');
select is((ff_tap.waitpoint(1)).close_reason, 'changed my mind', 'and changes nothing');
select ff_tap.pending_waitpoint(:'execution', 2, p_expires_in_ms => 1);
select ff_tap.freeze_time(1500);
select results_eq(
    $$execute close_waitpoint(ff_tap.waitpoint_id(2), null)$$, $$values ('already_closed')$$,
    'a waitpoint past its time counts as closed');
select is((ff_tap.waitpoint(2)).state, 'pending', 'and is left to the scanner');
select ff_tap.pending_waitpoint(:'execution', 3);
select flowfabric.ff_close_waitpoint(
    :'execution', ff_tap.waitpoint_id(3), p_lease_id => ff_tap.lease_id(), p_lease_epoch => 1,
    p_attempt_id => ff_tap.attempt_id());
select is((ff_tap.waitpoint(3)).close_reason, 'proactive_close', 'a reason need not be given');

-- An operator revokes a token
\set suspended '{fp:86}:00000000-0000-4000-8000-000000000002'
select ff_tap.paused_execution(
    :'suspended', ff_tap.count_of(1, 'DistinctSignals', '{a,b}'), p_first_waitpoint => 21);
create temporary table pause as
select ff_tap.core(:'suspended') as core, ff_tap.suspension(:'suspended') as suspension;
prepare revoke_token (integer) as select c.outcome from flowfabric.ff_close_waitpoint(
    :'suspended', ff_tap.waitpoint_id($1), 'leaked', p_source => 'operator_override') as c;
select results_eq('execute revoke_token(21)', $$values ('closed')$$, 'an operator closes an active waitpoint');
select is(
    (select row(c.*)::text from ff_tap.core(:'suspended') as c), (select (p.core)::text from pause as p),
    'the execution stays suspended');
select is(ff_tap.suspension(:'suspended'), (select p.suspension from pause as p), 'the suspension stays open');
select throws_ok('select ff_tap.deliver(p_number => 21)', 'ZS006', 'waitpoint_closed', 'the token is refused');
select is(
    ff_tap.error_of('select ff_tap.deliver(p_number => 21)') ->> 'close_reason', 'leaked', 'with the reason');
select is(ff_tap.deliver(p_number => 22), 'resume_condition_satisfied', 'the other waitpoint still resumes');
select is((ff_tap.waitpoint(21)).close_reason, 'leaked', 'a resume does not close again what was closed');
\set last '{fp:86}:00000000-0000-4000-8000-000000000003'
select ff_tap.paused_execution(:'last', p_first_waitpoint => 31);
select flowfabric.ff_close_waitpoint(:'last', ff_tap.waitpoint_id(31), p_source => 'operator_override');
select is(
    ff_tap.public_state(ff_tap.core(:'last'))::text, 'suspended', 'closing the last one is no resume');
select is(
    (select r.public_state::text from flowfabric.ff_resume_execution(:'last') as r), 'waiting',
    'that is for an operator to decide');
select is(
    (select row(w.close_reason, w.closed_at_ms) from ff_tap.waitpoint(31) as w)::text, '(proactive_close,1500)',
    'the waitpoint keeps its own reason');

-- The fence
select ff_tap.refuses_bad_fences(
    $$select flowfabric.ff_close_waitpoint(
        %1$L, ff_tap.waitpoint_id(1), 'x', %2$L, %3$L, %4$L)$$, false);
select ff_tap.freeze_time(1500);
select is(
    ff_tap.error_of(format(
        $$select flowfabric.ff_close_waitpoint(%L, ff_tap.waitpoint_id(1), p_source => 'somebody')$$, :'suspended'))
        - 'fn',
    '{"code": "invalid_input", "field": "source", "reason": "unknown", "value": "somebody"}',
    'an unknown source is refused');
select is(
    ff_tap.error_of(format(
        'select ff_tap.as_role(''flowfabric_worker'', %L)',
        format(
            $$select flowfabric.ff_close_waitpoint(
                %L, '00000000-0000-4000-8000-000000000001', p_source => 'operator_override')$$, :'suspended')))
        - array['fn', 'op'],
    '{"code": "unauthorized", "role": "flowfabric_operator"}', 'an override by a worker is refused');
select is(
    ff_tap.sqlstate_of(format(
        'select ff_tap.as_role(''flowfabric_worker'', %L)',
        format(
            $$select flowfabric.ff_close_waitpoint(
                %L, '00000000-0000-4000-8000-000000000001', 'x', '00000000-0000-4000-8000-00000000001e', 1,
                '00000000-0000-4000-8000-0000000000a7', 'operator_override')$$, :'execution'))),
    'ZV017', 'also with a good fence');
select throws_ok(
    format(
        $$select flowfabric.ff_close_waitpoint(
            %L, ff_tap.waitpoint_id(1), 'x', ff_tap.lease_id(), 9, ff_tap.attempt_id(), 'operator_override')$$,
        :'execution'), 'ZS001', 'stale_lease', 'an override that shows a fence is held to it');

-- Which waitpoint
select is(
    ff_tap.error_of($$execute close_waitpoint(ff_tap.waitpoint_id(99), 'x')$$) - 'fn',
    jsonb_build_object('code', 'waitpoint_not_found', 'waitpoint_id', ff_tap.waitpoint_id(99)),
    'an unknown waitpoint is not found');
select throws_ok(
    $$execute close_waitpoint(ff_tap.waitpoint_id(22), 'x')$$, 'ZC008', 'waitpoint_not_found',
    'nor is one of another execution');
update flowfabric.ff_waitpoint_pending as w set attempt_index = 7 where w.waitpoint_id = ff_tap.waitpoint_id(2);
select is(
    ff_tap.error_of($$execute close_waitpoint(ff_tap.waitpoint_id(2), 'x')$$) - 'fn',
    jsonb_build_object(
        'code', 'invalid_waitpoint_for_execution', 'waitpoint_id', ff_tap.waitpoint_id(2),
        'execution_id', :'execution'), 'a worker cannot close what another attempt opened');
update flowfabric.ff_waitpoint_pending as w set expires_at_ms = 9000 where w.waitpoint_id = ff_tap.waitpoint_id(2);
select is(
    (select c.outcome from flowfabric.ff_close_waitpoint(
        :'execution', ff_tap.waitpoint_id(2), p_source => 'operator_override') as c), 'closed', 'an operator can');

-- Arguments
select is(
    ff_tap.error_of(format(
        $$select flowfabric.ff_close_waitpoint('{fp:86}:00000000-0000-4000-8000-00000000ffff', %s)$$, b.arguments))
        - array['code', 'fn', 'value'],
    jsonb_build_object('field', b.field, 'reason', b.reason), b.what)
from (values
    (1, 'null', 'waitpoint_id', 'null', 'a waitpoint is required'),
    (2, 'ff_tap.waitpoint_id(), ''''', 'reason', 'length', 'a reason is not empty'),
    (3, 'ff_tap.waitpoint_id(), repeat(''r'', 257)', 'reason', 'length', 'a reason has 256 bytes at most')
) as b (number, arguments, field, reason, what)
order by b.number;

select * from finish();
rollback;
