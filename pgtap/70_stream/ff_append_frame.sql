-- Appending a frame: who may write, what is stored in each mode, and what is refused in which order.
begin;
\ir ../helpers.sql
select plan(124);

\set execution '{fp:86}:00000000-0000-4000-8000-000000000001'
\set other_id '00000000-0000-4000-8000-0000000000ff'

create function ff_tap.id(p_number integer)
returns text
language sql immutable
as $$ select '{fp:86}:00000000-0000-4000-8000-' || lpad(p_number::text, 12, '0') $$;

-- A good append by the holder of leased_execution; the tests below vary one thing at a time.
create function ff_tap.append(
    p_execution_id text,
    p_payload bytea default 'x',
    p_mode text default 'durable',
    p_ttl_ms integer default 0,
    p_maxlen integer default 0,
    p_floor integer default 64,
    p_ceiling integer default 16384,
    p_alpha double precision default 0.2
)
returns flowfabric.ff_appended_frame
language sql volatile
as $$
    select r.*
    from flowfabric.ff_append_frame(
        p_execution_id, 0, ff_tap.lease_id(), 1, ff_tap.attempt_id(), 'stdout', p_payload, p_stream_mode => p_mode,
        p_ttl_ms => p_ttl_ms, p_retention_maxlen => p_maxlen, p_maxlen_floor => p_floor,
        p_maxlen_ceiling => p_ceiling, p_ema_alpha => p_alpha) as r
$$;

create function ff_tap.meta(p_execution_id text)
returns flowfabric.ff_stream_meta
language sql stable
as $$
    select m.*
    from flowfabric.ff_stream_meta as m, flowfabric.ff_parse_execution_id(p_execution_id) as k
    where m.partition_key = k.partition_key and m.execution_id = k.execution_id and m.attempt_index = 0
$$;

create function ff_tap.frames(p_execution_id text)
returns setof flowfabric.ff_stream_frame
language sql stable
as $$
    select f.*
    from flowfabric.ff_stream_frame as f, flowfabric.ff_parse_execution_id(p_execution_id) as k
    where f.partition_key = k.partition_key and f.execution_id = k.execution_id
    order by f.ts_ms, f.seq
$$;

-- The first frame
select ff_tap.freeze_time(1000);
select ff_tap.leased_execution(:'execution', p_lease_expires_at_ms => 100000);
select results_eq(
    format(
        $$ select r.* from flowfabric.ff_append_frame(
            p_execution_id => %L, p_attempt_index => 0, p_lease_id => ff_tap.lease_id(), p_lease_epoch => 1,
            p_attempt_id => ff_tap.attempt_id(), p_frame_type => 'stdout', p_payload => '\x00ff80') as r $$,
        :'execution'),
    $$ values ('1000-0', 1::bigint, null::bigint) $$, 'the first frame gets the time as its id and is counted');
select results_eq(
    format(
        $$ select f.ts_ms, f.seq, f.frame_type, f.frame_ts_ms, f.payload, f.encoding, f.source, f.mode,
               f.correlation_id, f.summary_version, f.ttl_ms
           from ff_tap.frames(%L) as f $$, :'execution'),
    $$ values (1000::bigint, 0, 'stdout', 1000::bigint, '\x00ff80'::bytea, 'utf8', 'worker', 'durable', null::text,
               null::bigint, null::integer) $$,
    'a frame is stored byte for byte, with the defaults of what was not given');
select is(
    ff_tap.meta(:'execution'),
    row(86, '00000000-0000-4000-8000-000000000001', 0, ff_tap.attempt_id(), 1000, null, null, 0, 1000, 0, 1, 1, 3,
        1000, true, null, null, null, null)::flowfabric.ff_stream_meta,
    'the first frame opens the stream of its attempt');
select results_eq(
    format(
        $$ select r.* from flowfabric.ff_append_frame(
            %L, 0, ff_tap.lease_id(), 1, ff_tap.attempt_id(), 'blob', '', 'gzip', 'call-7', 'tool', 777,
            p_retention_maxlen => 0) as r $$, :'execution'),
    $$ values ('1000-1', 2::bigint, null::bigint) $$, 'frames of one millisecond are told apart');
