-- Resume conditions: which documents are one, in which order a bad one is refused, and what signals do to a good one.
begin;
\ir helpers.sql
select plan(104);

select ff_tap.freeze_time(1000000);
select ff_tap.signing_key();
\set execution '{fp:86}:00000000-0000-4000-8000-000000000001'
select ff_tap.leased_execution(:'execution');
create temporary table untouched as select ff_tap.suspension_rows() as rows;

prepare suspend (jsonb, uuid[], text[], bigint, boolean) as
select s.outcome, s.ordinal, s.waitpoint_key from flowfabric.ff_suspend_execution(
    :'execution', ff_tap.lease_id(), 1, ff_tap.attempt_id(), $1, 'waiting_for_signal',
    p_waitpoint_ids => $2, p_waitpoint_keys => $3, p_timeout_at_ms => $4, p_use_pending => $5) as s;
create function ff_tap.refusal(
    p_condition text, p_ids uuid[] default null, p_keys text[] default null, p_timeout_at_ms bigint default null)
returns text
language sql volatile
as $$
    select concat_ws(' ', d ->> 'code', d ->> 'field', d ->> 'path', d ->> 'reason', d ->> 'position', d ->> 'value')
    from ff_tap.error_of(format(
        'execute suspend(%L, %L, %L, %L, false)', p_condition, p_ids, p_keys, p_timeout_at_ms)) as d
$$;

-- Shape
select is(
    ff_tap.refusal(b.condition), 'invalid_resume_condition ' || b.path || ' malformed', b.what || ' is malformed')
