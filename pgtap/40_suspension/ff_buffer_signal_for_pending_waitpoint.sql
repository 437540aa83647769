-- Early signals: they are kept until their suspension comes, and refused everywhere else.
begin;
\ir helpers.sql
select plan(33);

select ff_tap.freeze_time(1000);
select ff_tap.signing_key();
\set execution '{fp:86}:00000000-0000-4000-8000-000000000001'
select ff_tap.leased_execution(:'execution');
select ff_tap.pending_waitpoint(:'execution', 1, p_expires_in_ms => 5000);
create temporary table before as
select ff_tap.core(:'execution') as core, to_jsonb(ff_tap.waitpoint()) as waitpoint, ff_tap.token() as token;

-- Recorded, not evaluated
select ff_tap.freeze_time(2000);
select results_eq(
    format(
        $$select d.outcome, d.signal_id, d.effect from flowfabric.ff_buffer_signal_for_pending_waitpoint(
            %L, ff_tap.waitpoint_id(), %L, 'approved', ff_tap.waitpoint_id(901), 'human', 'person', 'ann', '\x00ff',
            'raw', 'first', 500, 'ticket-7', 'execution', 1999) as d$$, :'execution', ff_tap.token()),
    $$values ('accepted', ff_tap.waitpoint_id(901), 'buffered_for_pending_waitpoint')$$, 'an early signal is buffered');
select is(
    (select to_jsonb(s) from flowfabric.ff_signal as s),
    jsonb_build_object(
        'partition_key', 86, 'execution_id', '00000000-0000-4000-8000-000000000001',
        'signal_id', ff_tap.waitpoint_id(901), 'seq', 1, 'waitpoint_id', ff_tap.waitpoint_id(),
        'signal_name', 'approved', 'signal_category', 'human', 'source_type', 'person', 'source_identity', 'ann',
        'correlation_id', 'ticket-7', 'idempotency_key', 'first', 'target_scope', 'execution',
        'payload', '\x00ff', 'payload_encoding', 'raw', 'created_at_ms', 1999, 'accepted_at_ms', 2000,
        'observed_effect', 'buffered_for_pending_waitpoint', 'is_satisfier', false),
    'everything that was sent is recorded');
select is(
    to_jsonb(ff_tap.waitpoint()),
    (select b.waitpoint from before as b) || '{"signal_count": 1, "last_signal_at_ms": 2000}',
    'the waitpoint counts it');
select is(ff_tap.core(:'execution'), (select b.core from before as b), 'the execution is not written');
select is((select count(*) from flowfabric.ff_suspension_satisfier), 0::bigint, 'nothing is evaluated');
select is(
    ff_tap.signal_events(:'execution'), array['approved:buffered_for_pending_waitpoint'], 'it is one event');
select is(
    (select row(d.idempotency_key, d.signal_id, d.expires_at_ms) from flowfabric.ff_signal_dedup as d)::text,
    format('(first,%s,2500)', ff_tap.waitpoint_id(901)), 'the key is kept');

-- Repeats
create temporary table held as select ff_tap.suspension_rows() as rows;
prepare buffer (text, text, uuid, text) as select d.outcome from flowfabric.ff_buffer_signal_for_pending_waitpoint(
    :'execution', ff_tap.waitpoint_id(), $1, $2, $3, p_idempotency_key => $4) as d;
select results_eq(
    format($$execute buffer(%L, 'other', null, 'first')$$, ff_tap.token()), $$values ('duplicate')$$,
    'a repeat by key is a duplicate');
select results_eq(
    format($$execute buffer(%L, 'other', %L, null)$$, ff_tap.token(), ff_tap.waitpoint_id(901)),
    $$values ('duplicate')$$, 'a repeat by id too');
select is(ff_tap.suspension_rows(), (select h.rows from held as h), 'a duplicate writes nothing');

-- The token
select throws_ok(
    $$execute buffer('', 'x', null, null)$$, 'ZV029', 'missing_token', 'a token is required');
select throws_ok(
    format($$execute buffer(%L, 'x', null, null)$$, 'kid-1:' || repeat('0', 64)), 'ZV009', 'invalid_token',
    'a wrong token is refused');
select is(
    (select array_agg(distinct ff_tap.error_of(format(
        $$select flowfabric.ff_buffer_signal_for_pending_waitpoint(%L, %L, %L, 'x')$$, :'execution', w.id,
        'kid-1:' || repeat('0', 64)))::text)
     from (values (ff_tap.waitpoint_id(1)), (ff_tap.waitpoint_id(99))) as w (id)),
    array['{"fn": "ff_buffer_signal_for_pending_waitpoint", "code": "invalid_token"}'],
    'an unknown waitpoint reads the same');
select throws_ok(
    format(
        $$select flowfabric.ff_buffer_signal_for_pending_waitpoint(
            '{fp:86}:00000000-0000-4000-8000-00000000ffff', ff_tap.waitpoint_id(), %L, 'x')$$, ff_tap.token()),
    'ZN001', 'execution_not_found', 'an unknown execution is refused');