select results_eq(
    format(
        $$ select f.frame_type, f.frame_ts_ms, f.payload, f.encoding, f.source, f.correlation_id
           from ff_tap.frames(%L) as f where f.seq = 1 $$, :'execution'),
    $$ values ('blob', 777::bigint, ''::bytea, 'gzip', 'tool', 'call-7') $$,
    'type, encoding, source, correlation id and the producer''s own time are stored as given');
select is((ff_tap.meta(:'execution')).total_bytes, 3::bigint, 'an empty frame adds no byte');
select lives_ok(
    format(
        $$ select flowfabric.ff_append_frame(
            %L, 0, ff_tap.lease_id(), 1, ff_tap.attempt_id(), 'x', null, null, '', null, null) $$, :'execution'),
    'a NULL payload, encoding and source mean the defaults');
select results_eq(
    format(
        $$ select f.payload, f.encoding, f.source, f.correlation_id from ff_tap.frames(%L) as f where f.seq = 2 $$,
        :'execution'),
    $$ values (''::bytea, 'utf8', 'worker', null::text) $$, 'and an empty correlation id means none');
select ff_tap.freeze_time(1500);
select is((ff_tap.append(:'execution')).entry_id, '1500-0', 'a later millisecond counts from 0 again');
select ff_tap.freeze_time(1200);
select is((ff_tap.append(:'execution')).entry_id, '1500-1', 'a clock that was set back does not put a frame before others');
select is(
    (select row(f.ts_ms, f.frame_ts_ms) from ff_tap.frames(:'execution') as f offset 4 limit 1),
    row(1500::bigint, 1200::bigint), 'and the frame keeps the time that the clock showed');
select is((ff_tap.meta(:'execution')).last_frame_at_ms, 1200::bigint, 'as the stream does');
select ff_tap.freeze_time(2000);
select is(
    ff_tap.lease_events(:'execution'), array['acquired:issue_grant_and_claim'], 'frames write no event');

-- The arguments, in their order
prepare append (text, integer, uuid, bigint, uuid, text, bytea, text, integer, integer, integer, bigint) as
select r.* from flowfabric.ff_append_frame(
    $1, $2, $3, $4, $5, $6, $7, p_stream_mode => $8, p_retention_maxlen => $9, p_ttl_ms => $10,
    p_max_payload_bytes => $11, p_frame_ts_ms => $12) as r;
-- A good call with a change: NULL leaves an argument as it is, the last one spells it out as SQL.
create function ff_tap.call(p_changes jsonb)
returns text
language sql stable
as $$
    select format('execute append(%s)', string_agg(coalesce(p_changes ->> d.name, d.good), ', ' order by d.position))
    from (values
        (1, 'execution_id', quote_literal(ff_tap.id(1))), (2, 'attempt_index', '0'),
        (3, 'lease_id', quote_literal(ff_tap.lease_id())), (4, 'lease_epoch', '1'),
        (5, 'attempt_id', quote_literal(ff_tap.attempt_id())), (6, 'frame_type', quote_literal('stdout')),
        (7, 'payload', quote_literal('x')), (8, 'stream_mode', quote_literal('durable')), (9, 'retention_maxlen', '0'),
        (10, 'ttl_ms', '0'), (11, 'max_payload_bytes', '65536'), (12, 'frame_ts_ms', '5')
    ) as d (position, name, good)
$$;
create function ff_tap.refusal(p_changes jsonb)
returns jsonb
language sql volatile
as $$ select ff_tap.error_of(ff_tap.call(p_changes)) - array['fn', 'value'] $$;
create function ff_tap.rows_of_streams()
returns text
language sql stable
as $$
    select md5(concat(
        (select string_agg(m::text || m.xmin::text, '' order by m.execution_id) from flowfabric.ff_stream_meta as m),
        (select count(*) from flowfabric.ff_stream_frame),
        (select string_agg(s::text, '' order by s.execution_id) from flowfabric.ff_stream_summary as s)))
$$;

select ff_tap.rows_of_streams() as rows_before \gset
select is(
    ff_tap.error_of(ff_tap.call('{"execution_id": "''{fp:86}:x''"}')),
    '{"code": "invalid_input", "fn": "ff_append_frame", "field": "execution_id", "reason": "bad_uuid", "value": "{fp:86}:x"}',
    'a malformed id is refused');
select is(
    ff_tap.refusal(format('{"%s": "null"}', f.field)::jsonb),
    jsonb_build_object('code', 'invalid_input', 'field', f.field, 'reason', f.reason),
    format('%s is required', f.field))