from (values
    (1, 'null', '<root>', 'JSON null'),
    (2, '7', '<root>', 'a number'),
    (3, '[]', '<root>', 'an array'),
    (4, '{}', '<root>', 'an empty object'),
    (5, '"Operator"', '<root>', 'an unknown word'),
    (6, '{"OperatorOnly": {}}', '<root>', 'a word that is written as an object'),
    (7, '{"AnyOf": []}', '<root>', 'an unknown variant'),
    (8, '{"Single": {"waitpoint_key": "a", "matcher": "Wildcard"}, "extra": 1}', '<root>', 'a second variant'),
    (9, '{"Single": "a"}', '<root>', 'a Single without a body'),
    (10, '{"Single": {"waitpoint_key": "a"}}', '<root>', 'a Single without a matcher'),
    (11, '{"Single": {"matcher": "Wildcard"}}', '<root>', 'a Single without a key'),
    (12, '{"Single": {"waitpoint_key": 1, "matcher": "Wildcard"}}', '<root>', 'a key that is a number'),
    (13, '{"Single": {"waitpoint_key": "a", "matcher": null}}', '<root>', 'a Single with a null matcher'),
    (14, '{"Single": {"waitpoint_key": "a", "matcher": "wildcard"}}', '<root>', 'an unknown matcher'),
    (15, '{"Single": {"waitpoint_key": "a", "matcher": {"ByName": 1}}}', '<root>', 'a name that is a number'),
    (16, '{"Single": {"waitpoint_key": "a", "matcher": {"ByName": "x", "or": "y"}}}', '<root>',
        'a matcher with another member'),
    (17, '{"Single": {"waitpoint_key": "a", "matcher": "Wildcard", "matchers": []}}', '<root>',
        'a Single with another member'),
    (18, '{"Composite": {"kind": "AnyOf", "members": []}}', '<root>', 'an unknown kind'),
    (19, '{"Composite": {"members": []}}', '<root>', 'a composite without a kind'),
    (20, '{"Composite": {"kind": "AllOf"}}', '<root>', 'an AllOf without members'),
    (21, '{"Composite": {"kind": "AllOf", "members": {}}}', '<root>', 'an AllOf whose members are an object'),
    (22, '{"Composite": {"kind": "AllOf", "members": [], "n": 1}}', '<root>', 'an AllOf with another member'),
    (23, '{"Composite": {"kind": "AllOf", "members": ["OperatorOnly", {"kind": "AllOf", "members": []}]}}',
        'members[1]', 'a composite without its tag'),
    (24, '{"Composite": {"kind": "AllOf", "members": [{"Composite": {"kind": "AllOf", "members": ["TimeoutOnly", 1]}},
        2]}}', 'members[0].members[1]', 'the first bad member in depth-first order'),
    (25, '{"Composite": {"kind": "Count", "n": 1, "count_kind": "Distinct", "waitpoints": ["a"]}}', '<root>',
        'an unknown way to count'),
    (26, '{"Composite": {"kind": "Count", "n": "1", "count_kind": "DistinctSignals", "waitpoints": ["a"]}}', '<root>',
        'a count in quotes'),
    (27, '{"Composite": {"kind": "Count", "n": -1, "count_kind": "DistinctSignals", "waitpoints": ["a"]}}', '<root>',
        'a negative count'),
    (28, '{"Composite": {"kind": "Count", "n": 1.5, "count_kind": "DistinctSignals", "waitpoints": ["a"]}}',
        '<root>', 'a fractional count'),
    (29, '{"Composite": {"kind": "Count", "count_kind": "DistinctSignals", "waitpoints": ["a"]}}', '<root>',
        'a Count without a number'),
    (30, '{"Composite": {"kind": "Count", "n": 1, "count_kind": "DistinctSignals", "waitpoints": "a"}}', '<root>',
        'a Count whose waitpoints are a text'),
    (31, '{"Composite": {"kind": "Count", "n": 1, "count_kind": "DistinctSignals", "waitpoints": ["a", 1]}}',
        '<root>', 'a Count with a waitpoint that is a number'),
    (32, '{"Composite": {"kind": "Count", "n": 1, "count_kind": "DistinctSignals", "waitpoints": ["a"],
        "matcher": "x"}}', '<root>', 'a Count with an unknown matcher'),
    (33, '{"Composite": {"kind": "Count", "n": 1, "count_kind": "DistinctSignals", "waitpoints": ["a"],
        "matchers": null}}', '<root>', 'a Count with another member'),
    (34, repeat('{"Composite": {"kind": "AllOf", "members": [', 6) || '3' || repeat(']}}', 6),
        'members[0].members[0].members[0].members[0].members[0].members[0]',
        'something deep inside a condition that is too deep'),
    (35, '{"Single": {"waitpoint_key": "' || repeat('a', 65536) || '", "matcher": "Wildcard"}}', '<root>',
        'a document above 65536 bytes')
) as b (number, condition, path, what)
order by b.number;
select throws_ok(
    'execute suspend(null, null, null, null, false)', 'ZV001', 'invalid_input', 'a condition is required');

-- Rules, in their order
select is(
    ff_tap.refusal(b.condition, b.ids, b.keys, b.timeout_at_ms), b.refusal, b.what)
