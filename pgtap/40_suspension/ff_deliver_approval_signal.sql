-- Approvals: an operator answers a waitpoint by right, not by token.
begin;
\ir helpers.sql
select plan(30);

select ff_tap.freeze_time(1000);
select ff_tap.signing_key();
\set execution '{fp:86}:00000000-0000-4000-8000-000000000001'
select ff_tap.paused_execution(:'execution', ff_tap.all_of(ff_tap.single('approved', 'a'), ff_tap.single('x', 'b')));
prepare approve (text, text, uuid, text, text, text) as select d.outcome, d.effect
from flowfabric.ff_deliver_approval_signal($1, $2, $3, $4, $5, p_source_identity => $6) as d;

select ff_tap.freeze_time(2000);
select results_eq(
    format($$execute approve(%L, 'default', ff_tap.waitpoint_id(), 'approved', 'web-1', 'ann')$$, :'execution'),
    $$values ('accepted', 'appended_to_waitpoint')$$, 'an approval is accepted like a signal');
select is(
    (select to_jsonb(s) - array['signal_id'] from flowfabric.ff_signal as s),
    jsonb_build_object(
        'partition_key', 86, 'execution_id', '00000000-0000-4000-8000-000000000001', 'seq', 1,
        'waitpoint_id', ff_tap.waitpoint_id(), 'signal_name', 'approved', 'signal_category', 'approval',
        'source_type', 'operator', 'source_identity', 'ann', 'correlation_id', null,
        'idempotency_key', 'approval:approved:web-1', 'target_scope', 'execution', 'payload', null,
        'payload_encoding', 'json', 'created_at_ms', 2000, 'accepted_at_ms', 2000,
        'observed_effect', 'appended_to_waitpoint', 'is_satisfier', true), 'it is recorded as an operator''s');
select is(ff_tap.signal_events(:'execution'), array['approved:appended_to_waitpoint'], 'it is one event');
select results_eq(
    format($$execute approve(%L, 'default', ff_tap.waitpoint_id(), 'approved', 'web-1', 'bob')$$, :'execution'),
    $$values ('duplicate', null::text)$$, 'the same name and suffix again are a duplicate');
select results_eq(
    format($$execute approve(%L, 'default', ff_tap.waitpoint_id(), 'rejected', 'web-1', '')$$, :'execution'),
    $$values ('accepted', 'signal_ignored_matcher_failed')$$, 'another name is another answer');
select is(
    (select max(d.expires_at_ms) from flowfabric.ff_signal_dedup as d), 86402000::bigint,
    'an answer is remembered for a day');

-- Approved and rejected
\set approved '{fp:86}:00000000-0000-4000-8000-000000000002'
select ff_tap.paused_execution(:'approved', p_first_waitpoint => 21);
select results_eq(
    format($$execute approve(%L, 'default', ff_tap.waitpoint_id(21), 'rejected', '1', null)$$, :'approved'),
    $$values ('accepted', 'no_op')$$, 'a rejection does not satisfy a wait for approval');
select is(ff_tap.public_state(ff_tap.core(:'approved'))::text, 'suspended', 'and leaves the execution suspended');
select ff_tap.signing_key('kid-2', 0);
select ff_tap.freeze_time(2001);
select ff_tap.signing_key('kid-3', 0);
select is(
    (select array_agg(h.kid order by h.kid) from flowfabric.ff_waitpoint_hmac as h), '{kid-2,kid-3}'::text[],
    'the key that signed its token is gone');
select results_eq(
    format($$execute approve(%L, 'default', ff_tap.waitpoint_id(21), 'approved', '1', null)$$, :'approved'),
    $$values ('accepted', 'resume_condition_satisfied')$$, 'an approval needs neither the token nor its key');
select is(ff_tap.public_state(ff_tap.core(:'approved'))::text, 'waiting', 'and resumes the execution');
select is((ff_tap.suspension(:'approved')).resume_trigger, 'signal', 'it is a signal like any other');
select results_eq(
    format('select s.signal_name, s.source_type from flowfabric.ff_observe_signals(%L, 0) as s', :'approved'),
    $$values ('approved', 'operator')$$, 'the worker sees who answered');

-- A quorum of operators
\set quorum '{fp:86}:00000000-0000-4000-8000-000000000003'
select ff_tap.paused_execution(:'quorum', ff_tap.count_of(2, 'DistinctSources'), p_first_waitpoint => 31);
select is(
    array[
        (select d.effect from flowfabric.ff_deliver_approval_signal(
            :'quorum', 'default', ff_tap.waitpoint_id(31), 'yes', '1', p_source_identity => 'ann') as d),
        (select d.effect from flowfabric.ff_deliver_approval_signal(
            :'quorum', 'default', ff_tap.waitpoint_id(31), 'yes', '2', p_source_identity => 'ann') as d),
        (select d.effect from flowfabric.ff_deliver_approval_signal(
            :'quorum', 'default', ff_tap.waitpoint_id(31), 'yes', '3', p_source_identity => 'bob') as d)],
    '{appended_to_waitpoint,appended_to_waitpoint_duplicate,resume_condition_satisfied}'::text[],
    'two operators make a quorum, one operator twice does not');