from (values
    ('execution_id', 'null'), ('attempt_index', 'null'), ('frame_type', 'null'), ('stream_mode', 'null'),
    ('retention_maxlen', 'null'), ('ttl_ms', 'null'), ('max_payload_bytes', 'null')
) as f (field, reason);
select is(
    ff_tap.refusal(format('{"%s": "-1"}', f.field)::jsonb),
    jsonb_build_object('code', 'invalid_input', 'field', f.field, 'reason', 'out_of_range'),
    format('%s is not negative', f.field))
from unnest(array['attempt_index', 'retention_maxlen', 'ttl_ms', 'max_payload_bytes', 'frame_ts_ms']) as f (field);
select is(
    ff_tap.refusal('{"frame_ts_ms": "253402300800000"}') ->> 'reason', 'out_of_range',
    'a producer''s time is one that every client can show');
select is(
    ff_tap.refusal('{"frame_type": "''''"}'),
    '{"code": "invalid_input", "field": "frame_type", "reason": "empty"}', 'a frame has a type');
select is(
    ff_tap.error_of(ff_tap.call('{"stream_mode": "''Durable''"}')) - 'fn',
    '{"code": "invalid_input", "field": "stream_mode", "reason": "unknown", "value": "Durable"}',
    'an unknown mode is refused');
select throws_ok(
    ff_tap.call('{"lease_id": "null", "lease_epoch": "null", "attempt_id": "null"}'), 'ZV026', 'fence_required',
    'without a fence nothing is appended');
select is(
    ff_tap.error_of(ff_tap.call('{"lease_epoch": "null"}')),
    jsonb_build_object(
        'code', 'partial_fence_triple', 'fn', 'ff_append_frame', 'execution_id', ff_tap.id(1), 'missing',
        '["lease_epoch"]'::jsonb),
    'a fence is whole or none');
select throws_ok(
    ff_tap.call('{"lease_epoch": "null"}'), 'ZV027', 'partial_fence_triple', 'which has a code of its own');
select throws_ok(
    ff_tap.call('{"payload": "convert_to(repeat(''x'', 65537), ''UTF8'')"}'), 'ZV011', 'retention_limit_exceeded',
    '64 KiB and a byte are too much');
select is(
    ff_tap.refusal('{"payload": "''12345''", "max_payload_bytes": "4"}'),
    '{"code": "retention_limit_exceeded", "limit_bytes": 4, "actual_bytes": 5}', 'the detail says by how much');
select is(
    ff_tap.refusal(c.changes) ->> 'code', c.code, format('%s comes before %s', c.code, c.later))
from (values
    ('{"frame_type": "null", "stream_mode": "null"}'::jsonb, 'invalid_input', 'mode'),
    ('{"retention_maxlen": "-1", "lease_id": "null"}', 'invalid_input', 'the fence'),
    ('{"lease_id": "null", "max_payload_bytes": "0"}', 'partial_fence_triple', 'the size'),
    ('{"max_payload_bytes": "0", "lease_epoch": "9"}', 'retention_limit_exceeded', 'the owner')
) as c (changes, code, later);

-- The execution and its lease, in their order
select throws_ok(
    ff_tap.call(jsonb_build_object('execution_id', quote_literal(ff_tap.id(404)))), 'ZS015', 'stream_closed',
    'an unknown execution has no stream to write to');
select is(
    ff_tap.error_of(ff_tap.call(jsonb_build_object('execution_id', quote_literal(ff_tap.id(404))))),
    jsonb_build_object(
        'code', 'stream_closed', 'fn', 'ff_append_frame', 'execution_id', ff_tap.id(404), 'attempt_index', 0),
    'the refusal names the stream and, without a stream, no reason');
select throws_ok(ff_tap.call(c.changes), 'ZS016', 'stale_owner_cannot_append', c.description)
from (values
    (format('{"lease_id": "''%s''"}', :'other_id')::jsonb, 'another lease id is fenced off'),
    ('{"lease_epoch": "0"}', 'an older epoch is fenced off'),
    ('{"lease_epoch": "2"}', 'a later epoch is fenced off'),
    (format('{"attempt_id": "''%s''"}', :'other_id')::jsonb, 'another attempt id is fenced off'),
    ('{"attempt_index": "1"}', 'a later attempt index is fenced off')
) as c (changes, description);
select is(
    ff_tap.error_of(ff_tap.call('{"lease_epoch": "0"}')),
    jsonb_build_object(
        'code', 'stale_owner_cannot_append', 'fn', 'ff_append_frame', 'execution_id', ff_tap.id(1), 'attempt_index',
        0),
    'the refusal names the stream');
select is(ff_tap.rows_of_streams(), :'rows_before', 'no refusal writes or locks a row');

-- A first append that is refused opens no stream
select ff_tap.leased_execution(ff_tap.id(2), p_lease_expires_at_ms => 5000);
select ff_tap.execution(ff_tap.id(3));
select throws_ok(
    format('select ff_tap.append(%L)', ff_tap.id(3)), 'ZS015', 'stream_closed', 'what was never claimed is not active');
select ff_tap.freeze_time(4999);
select lives_ok(format('select ff_tap.append(%L)', ff_tap.id(2)), 'a lease is good until its expiry');
select ff_tap.leased_execution(ff_tap.id(4), p_lease_expires_at_ms => 5000);
select ff_tap.freeze_time(5000);
select throws_ok(
    format('select ff_tap.append(%L)', ff_tap.id(2)), 'ZS016', 'stale_owner_cannot_append',
    'at the instant itself the lease is over, before any scanner has noticed it');
select throws_ok(
    format('select ff_tap.append(%L)', ff_tap.id(4)), 'ZS016', 'stale_owner_cannot_append',
    'for the first frame of an attempt too');
select is(
    (select count(*) from flowfabric.ff_stream_meta as m where m.execution_id = right(ff_tap.id(4), 36)::uuid), 0::bigint,
    'a first append that is refused opens no stream');
select is(
    (ff_tap.core(ff_tap.id(2))).ownership_state, 'leased', 'an append refuses an expired lease and does not mark it');
select flowfabric.ff_mark_lease_expired_if_due(ff_tap.id(2));
select throws_ok(
    format('select ff_tap.append(%L)', ff_tap.id(2)), 'ZS016', 'stale_owner_cannot_append', 'a marked lease stays lost');
select ff_tap.freeze_time(4999);
select throws_ok(
    format('select ff_tap.append(%L)', ff_tap.id(2)), 'ZS016', 'stale_owner_cannot_append',
    'even by an earlier clock');
select ff_tap.freeze_time(5000);
select is(
    row((ff_tap.meta(ff_tap.id(2))).closed_at_ms, (ff_tap.meta(ff_tap.id(2))).closed_reason),
    row(5000::bigint, 'lease_expired'::text), 'the mark tells readers that nothing more will come');

-- What ends an attempt ends its stream
create function ff_tap.stream_after(p_number integer, p_statement text)
returns text
language plpgsql volatile
as $$
declare
    v_id text := ff_tap.leased_execution(ff_tap.id(p_number), p_policy => '{"retry_policy": {"max_retries": 1}}');
begin
    perform ff_tap.append(v_id);
    execute format(p_statement, v_id, ff_tap.lease_id(), 1, ff_tap.attempt_id());
    return format(
        '%s, %s', coalesce((ff_tap.meta(v_id)).closed_reason, 'open'),
        coalesce(ff_tap.error_of(format('select ff_tap.append(%L)', v_id)) ->> 'code', 'appended'));
end;
$$;
select is(ff_tap.stream_after(c.number, c.statement), c.effect, c.description)
from (values
    (11, 'select flowfabric.ff_complete_execution(%1$L, %2$L, %3$L, %4$L)', 'attempt_success, stream_closed',
     'completion closes the stream'),
    (12, 'select flowfabric.ff_fail_execution(%1$L, %2$L, %3$L, %4$L)', 'attempt_failure, stream_closed',
     'failure with a retry closes it'),
    (13, 'select flowfabric.ff_fail_execution(%1$L, %2$L, %3$L, %4$L, p_retry_policy => ''{"max_retries": 0}'')',
     'attempt_failure, stream_closed', 'failure for good closes it'),
    (14, 'select flowfabric.ff_cancel_execution(%1$L, ''tap'', ''operator_override'')',
     'attempt_cancelled, stream_closed', 'cancellation closes it'),
    (15, 'select flowfabric.ff_expire_execution(%1$L, ''execution_deadline'')', 'expired, stream_closed',
     'expiry closes it'),
    (16, 'select flowfabric.ff_revoke_lease(%1$L)', 'open, stale_owner_cannot_append',
     'revocation keeps the owner out and leaves the stream to whoever reclaims'),
    (17, 'select flowfabric.ff_delay_execution(%1$L, 99999, %2$L, %3$L, %4$L)', 'open, stream_closed',
     'a delay leaves it open and nobody to write'),
    (18, 'select flowfabric.ff_move_to_waiting_children(%1$L, %2$L, %3$L, %4$L)', 'open, stream_closed',
     'waiting for children leaves it open and nobody to write')
) as c (number, statement, effect, description);
select ff_tap.suspended_execution(ff_tap.id(19));
select throws_ok(
    format('select ff_tap.append(%L)', ff_tap.id(19)), 'ZS015', 'stream_closed', 'what is suspended does not write');

-- A closed stream of an execution that is active: nothing of the engine makes one, and it stays closed
select ff_tap.leased_execution(ff_tap.id(20));
select ff_tap.append(ff_tap.id(20));
select flowfabric._ff_close_stream(86::smallint, right(ff_tap.id(20), 36)::uuid, 0, 'attempt_cancelled', false, 5000);
select is(
    ff_tap.error_of(format('select ff_tap.append(%L)', ff_tap.id(20))),
    jsonb_build_object(
        'code', 'stream_closed', 'fn', 'ff_append_frame', 'execution_id', ff_tap.id(20), 'attempt_index', 0,
        'closed_reason', 'attempt_cancelled'),
    'a closed stream says why it was closed');
select throws_ok(
    format($$ select ff_tap.append(%L, 'no json', 'summary') $$, ff_tap.id(20)), 'ZS015', 'stream_closed',
    'the end of the stream comes before the patch');

-- The next attempt has a stream of its own
select flowfabric.ff_revoke_lease(:'execution');
select flowfabric.ff_issue_reclaim_grant(
    :'execution', p_worker_id => 'worker', p_worker_instance_id => 'worker-2', p_lane_id => 'default');
select flowfabric.ff_reclaim_execution(
    :'execution', p_worker_id => 'worker', p_worker_instance_id => 'worker-2',
    p_lease_id => '00000000-0000-4000-8000-00000000002e', p_attempt_id => '00000000-0000-4000-8000-0000000000b7');
select is((ff_tap.meta(:'execution')).closed_reason, 'reclaimed', 'a reclaim closes the stream of the old attempt');
select results_eq(
    format(
        $$ select r.frame_count from flowfabric.ff_append_frame(
            %L, 1, '00000000-0000-4000-8000-00000000002e', 2, '00000000-0000-4000-8000-0000000000b7', 'stdout') as r $$,
        :'execution'),
    'values (1::bigint)', 'the new attempt begins its own');
select throws_ok(
    ff_tap.call('{}'), 'ZS016', 'stale_owner_cannot_append', 'and the old owner can write to neither');

-- Length: durable
select ff_tap.freeze_time(10000);
select ff_tap.leased_execution(ff_tap.id(30));
select ff_tap.append(ff_tap.id(30), p_maxlen => 3) from generate_series(1, 5);
select is(
    (select array_agg(f.seq order by f.ts_ms, f.seq) from ff_tap.frames(ff_tap.id(30)) as f), array[2, 3, 4],
    'a limit that is given is kept exactly');
select is(
    (select row(m.frame_count, m.retained_count, m.retention_maxlen, m.total_bytes)
     from ff_tap.meta(ff_tap.id(30)) as m),
    row(5::bigint, 3::bigint, 3, 5::bigint), 'the counts of a stream go on over frames that are gone');
select ff_tap.append(ff_tap.id(30), p_maxlen => 1);
select is((select count(*) from ff_tap.frames(ff_tap.id(30))), 1::bigint, 'the limit of each append holds');
select is((ff_tap.meta(ff_tap.id(30))).retention_maxlen, 3, 'and the stream remembers the first one');
insert into flowfabric.ff_stream_frame (
    partition_key, execution_id, attempt_index, ts_ms, seq, frame_type, frame_ts_ms, payload, encoding, source, mode)
select 86, right(ff_tap.id(30), 36)::uuid, 0, 1, i, 'x', 1, '', 'utf8', 'worker', 'durable'
from generate_series(1, 10098) as i;
update flowfabric.ff_stream_meta as m set retained_count = 10099 where m.execution_id = right(ff_tap.id(30), 36)::uuid;
select ff_tap.append(ff_tap.id(30));
select is(
    (select count(*) from ff_tap.frames(ff_tap.id(30))), 10100::bigint,
    'the default limit is exceeded by up to 100 frames before it is enforced');
select ff_tap.append(ff_tap.id(30));
select is(
    (select row(count(*), min(f.seq) filter (where f.ts_ms = 1)) from ff_tap.frames(ff_tap.id(30)) as f),
    row(10000::bigint, 102), 'and then the oldest go, down to 10000');
select is((ff_tap.meta(ff_tap.id(30))).retained_count, 10000::bigint, 'which the stream counts');

-- Length: summary
select ff_tap.leased_execution(ff_tap.id(31));
select ff_tap.append(ff_tap.id(31), '{}', 'summary') from generate_series(1, 164);
select is((select count(*) from ff_tap.frames(ff_tap.id(31))), 164::bigint, 'of summary frames 64 are kept, and 100 more');
select ff_tap.append(ff_tap.id(31), '{}', 'summary');
select is((select count(*) from ff_tap.frames(ff_tap.id(31))), 64::bigint, 'before they are trimmed');

-- Summary
select ff_tap.leased_execution(ff_tap.id(32));
select is(
    ff_tap.append(ff_tap.id(32), '{"a": {"b": 1, "c": 2}, "d": [1, {"e": null}]}', 'summary'),
    row('10000-0', 1, 1)::flowfabric.ff_appended_frame, 'the first patch makes version 1');
select ff_tap.freeze_time(10010);
select is(
    ff_tap.append(ff_tap.id(32), '{"a": {"b": null, "f": "__ff_null__"}, "d": 4}', 'summary'),
    row('10010-0', 2, 2)::flowfabric.ff_appended_frame, 'the second makes version 2');
select ff_tap.append(ff_tap.id(32), 'plain');
select is(
    ff_tap.append(ff_tap.id(32), '{}', 'summary'), row('10010-2', 4, 3)::flowfabric.ff_appended_frame,
    'frames of other modes come in between and make no version');
select results_eq(
    format($$ select r.* from flowfabric.ff_read_summary(%L, 0) as r $$, ff_tap.id(32)),
    $$ values ('{"a": {"c": 2, "f": null}, "d": 4}'::jsonb, 3::bigint, 'json-merge-patch', 10010::bigint,
               10000::bigint) $$,
    'patches are merged: null deletes, the sentinel stores null, objects merge and the rest replaces');
select is(
    (select array_agg(row(f.mode, f.summary_version)::text) from ff_tap.frames(ff_tap.id(32)) as f),
    array['(summary,1)', '(summary,2)', '(durable,)', '(summary,3)'],
    'the patches themselves are frames that name their version');
select is(
    (select f.payload from ff_tap.frames(ff_tap.id(32)) as f offset 1 limit 1),
    '{"a": {"b": null, "f": "__ff_null__"}, "d": 4}'::bytea, 'byte for byte');
select ff_tap.append(ff_tap.id(32), p_maxlen => 1);
select is(
    (select s.version from flowfabric.ff_read_summary(ff_tap.id(32), 0) as s), 3::bigint,
    'the document survives the frames that made it');

select ff_tap.rows_of_streams() as rows_before \gset
select is(
    ff_tap.error_of(format('select ff_tap.append(%L, %L, %L)', ff_tap.id(32), c.payload, 'summary'))
    - array['code', 'fn', 'value'],
    jsonb_build_object('field', 'payload', 'reason', c.reason), c.description)
from (values
    ('{"a": '::bytea, 'patch payload is not valid JSON', 'a patch that is cut off is refused'),
    ('', 'patch payload is not valid JSON', 'an empty patch is refused'),
    ('\xff', 'patch payload is not valid JSON', 'bytes that are not UTF-8 are refused'),
    ('{"a": "\\u0000"}', 'patch payload is not valid JSON', 'a text that cannot be stored is refused'),
    (convert_to(repeat('[', 60000), 'UTF8'), 'patch payload is not valid JSON', 'endless nesting is refused'),
    ('{"a": 1e999999999}', 'patch payload is not valid JSON', 'a number beyond all bounds is refused'),
    ('[]', 'patch must be a JSON object', 'an array is no patch'),
    ('"x"', 'patch must be a JSON object', 'a text is no patch'),
    ('null', 'patch must be a JSON object', 'null is no patch'),
    (convert_to(repeat('{"a":', 17) || '{}' || repeat('}', 17), 'UTF8'), 'patch_depth_exceeded',
     'objects 17 deep inside the root are too deep')
) as c (payload, reason, description);
select is(
    ff_tap.error_of(format(
        $$ select flowfabric.ff_append_frame(
            %L, 0, ff_tap.lease_id(), 1, ff_tap.attempt_id(), 's', 'no json', p_stream_mode => 'summary',
            p_patch_kind => 'json-patch') $$, ff_tap.id(32))) - 'fn',
    '{"code": "invalid_input", "field": "patch_kind", "reason": "unsupported patch_kind", "value": "json-patch"}',
    'another kind of patch is refused before the payload is looked at');
select is(ff_tap.rows_of_streams(), :'rows_before', 'a refused patch changes neither document nor stream');
select lives_ok(
    format(
        'select ff_tap.append(%L, %L, %L)', ff_tap.id(32),
        convert_to(repeat('{"a":', 16) || '{}' || repeat('}', 16), 'UTF8'), 'summary'),
    'objects 16 deep inside the root are not too deep');
select lives_ok(
    format(
        $$ select flowfabric.ff_append_frame(
            %L, 0, ff_tap.lease_id(), 1, ff_tap.attempt_id(), 's', p_patch_kind => 'json-patch') $$, ff_tap.id(32)),
    'outside summary mode the kind of patch means nothing');
select ff_tap.leased_execution(ff_tap.id(33));
select throws_ok(
    format($$ select ff_tap.append(%L, '[]', 'summary') $$, ff_tap.id(33)), 'ZV001', 'invalid_input',
    'a first patch can be refused');
select is(
    (select count(*) from flowfabric.ff_stream_meta as m where m.execution_id = right(ff_tap.id(33), 36)::uuid),
    0::bigint, 'and then leaves no stream');

-- Best effort: the life of the stream
select ff_tap.freeze_time(20000);
select ff_tap.leased_execution(ff_tap.id(40));
select ff_tap.append(ff_tap.id(40), p_mode => 'best_effort', p_ttl_ms => 1000);
select is(
    (select row(m.expires_at_ms, m.has_durable_frame) from ff_tap.meta(ff_tap.id(40)) as m),
    row(22000::bigint, false), 'a stream of best-effort frames lapses two lifetimes after the last');
select is((select f.ttl_ms from ff_tap.frames(ff_tap.id(40)) as f), 1000, 'a frame carries its lifetime');
select ff_tap.freeze_time(20500);
select ff_tap.append(ff_tap.id(40), p_mode => 'best_effort', p_ttl_ms => 0);
select is((ff_tap.meta(ff_tap.id(40))).expires_at_ms, 22000::bigint, 'a frame without a lifetime does not change that');
select ff_tap.freeze_time(21999);
select ff_tap.append(ff_tap.id(40), p_mode => 'best_effort', p_ttl_ms => 500);
select is(
    (select row(m.expires_at_ms, m.retained_count) from ff_tap.meta(ff_tap.id(40)) as m),
    row(22999::bigint, 3::bigint), 'each one with a lifetime sets it anew');
select ff_tap.freeze_time(22999);
select is(
    ff_tap.append(ff_tap.id(40), 'fresh', 'best_effort', 0), row('22999-0', 4, null)::flowfabric.ff_appended_frame,
    'the stream goes on after it has lapsed');
select is(
    (select row(m.expires_at_ms, m.retained_count, m.frame_count) from ff_tap.meta(ff_tap.id(40)) as m),
    row(null::bigint, 1::bigint, 4::bigint), 'but what it held before is gone');
select is(
    (select array_agg(convert_from(f.payload, 'UTF8')) from ff_tap.frames(ff_tap.id(40)) as f), array['fresh'],
    'from the table too');
select ff_tap.append(ff_tap.id(40), p_mode => 'best_effort', p_ttl_ms => 2147483647);
select is(
    (ff_tap.meta(ff_tap.id(40))).expires_at_ms, 22999 + 2 * 2147483647::bigint, 'the longest lifetime is possible');
select ff_tap.append(ff_tap.id(40));
select is(
    (select row(m.expires_at_ms, m.has_durable_frame) from ff_tap.meta(ff_tap.id(40)) as m),
    row(null::bigint, true), 'a durable frame makes the stream last');
select ff_tap.append(ff_tap.id(40), p_mode => 'best_effort', p_ttl_ms => 1000);
select is((ff_tap.meta(ff_tap.id(40))).expires_at_ms, null, 'and best-effort frames after it do not change that');
select ff_tap.leased_execution(ff_tap.id(41));
select ff_tap.append(ff_tap.id(41), p_mode => 'best_effort', p_ttl_ms => 1000);
select ff_tap.append(ff_tap.id(41), '{}', 'summary');
select is((ff_tap.meta(ff_tap.id(41))).expires_at_ms, null, 'a summary frame makes it last as well');

-- Best effort: how many are kept
select ff_tap.leased_execution(ff_tap.id(42));
select ff_tap.append(ff_tap.id(42), p_mode => 'best_effort', p_ttl_ms => 1000);
select is(
    (select row(m.ema_rate_hz, m.last_append_ts_ms, m.maxlen_applied_last) from ff_tap.meta(ff_tap.id(42)) as m),
    row(32::double precision, 22999::bigint, 64), 'the first frame starts at the rate that the floor stands for');
select ff_tap.freeze_time(23009);
select ff_tap.append(ff_tap.id(42), p_mode => 'best_effort', p_ttl_ms => 1000);
select is(
    (select row(round(m.ema_rate_hz::numeric, 6), m.last_append_ts_ms, m.maxlen_applied_last)
     from ff_tap.meta(ff_tap.id(42)) as m),
    row(45.6::numeric(10, 6), 23009::bigint, 92), 'the rate follows the pace and the length follows the rate');
select ff_tap.append(ff_tap.id(42), p_mode => 'best_effort', p_ttl_ms => 1000, p_alpha => 1);
select is(
    (select row(m.ema_rate_hz, m.maxlen_applied_last) from ff_tap.meta(ff_tap.id(42)) as m),
    row(1000::double precision, 2000), 'frames of one millisecond count as 1000 Hz');
select ff_tap.append(ff_tap.id(42), p_mode => 'best_effort', p_ttl_ms => 1000, p_ceiling => 256);
select is((ff_tap.meta(ff_tap.id(42))).maxlen_applied_last, 256, 'the ceiling holds exactly');
select ff_tap.append(ff_tap.id(42));
select is((ff_tap.meta(ff_tap.id(42))).maxlen_applied_last, 256, 'only best-effort frames touch the estimate');
select ff_tap.freeze_time(25009);
select ff_tap.append(ff_tap.id(42), p_mode => 'best_effort', p_ttl_ms => 1000);
select is(
    (ff_tap.meta(ff_tap.id(42))).ema_rate_hz, 0.8 * 1000 + 0.2 * 0.5::double precision, 'after a pause the rate is lower');
select ff_tap.append(
    ff_tap.id(42), p_mode => 'best_effort', p_ttl_ms => 2147483647, p_floor => -1, p_ceiling => 0,
    p_alpha => 'NaN');
select is(
    (ff_tap.meta(ff_tap.id(42))).maxlen_applied_last, 16384, 'parameters beyond their range fall back to the defaults');
select ff_tap.append(ff_tap.id(42), p_mode => 'best_effort', p_ttl_ms => 1, p_floor => 70, p_ceiling => 10);
select is((ff_tap.meta(ff_tap.id(42))).maxlen_applied_last, 70, 'a ceiling below the floor means the floor');
select ff_tap.leased_execution(ff_tap.id(43));
select ff_tap.append(ff_tap.id(43), p_mode => 'best_effort', p_ttl_ms => 1, p_ceiling => 64)
from generate_series(1, 164);
select is((select count(*) from ff_tap.frames(ff_tap.id(43))), 164::bigint, 'best-effort frames are trimmed');
select ff_tap.append(ff_tap.id(43), p_mode => 'best_effort', p_ttl_ms => 1, p_ceiling => 64);
select is((select count(*) from ff_tap.frames(ff_tap.id(43))), 64::bigint, 'when there are 100 too many');

-- Plans
select ff_tap.leased_execution(ff_tap.id(100 + i)) from generate_series(1, 50) as i;
select ff_tap.append(ff_tap.id(100 + i)) from generate_series(1, 50) as i;
select is(
    ff_tap.sequential_scans(format('select ff_tap.append(%L)', ff_tap.id(101))), 0::bigint,
    'no append reads a table from end to end');

select * from finish();
rollback;