from (values
    (1, '{}', '{}'::uuid[], null::text[], null::bigint, 'invalid_input waitpoint_ids waitpoints_empty',
        'rule 1: an empty list of bindings, before the shape'),
    (2, '{}', null, '{}', null, 'invalid_input waitpoint_ids waitpoints_empty', 'rule 1: an empty list of keys'),
    (3, '{}', array[ff_tap.waitpoint_id(1), ff_tap.waitpoint_id(2)], array['a'], null,
        'additional_waitpoint_binding_malformed 1', 'rule 2: an id without a key'),
    (4, '{}', array[ff_tap.waitpoint_id(1)], array['a', 'b'], null,
        'additional_waitpoint_binding_malformed 1', 'rule 2: a key without an id'),
    (5, '{}', array[ff_tap.waitpoint_id(1)], null, null, 'additional_waitpoint_binding_malformed 0',
        'rule 2: ids without keys'),
    (6, '{}', array[null, ff_tap.waitpoint_id(2)], array['a', 'b'], null,
        'additional_waitpoint_binding_malformed 0', 'rule 2: a missing id'),
    (7, '{}', null, array['a', ''], null, 'additional_waitpoint_binding_malformed 1', 'rule 2: an empty key'),
    (8, '{}', null, array['a', null], null, 'additional_waitpoint_binding_malformed 1', 'rule 2: a missing key'),
    (9, '{}', null, array[repeat('k', 513)], null, 'additional_waitpoint_binding_malformed 0',
        'rule 2: a key of 513 bytes'),
    (10, '{}', null, array(select 'k' || n::text from generate_series(1, 257) as n), null,
        'additional_waitpoint_binding_malformed 256', 'rule 2: 257 bindings'),
    (11, '{}', null, array['a', 'b', 'a'], null,
        'invalid_input waitpoint_keys duplicate_waitpoint_binding a', 'rule 3: a key twice'),
    (12, '{}', array[ff_tap.waitpoint_id(1), ff_tap.waitpoint_id(1)], array['a', 'b'], null,
        'invalid_input waitpoint_keys duplicate_waitpoint_binding ' || ff_tap.waitpoint_id(1)::text,
        'rule 3: an id twice'),
    (13, '{}', null, array['a'], null, 'invalid_resume_condition <root> malformed',
        'rule 4: the shape, after the bindings'),
    (14, ff_tap.single('', 'b')::text, null, array['a'], null,
        'invalid_input waitpoint_keys waitpoint_key_mismatch b',
        'rule 5: a Single on another key than the primary one, before its name'),
    (15, ff_tap.all_of(ff_tap.single('', 'a'), ff_tap.single('x', 'c'))::text, null, array['a', 'b'], null,
        'invalid_input waitpoint_keys referenced_waitpoint_key_missing_binding c',
        'rule 7: a key without a binding, before the extra binding'),
    (16, ff_tap.count_of(1, 'DistinctSignals', '{a,z}')::text, null, array['a'], null,
        'invalid_input waitpoint_keys referenced_waitpoint_key_missing_binding z',
        'rule 7: also for a single binding'),
    (17, ff_tap.count_of(0, 'DistinctSignals', '{a}')::text, null, array['a', 'b'], null,
        'invalid_input waitpoint_keys extra_binding_not_referenced_by_condition b',
        'rule 8: a binding that the condition does not name'),
    (18, '"OperatorOnly"', null, array['a', 'b'], null,
        'invalid_input waitpoint_keys extra_binding_not_referenced_by_condition a',
        'rule 8: a condition without keys has one binding'),
    (19, ff_tap.all_of(ff_tap.single('', 'a'), '"TimeoutOnly"')::text, null, null, null,
        'invalid_input timeout_at_ms timeout_only_without_deadline',
        'rule 9: TimeoutOnly anywhere needs a timeout, before the names'),
    (20, ff_tap.all_of(ff_tap.all_of(), ff_tap.single('', 'a'))::text, null, null, null,
        'invalid_resume_condition members[1] empty_signal_name', 'rule 10: an empty name, before the tree'),
    (21, ff_tap.count_of(0, 'DistinctSignals', '{a}', '__operator_only__')::text, null, null, null,
        'invalid_resume_condition <root> reserved_signal_name', 'rule 10: a reserved name'),
    (22, ff_tap.all_of(ff_tap.all_of(ff_tap.all_of(ff_tap.all_of(ff_tap.all_of()))), ff_tap.all_of())::text, null,
        null, null, 'invalid_resume_condition members[0].members[0].members[0].members[0] depth_exceeded',
        'rule 12: five composites deep, before it is found empty'),
    (23, ff_tap.all_of(ff_tap.all_of(), ff_tap.count_of(0, 'DistinctSignals', '{}'))::text, null, null, null,
        'invalid_resume_condition members[0] allof_empty_members', 'rule 13: an AllOf without members'),
    (24, ff_tap.all_of(ff_tap.count_of(0, 'DistinctSignals', '{}'), ff_tap.all_of())::text, null, null, null,
        'invalid_resume_condition members[0] count_n_zero', 'rule 14: a count of 0; members left to right'),
    (25, ff_tap.count_of(2, 'DistinctWaitpoints', '{}')::text, null, null, null,
        'invalid_resume_condition <root> count_waitpoints_empty', 'rule 15: a Count without waitpoints'),
    (26, ff_tap.count_of(3, 'DistinctWaitpoints', '{a,b,a}')::text, null, null, null,
        'invalid_resume_condition <root> count_exceeds_waitpoint_set',
        'rule 16: more distinct waitpoints than there are')
) as b (number, condition, ids, keys, timeout_at_ms, refusal, what)
order by b.number;
select is(ff_tap.suspension_rows(), (select u.rows from untouched as u), 'a refused condition writes nothing');
select throws_ok(
    'execute suspend(''"OperatorOnly"'', null, null, null, true)', 'ZV001', 'invalid_input',
    'rule 1: use_pending needs an id');
