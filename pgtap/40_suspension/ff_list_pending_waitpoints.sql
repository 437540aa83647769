-- Listing waitpoints: which doors of an execution are open, and never their keys.
begin;
\ir helpers.sql
select plan(19);

select ff_tap.freeze_time(1000);
select ff_tap.signing_key();
\set execution '{fp:86}:00000000-0000-4000-8000-000000000001'
select ff_tap.leased_execution(:'execution');
prepare listing (text, uuid, integer) as select l.* from flowfabric.ff_list_pending_waitpoints($1, $2, $3) as l;
select is_empty(
    format('execute listing(%L, null, 100)', :'execution'), 'an execution without waitpoints has none open');
select ff_tap.pending_waitpoint(:'execution', 9, 'early', 500);
select results_eq(
    format('select to_jsonb(l) from flowfabric.ff_list_pending_waitpoints(%L) as l', :'execution'),
    format(
        $$select jsonb_build_object(
            'waitpoint_id', ff_tap.waitpoint_id(9), 'waitpoint_key', 'early', 'state', 'pending',
            'required_signal_names', '{}'::text[], 'created_at_ms', 1000, 'activated_at_ms', null,
            'expires_at_ms', 1500, 'execution_id', %L, 'token_kid', 'kid-1',
            'token_fingerprint', substr(ff_tap.token(9), 7, 16), 'next_cursor', null)$$, :'execution'),
    'a pending one shows its life and asks for no names');
select ff_tap.suspend(
    :'execution', ff_tap.all_of(ff_tap.single('up', 'db'), ff_tap.single(null, 'cache'), ff_tap.single('set', 'flag')));
select results_eq(
    format(
        $$select l.waitpoint_key collate "default", l.state, l.required_signal_names, l.activated_at_ms, l.expires_at_ms
          from flowfabric.ff_list_pending_waitpoints(%L) as l$$, :'execution'),
    $$values
        ('db', 'active', '{up}'::text[], 1000::bigint, null::bigint), ('cache', 'active', '{}', 1000, null),
        ('flag', 'active', '{set}', 1000, null), ('early', 'pending', '{}', null, 1500)$$,
    'active ones show their names, by id beside the pending one');
select is(
    (select bool_and(l.token_fingerprint ~ '^[0-9a-f]{16}$' and l.token_kid = 'kid-1')
     from flowfabric.ff_list_pending_waitpoints(:'execution') as l), true, 'each shows key and fingerprint');
select is_empty(
    format(
        $$select l.* from flowfabric.ff_list_pending_waitpoints(%L) as l where l::text ~ '[0-9a-f]{17}'$$,
        :'execution'),
    'and nothing longer of a token');

-- Pages
select results_eq(
    format(
        $$select l.waitpoint_id, l.next_cursor from flowfabric.ff_list_pending_waitpoints(%L, null, 2) as l$$,
        :'execution'),
    $$values (ff_tap.waitpoint_id(1), null::uuid), (ff_tap.waitpoint_id(2), ff_tap.waitpoint_id(2))$$,
    'the last row of a page has the cursor');
select results_eq(
    format(
        $$select l.waitpoint_id, l.next_cursor
          from flowfabric.ff_list_pending_waitpoints(%L, ff_tap.waitpoint_id(2), 2) as l$$, :'execution'),
    $$values (ff_tap.waitpoint_id(3), null::uuid), (ff_tap.waitpoint_id(9), null)$$,
    'unless there is nothing after it');
select is_empty(
    format('execute listing(%L, ff_tap.waitpoint_id(9), 2)', :'execution'), 'after the last row comes nothing');
select is(
    (select count(*) from flowfabric.ff_list_pending_waitpoints(:'execution', null, n.n) as l), n.rows,
    format('a limit of %s is clamped', coalesce(n.n::text, 'NULL')))
from (values (0, 1::bigint), (-5, 1), (2000000000, 4), (null::integer, 4)) as n (n, rows);

-- Open means open
select ff_tap.freeze_time(1499);
select is(
    (select count(*) from flowfabric.ff_list_pending_waitpoints(:'execution') as l), 4::bigint,
    'a pending waitpoint is open to its last millisecond');
select ff_tap.freeze_time(1500);
select is(
    (select count(*) from flowfabric.ff_list_pending_waitpoints(:'execution') as l), 3::bigint,
    'and closed at its expiry');
select flowfabric.ff_close_waitpoint(:'execution', ff_tap.waitpoint_id(2), p_source => 'operator_override');
select is(
    (select array_agg(l.waitpoint_id) from flowfabric.ff_list_pending_waitpoints(:'execution') as l),
    array[ff_tap.waitpoint_id(1), ff_tap.waitpoint_id(3)], 'a closed one is not listed');
select flowfabric.ff_resume_execution(:'execution');
select is_empty(format('execute listing(%L, null, 100)', :'execution'), 'after the resume none is open');
\set operator '{fp:86}:00000000-0000-4000-8000-000000000002'
select ff_tap.paused_execution(:'operator', '"OperatorOnly"', p_first_waitpoint => 21);
select is(
    (select l.required_signal_names from flowfabric.ff_list_pending_waitpoints(:'operator') as l),
    array['__operator_only__'], 'a wait for an operator is shown as one');

select throws_ok(
    $$execute listing('{fp:86}:00000000-0000-4000-8000-00000000ffff', null, 100)$$, 'ZN001', 'execution_not_found',
    'an unknown execution is not an empty page');
select throws_ok($$execute listing('x', null, 100)$$, 'ZV001', 'invalid_input', 'a malformed id is refused');

select * from finish();
rollback;