-- Refusals
\set target '{fp:86}:00000000-0000-4000-8000-000000000004'
select ff_tap.paused_execution(:'target', p_first_waitpoint => 41);
create temporary table held as select ff_tap.suspension_rows() as rows;
select is(
    ff_tap.error_of(format(
        $$execute approve(%L, 'gpu', ff_tap.waitpoint_id(99), 'approved', '1', '')$$, :'target')) - 'fn',
    '{"code": "invalid_input", "field": "lane_id", "reason": "lane_mismatch", "value": "gpu"}',
    'the lane must be the execution''s, and that comes before the waitpoint');
select is(
    ff_tap.error_of(format(
        $$execute approve(%L, 'default', ff_tap.waitpoint_id(99), 'approved', '1', '')$$, :'target')) - 'fn',
    jsonb_build_object('code', 'waitpoint_not_found', 'waitpoint_id', ff_tap.waitpoint_id(99)),
    'an operator is told that a waitpoint is unknown');
select throws_ok(
    format($$execute approve(%L, 'default', ff_tap.waitpoint_id(1), 'approved', '1', '')$$, :'target'), 'ZC008',
    'waitpoint_not_found', 'one of another execution is unknown here');
select throws_ok(
    $$execute approve('{fp:86}:00000000-0000-4000-8000-00000000ffff', 'gpu', ff_tap.waitpoint_id(1), 'x', '1', '')$$,
    'ZN001', 'execution_not_found', 'an unknown execution is not found, and that comes before the lane');
select is(
    ff_tap.error_of(format(
        $$select flowfabric.ff_deliver_approval_signal(%L, %s)$$, :'target', b.arguments))
        - array['code', 'fn', 'value'],
    jsonb_build_object('field', b.field, 'reason', b.reason), b.what)
from (values
    (1, 'null, ff_tap.waitpoint_id(41), ''x'', ''1''', 'lane_id', 'null', 'a lane is required'),
    (2, '''default'', null, ''x'', ''1''', 'waitpoint_id', 'null', 'a waitpoint is required'),
    (3, '''default'', ff_tap.waitpoint_id(41), null, ''1''', 'signal_name', 'null', 'a name is required'),
    (4, '''default'', ff_tap.waitpoint_id(41), ''__x'', ''1''', 'signal_name', 'reserved_signal_name',
        'a name is not reserved'),
    (5, '''default'', ff_tap.waitpoint_id(41), ''x'', null', 'idempotency_suffix', 'null', 'a suffix is required'),
    (6, '''default'', ff_tap.waitpoint_id(41), ''x'', ''''', 'idempotency_suffix', 'length', 'a suffix is not empty'),
    (7, '''default'', ff_tap.waitpoint_id(41), repeat(''x'', 256), repeat(''s'', 247)', 'idempotency_suffix', 'length',
        'name and suffix fit into a key of 512 bytes'),
    (8, '''default'', ff_tap.waitpoint_id(41), ''x'', ''1'', 2592000001', 'dedup_ttl_ms', 'out_of_range',
        'a window is 30 days at most'),
    (9, '''default'', ff_tap.waitpoint_id(41), ''x'', ''1'', p_source_identity => repeat(''s'', 257)',
        'source_identity', 'length', 'a source has 256 bytes at most')
) as b (number, arguments, field, reason, what)
order by b.number;
select is(ff_tap.suspension_rows(), (select h.rows from held as h), 'a refusal writes nothing');
select flowfabric.ff_close_waitpoint(:'target', ff_tap.waitpoint_id(41), p_source => 'operator_override');
select throws_ok(
    format($$execute approve(%L, 'default', ff_tap.waitpoint_id(41), 'approved', '1', '')$$, :'target'), 'ZS006',
    'waitpoint_closed', 'a closed waitpoint takes no approval');
\set pending '{fp:86}:00000000-0000-4000-8000-000000000005'
select ff_tap.leased_execution(:'pending');
select ff_tap.pending_waitpoint(:'pending', 51);
select throws_ok(
    format($$execute approve(%L, 'default', ff_tap.waitpoint_id(51), 'approved', '1', '')$$, :'pending'), 'ZC009',
    'waitpoint_pending_use_buffer_script', 'nor does a pending one');

select * from finish();
rollback;