select throws_ok(
    format(
        'execute suspend(%L, %L, null, null, true)', ff_tap.single(''),
        array[ff_tap.waitpoint_id(1), ff_tap.waitpoint_id(2)]),
    'ZV032', 'use_pending_with_extras_unsupported',
    'rule 6: use_pending takes one waitpoint, and that comes before 10');

-- Accepted
create function ff_tap.accepted(p_condition jsonb, p_keys text[] default null, p_timeout_at_ms bigint default null)
returns text[]
language plpgsql volatile
as $$
declare
    v_keys text[];
begin
    begin
        v_keys := array(
            select s.waitpoint_key
            from flowfabric.ff_suspend_execution(
                '{fp:86}:00000000-0000-4000-8000-000000000001', ff_tap.lease_id(), 1, ff_tap.attempt_id(),
                p_condition, 'waiting_for_signal', p_waitpoint_keys => p_keys, p_timeout_at_ms => p_timeout_at_ms) as s
            order by s.ordinal);
        raise exception using errcode = 'P0999';
    exception when sqlstate 'P0999' then
        return v_keys;
    end;
end;
$$;
select is(
    ff_tap.accepted(ff_tap.all_of(ff_tap.all_of(ff_tap.all_of(ff_tap.all_of(ff_tap.single(null, 'a')))))),
    array['a'], 'four composites deep is deep enough, and a leaf adds nothing');
select is(
    ff_tap.accepted(ff_tap.count_of(2, 'DistinctWaitpoints', '{a,b,a}')), array['a', 'b'],
    'as many distinct waitpoints as there are');
select is(
    ff_tap.accepted(ff_tap.count_of(9, 'DistinctSignals', '{a}')), array['a'],
    'a number of signals is not bounded by the waitpoints');
select is(
    ff_tap.accepted(ff_tap.count_of(9, 'DistinctSources', '{a}')), array['a'], 'nor is a number of sources');