select throws_ok(
    format($$execute buffer(%L, '', null, null)$$, ff_tap.token()), 'ZV001', 'invalid_input', 'a name is required');
select throws_ok(
    $$select flowfabric.ff_buffer_signal_for_pending_waitpoint('nonsense', ff_tap.waitpoint_id(), '', 'x')$$,
    'ZV001', 'invalid_input', 'a malformed execution id is refused');
select throws_ok(
    format(
        $$select flowfabric.ff_buffer_signal_for_pending_waitpoint(
            %L, ff_tap.waitpoint_id(), %L, 'x', p_payload => decode(repeat('00', 65537), 'hex'))$$,
        :'execution', ff_tap.token()), 'ZV006', 'payload_too_large', 'a payload has 65536 bytes at most');
select throws_ok(
    format(
        $$select flowfabric.ff_buffer_signal_for_pending_waitpoint(
            %L, ff_tap.waitpoint_id(), %L, 'x', p_dedup_ttl_ms => -1)$$, :'execution', ff_tap.token()),
    'ZV001', 'invalid_input', 'a window is not negative');

-- After the activation
select flowfabric.ff_suspend_execution(
    :'execution', ff_tap.lease_id(), 1, ff_tap.attempt_id(), ff_tap.count_of(3, 'DistinctSignals'),
    'waiting_for_approval', p_waitpoint_ids => array[ff_tap.waitpoint_id()], p_use_pending => true);
select is(ff_tap.token(), (select b.token from before as b), 'the same token works before and after the activation');
select is(
    ff_tap.error_of('select ff_tap.buffer()') - 'fn',
    jsonb_build_object('code', 'waitpoint_not_pending', 'waitpoint_id', ff_tap.waitpoint_id(), 'state', 'active'),
    'an active waitpoint buffers nothing: the signal would be lost');
select is(
    ff_tap.deliver(p_idempotency_key => 'first'), 'duplicate', 'keys are shared with the other way to deliver');
select is(ff_tap.deliver(), 'appended_to_waitpoint', 'the early signal counted, so the second does not suffice');
select is(ff_tap.deliver(), 'resume_condition_satisfied', 'and the third does');
select throws_ok('select ff_tap.buffer()', 'ZS006', 'waitpoint_closed', 'a closed waitpoint takes nothing');
select throws_ok(
    $$select ff_tap.buffer(p_signal_id => ff_tap.waitpoint_id(902))$$, 'ZS006', 'waitpoint_closed',
    'whatever its id');
select is(ff_tap.buffer(p_signal_id => ff_tap.waitpoint_id(901)), 'duplicate', 'unless it is a repeat');

-- Closed, expired, ended
\set closed '{fp:86}:00000000-0000-4000-8000-000000000002'
select ff_tap.leased_execution(:'closed', p_policy => '{"max_signals_per_execution": 1}');
select ff_tap.pending_waitpoint(:'closed', 21);
select ff_tap.pending_waitpoint(:'closed', 22, p_expires_in_ms => 10);
select ff_tap.pending_waitpoint(:'closed', 23);
select flowfabric.ff_close_waitpoint(
    :'closed', ff_tap.waitpoint_id(21), 'changed my mind', ff_tap.lease_id(), 1, ff_tap.attempt_id());
select is(
    ff_tap.error_of('select ff_tap.buffer(p_number => 21)') - 'fn',
    jsonb_build_object(
        'code', 'waitpoint_closed', 'waitpoint_id', ff_tap.waitpoint_id(21), 'close_reason', 'changed my mind'),
    'a waitpoint that the worker closed takes nothing');
select ff_tap.freeze_time(2010);
select is(
    ff_tap.error_of('select ff_tap.buffer(p_number => 22)') - 'fn',
    jsonb_build_object('code', 'waitpoint_closed', 'waitpoint_id', ff_tap.waitpoint_id(22)),
    'nor does one that has expired, swept or not');
select ff_tap.buffer(p_number => 23);
select throws_ok(
    'select ff_tap.buffer(p_number => 23)', 'ZV007', 'signal_limit_exceeded', 'early signals count towards the limit');
select flowfabric.ff_complete_execution(:'closed', ff_tap.lease_id(), 1, ff_tap.attempt_id());
select is(
    ff_tap.error_of('select ff_tap.buffer(p_number => 23)') - 'fn',
    jsonb_build_object(
        'code', 'target_not_signalable', 'execution_id', :'closed', 'lifecycle_phase', 'terminal'),
    'an ended execution takes nothing, although its pending waitpoint is left to age out');
select is((ff_tap.waitpoint(23)).state, 'pending', 'which it is');
select throws_ok(
    'select ff_tap.buffer(p_number => 21)', 'ZS007', 'target_not_signalable', 'the end is told before the waitpoint');
select flowfabric.ff_scan_pending_waitpoint_expiry();
select is_empty('select f.check_name from flowfabric.ff_check_invariants() as f', 'everything fits together');

select * from finish();
rollback;