select is(
    ff_tap.accepted(ff_tap.count_of(1, 'DistinctSources', '{a}') #- '{Composite,matcher}'), array['a'],
    'a Count may leave its matcher out');
select is(
    ff_tap.accepted(jsonb_set(ff_tap.count_of(2, 'DistinctSignals', '{a}'), '{Composite,n}', '2.0')), array['a'],
    'a whole number may be written with a fraction');
select is(
    ff_tap.accepted(jsonb_set(ff_tap.count_of(2, 'DistinctSignals', '{a}'), '{Composite,matcher}', 'null')),
    array['a'], 'a Count may have a null matcher');
select is(
    ff_tap.accepted(ff_tap.all_of(
        ff_tap.count_of(1, 'DistinctSignals', '{b,a}'), ff_tap.single('x', 'c'), ff_tap.single('x', 'b'))),
    array['b', 'a', 'c'], 'without bindings there is a waitpoint per key, in the order of first mention');
select is(
    ff_tap.accepted(ff_tap.all_of(ff_tap.single(null, 'a'), '"TimeoutOnly"'), null, 400000), array['a'],
    'TimeoutOnly with a timeout ten minutes ago, to the millisecond');
select alike(
    (ff_tap.accepted('"OperatorOnly"'))[1],
    'wpk:________-____-____-____-____________', 'a condition without keys has one waitpoint named after its id');
select is(ff_tap.accepted('"OperatorOnly"', array['stop']), array['stop'], 'or by the worker');
select is(
    cardinality(ff_tap.accepted(ff_tap.count_of(
        1, 'DistinctSignals', array(select 'k' || n::text from generate_series(1, 256) as n)))), 256,
    'a suspension may have 256 waitpoints');
select is(
    ff_tap.refusal(ff_tap.count_of(
        1, 'DistinctSignals', array(select 'k' || n::text from generate_series(1, 257) as n))::text),
    'additional_waitpoint_binding_malformed 256', 'a condition that names 257 keys has a binding too many');
select is(
    ff_tap.refusal(ff_tap.single('x', '')::text), 'additional_waitpoint_binding_malformed 0',
    'an empty key in a condition cannot become a waitpoint');
select is(
    ff_tap.accepted(ff_tap.single('x', repeat('k', 512))), array[repeat('k', 512)], 'a key may have 512 bytes');
select is(
    ff_tap.accepted(ff_tap.single('x', 'b'), '[7:7]={b}'::text[]), array['b'],
    'arrays need not begin at 1');

-- Names for readers
select is(
    flowfabric._ff_condition_names(
        ff_tap.all_of(
            ff_tap.single('x', 'a'), ff_tap.count_of(1, 'DistinctSignals', '{b,a}', 'y'), '"OperatorOnly"',
            ff_tap.single('x', 'a'), ff_tap.single(null, 'a'), '"TimeoutOnly"'), k.key),
    k.names, format('the names that are asked for at %s', k.key))
from (values
    ('a', '{x,y,__operator_only__,__timeout_only__}'::text[]), ('b', '{y,__operator_only__,__timeout_only__}'),
    ('c', '{__operator_only__,__timeout_only__}')) as k (key, names);

-- Evaluation: each row is a condition, the signals as name@waitpoint/source, and the effect of each of them
create function ff_tap.effects(p_condition jsonb, p_signals text[])
returns text[]
language plpgsql volatile
as $$
declare
    v_effects text[] := '{}';
    v_signal text;
begin
    begin
        perform ff_tap.suspend('{fp:86}:00000000-0000-4000-8000-000000000001', p_condition);
        foreach v_signal in array p_signals loop
            v_effects := v_effects || ff_tap.deliver(
                split_part(v_signal, '@', 1), split_part(split_part(v_signal, '@', 2), '/', 1)::integer,
                split_part(v_signal, '/', 2), coalesce(nullif(split_part(v_signal, '/', 3), ''), 'external'));
        end loop;
        raise exception using errcode = 'P0999';
    exception when sqlstate 'P0999' then
        return v_effects;
    end;
end;
$$;
select is(
    array_to_string(ff_tap.effects(e.condition, e.signals), ' '),
    replace(replace(replace(replace(replace(e.effects,
        'SAT', 'resume_condition_satisfied'), 'APP', 'appended_to_waitpoint'),
        'DUP', 'appended_to_waitpoint_duplicate'), 'OUT', 'signal_ignored_not_in_condition'),
        'NOT', 'signal_ignored_matcher_failed'), e.what)
from (values
    (1, ff_tap.single('approved', 'a'), '{x@1,Approved@1,approved1@1,approved@1}'::text[], 'no_op no_op no_op SAT',
        'a Single compares the whole name'),
    (2, ff_tap.single(null, 'a'), '{anything@1}', 'SAT', 'a Wildcard accepts every name'),
    (3, '"OperatorOnly"'::jsonb, '{x@1,operator_only@1}', 'no_op no_op', 'no signal satisfies OperatorOnly'),
    (4, ff_tap.all_of(ff_tap.single('x', 'a'), ff_tap.single('y', 'a')), '{x@1,y@1}', 'APP SAT',
        'an AllOf of two names'),
    (5, ff_tap.all_of(ff_tap.single('x', 'a'), ff_tap.single('y', 'a')), '{y@1,x@1}', 'APP SAT', 'in any order'),
    (6, ff_tap.all_of(ff_tap.single('x', 'a'), ff_tap.single('y', 'a')), '{x@1,x@1,z@1,y@1}', 'APP DUP NOT SAT',
        'a leaf takes one signal'),
    (7, ff_tap.all_of(ff_tap.single('x', 'a'), ff_tap.single('x', 'b')), '{x@1,x@1,x@2}', 'APP DUP SAT',
        'a leaf listens to its own waitpoint only'),
    (8, ff_tap.all_of(ff_tap.single('x', 'a'), ff_tap.single(null, 'a')), '{x@1}', 'SAT',
        'one signal can satisfy several leaves'),
    (9, ff_tap.all_of(ff_tap.single('x', 'a'), '"OperatorOnly"'), '{x@1,x@1}', 'APP DUP',
        'an AllOf with OperatorOnly is never satisfied by signals'),
    (10, ff_tap.count_of(2, 'DistinctWaitpoints', '{a,b,c}'), '{x@1,y@1/q,z@3}', 'APP DUP SAT',
        'a waitpoint counts once, whatever arrives there'),
    (11, ff_tap.count_of(2, 'DistinctSignals', '{a}'), '{x@1/p,x@1/p}', 'APP SAT',
        'every signal is a distinct signal'),
    (12, ff_tap.count_of(2, 'DistinctSources', '{a}'), '{x@1/ann,y@1/ann,x@1/bob}', 'APP DUP SAT',
        'a source counts once, whatever it sends'),
    (13, ff_tap.count_of(3, 'DistinctSources', '{a}'), '{x@1/b:c/a,x@1/c/a:b,x@1/c/a}', 'APP APP SAT',
        'a source is a pair, and no two pairs look the same'),
    (14, ff_tap.count_of(2, 'DistinctSources', '{a}', 'ok'), '{no@1/ann,ok@1/ann,no@1/bob,ok@1/bob}',
        'NOT APP NOT SAT', 'a Count filters by name'),
    (15, ff_tap.all_of(
        ff_tap.count_of(1, 'DistinctSignals', '{a}', 'x'), ff_tap.count_of(2, 'DistinctSignals', '{a}', 'y')),
        '{y@1,y@1,y@1,x@1}', 'APP APP APP SAT', 'two Counts of one kind do not feed each other'),
    (16, ff_tap.all_of(ff_tap.all_of(ff_tap.all_of(
        ff_tap.single('x', 'a'), ff_tap.count_of(1, 'DistinctSignals', '{b}')))), '{x@1,y@2}', 'APP SAT',
        'an AllOf in an AllOf in an AllOf resolves'),
    (17, ff_tap.all_of(ff_tap.single('x', 'a'), ff_tap.single('y', 'b'), ff_tap.single('z', 'c')),
        '{y@2,z@3,x@2,x@1}', 'APP APP NOT SAT', 'three subsystems must all report'),
    (18, ff_tap.count_of(1, 'DistinctSources', '{a}', 'x'), '{y@1,x@1}', 'NOT SAT', 'one of many is a Count of one')
) as e (number, condition, signals, effects, what)
order by e.number;

-- A waitpoint that no node listens to can only arise from a pause on one key and a waitpoint on another
select ff_tap.suspend(:'execution', ff_tap.count_of(2, 'DistinctSignals', '{a}'), 1);
update flowfabric.ff_waitpoint_pending as w set waitpoint_key = 'b' where w.waitpoint_id = ff_tap.waitpoint_id(1);
select is(
    ff_tap.deliver('x'), 'signal_ignored_not_in_condition', 'a signal at a waitpoint outside the condition is ignored');
select is(
    (select row(w.signal_count, w.matched_signal_count)::text from ff_tap.waitpoint(1) as w), '(1,0)',
    'it is recorded and not counted as a match');

select * from finish();
rollback;
