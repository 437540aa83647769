-- Reading frames: ranges, tailing, what is visible, and how a reader learns of the end.
begin;
\ir ../helpers.sql
select plan(57);

\set execution '{fp:86}:00000000-0000-4000-8000-000000000001'

create function ff_tap.append(p_payload text, p_mode text default 'durable', p_ttl_ms integer default 0)
returns text
language sql volatile
as $$
    select r.entry_id
    from flowfabric.ff_append_frame(
        '{fp:86}:00000000-0000-4000-8000-000000000001', 0, ff_tap.lease_id(), 1, ff_tap.attempt_id(), 'stdout',
        convert_to(p_payload, 'UTF8'), p_stream_mode => p_mode, p_ttl_ms => p_ttl_ms) as r
$$;
create function ff_tap.read(
    p_from text default 'start',
    p_to text default 'end',
    p_after text default null,
    p_count_limit integer default 1000,
    p_visibility text default 'all'
)
returns text
language sql volatile
as $$
    select string_agg(coalesce(convert_from(r.payload, 'UTF8'), '-'), ' ')
    from flowfabric.ff_read_attempt_stream(
        '{fp:86}:00000000-0000-4000-8000-000000000001', 0, p_from, p_to, p_after, p_count_limit, p_visibility) as r
$$;

-- Before the first frame
select ff_tap.freeze_time(1000);
select results_eq(
    format($$ select r.entry_id, r.payload, r.closed_at_ms, r.closed_reason
              from flowfabric.ff_read_attempt_stream(%L, 0) as r $$, :'execution'),
    'values (null::text, null::bytea, null::bigint, null::text)',
    'an execution that nobody knows has an empty, open stream: one row without a frame');
select ff_tap.leased_execution(:'execution', p_lease_expires_at_ms => 100000);
select is(ff_tap.read(), '-', 'so has an attempt that has not written yet');

-- Ranges
select ff_tap.append('a');
select ff_tap.append('b');
select ff_tap.freeze_time(2000);
select ff_tap.append('{"c": 1}', 'summary');
select ff_tap.freeze_time(3000);
select ff_tap.append('d', 'best_effort', 5000);
select ff_tap.append('e', 'best_effort');
select results_eq(
    format($$ select r.* from flowfabric.ff_read_attempt_stream(%L, 0) as r $$, :'execution'),
    $$ values
        ('1000-0', 'stdout', 1000::bigint, 'a'::bytea, 'utf8', 'worker', 'durable', null::text, null::bigint,
         null::integer, null::bigint, null::text),
        ('1000-1', 'stdout', 1000, 'b', 'utf8', 'worker', 'durable', null, null, null, null, null),
        ('2000-0', 'stdout', 2000, '{"c": 1}', 'utf8', 'worker', 'summary', null, 1, null, null, null),
        ('3000-0', 'stdout', 3000, 'd', 'utf8', 'worker', 'best_effort', null, null, 5000, null, null),
        ('3000-1', 'stdout', 3000, 'e', 'utf8', 'worker', 'best_effort', null, null, null, null, null) $$,
    'a full read gives every frame in id order with everything that was stored');
select is(ff_tap.read(p_from => c.low, p_to => c.high), c.found, c.description)
from (values
    ('1000', '1000', 'a b', 'a bare millisecond means all of its frames at either end'),
    ('1000-1', '2000', 'b {"c": 1}', 'both ends belong to the range'),
    ('1000-1', '1000-1', 'b', 'a range can be one frame'),
    ('1001', 'end', '{"c": 1} d e', 'an id need not exist'),
    ('start', '2000-0', 'a b {"c": 1}', 'start and end name the ends'),
    ('end', 'end', '-', 'nothing is at the end'),
    ('2000', '1000', '-', 'a range that is turned round is empty'),
    ('0', '18446744073709551615-18446744073709551615', 'a b {"c": 1} d e', 'numbers beyond every frame are bounds too'),
    ('00000000000000001000-1', '1000-1', 'b', 'leading zeros mean nothing')
) as c (low, high, found, description);
select is(ff_tap.read(p_from => null, p_to => null), 'a b {"c": 1} d e', 'NULL means the default');
select is(
    (select r.entry_id from flowfabric.ff_read_attempt_stream(:'execution', 0, 'end') as r), null,
    'an empty range answers with one row without a frame');

-- Tailing
select is(ff_tap.read(p_after => c.after), c.found, c.description)
from (values
    ('0-0', 'a b {"c": 1} d e', '0-0 is before the first'),
    ('1000-0', 'b {"c": 1} d e', 'the frame itself is not given again'),
    ('1000', 'b {"c": 1} d e', 'a bare millisecond means its first frame'),
    ('3000-1', '-', 'behind the last there is nothing yet')
) as c (after, found, description);
select is(ff_tap.read(p_after => '1000-1', p_to => '2000'), '{"c": 1}', 'a tail can have an end');
select ff_tap.append('f');
select is(ff_tap.read(p_after => '3000-1'), 'f', 'the next frame is behind the last');

-- Limits and modes
select is(ff_tap.read(p_count_limit => 2), 'a b', 'a page has so many frames at the most');
select is(ff_tap.read(p_count_limit => 1, p_after => '1000-0'), 'b', 'the next page begins behind it');
select is(
    ff_tap.read(p_visibility => 'exclude_best_effort'), 'a b {"c": 1} f', 'best-effort frames can be left out');
select is(
    ff_tap.read(p_visibility => 'exclude_best_effort', p_after => '1000-1', p_count_limit => 2), '{"c": 1} f',
    'which is done before counting, so that a short page is the last');
select lives_ok('select ff_tap.read(p_count_limit => 10000)', '10000 frames may be asked for');

-- The end
select flowfabric.ff_complete_execution(:'execution', ff_tap.lease_id(), 1, ff_tap.attempt_id());
select results_eq(
    format($$ select distinct r.closed_at_ms, r.closed_reason from flowfabric.ff_read_attempt_stream(%L, 0) as r $$,
           :'execution'),
    $$ values (3000::bigint, 'attempt_success') $$, 'after the end every frame carries it');
select results_eq(
    format($$ select r.entry_id, r.closed_at_ms, r.closed_reason
              from flowfabric.ff_read_attempt_stream(%L, 0, p_after => '3000-2') as r $$, :'execution'),
    $$ values (null::text, 3000::bigint, 'attempt_success') $$,
    'a tail that has seen everything gets the end alone');
select is(
    (select r.closed_reason from flowfabric.ff_read_attempt_stream(:'execution', 1) as r), null,
    'another attempt has another stream');

-- A stream that has lapsed
\set execution '{fp:86}:00000000-0000-4000-8000-000000000002'
select ff_tap.leased_execution(:'execution', p_lease_expires_at_ms => 100000);
prepare lapsing as
select array_agg(r.entry_id) from flowfabric.ff_read_attempt_stream('{fp:86}:00000000-0000-4000-8000-000000000002', 0) as r;
select flowfabric.ff_append_frame(
    :'execution', 0, ff_tap.lease_id(), 1, ff_tap.attempt_id(), 'stdout', p_stream_mode => 'best_effort',
    p_ttl_ms => 500);
select ff_tap.freeze_time(3999);
select results_eq('execute lapsing', $$ values (array['3000-0']) $$, 'best-effort frames are seen for two lifetimes');
select ff_tap.freeze_time(4000);
select results_eq('execute lapsing', $$ values (array[null::text]) $$, 'and not at the instant after');
select is(
    (select count(*) from flowfabric.ff_stream_frame as f where f.execution_id = right(:'execution', 36)::uuid),
    1::bigint, 'even before they are deleted');

-- Refusals
select is(
    ff_tap.error_of(format('select ff_tap.read(p_count_limit => %L)', c.given))
    - array['fn', 'value'],
    jsonb_build_object('code', 'invalid_input', 'field', 'count_limit', 'reason', c.reason), c.description)
from (values
    ('0', 'count_limit must be >= 1', 'a limit of 0 is refused'),
    ('-1', 'count_limit must be >= 1', 'a negative limit is refused'),
    (null, 'count_limit must be >= 1', 'a limit is required'),
    ('10001', 'count_limit_exceeds_hard_cap', 'more than 10000 are refused rather than cut')
) as c (given, reason, description);
select throws_ok(
    format('select ff_tap.read(p_from => %L)', c.given), 'ZV016', 'invalid_offset',
    format('%L is no place in a stream', c.given))
from unnest(array['', '-', '+', '1-', '-1', '1-2-3', 'begin', ' 1', '1.5', repeat('9', 21)]) as c (given);
select throws_ok(
    format('select ff_tap.read(p_to => %L)', repeat('9', 200000)), 'ZV016', 'invalid_offset',
    'nor are digits without end');
select is(
    length(ff_tap.error_of(format('select ff_tap.read(p_to => %L)', repeat('9', 200000))) ->> 'offset'), 200,
    'of which the refusal shows the beginning');
select is(
    ff_tap.error_of($$ select ff_tap.read(p_to => 'START') $$),
    '{"code": "invalid_offset", "fn": "ff_read_attempt_stream", "offset": "START"}', 'a place is spelt in lower case');
select throws_ok(
    format('select ff_tap.read(p_after => %L)', c.given), 'ZV016', 'invalid_offset',
    format('%s is no frame to go on from', c.given))
from unnest(array['start', 'end', '+']) as c (given);
select is(
    ff_tap.error_of($$ select ff_tap.read(p_after => '0-0', p_from => '1') $$) - 'fn',
    '{"code": "invalid_input", "field": "from", "reason": "not_beside_after", "value": "1"}',
    'two lower bounds are one too many');
select is(
    ff_tap.error_of($$ select ff_tap.read(p_visibility => 'none') $$) - 'fn',
    '{"code": "invalid_input", "field": "visibility", "reason": "unknown", "value": "none"}',
    'an unknown visibility is refused');
select is(
    ff_tap.error_of($$ select ff_tap.read(p_count_limit => 0, p_from => '+', p_visibility => 'x') $$) ->> 'field',
    'count_limit', 'the limit comes first');
select is(
    ff_tap.error_of($$ select ff_tap.read(p_from => '+', p_visibility => 'x') $$) ->> 'code', 'invalid_offset',
    'then the place');
select is(
    ff_tap.error_of('select flowfabric.ff_read_attempt_stream(''x'', 0)') ->> 'field', 'execution_id',
    'a malformed id is refused');
select is(
    ff_tap.error_of(format('select flowfabric.ff_read_attempt_stream(%L, -1)', :'execution')) ->> 'field',
    'attempt_index', 'an attempt index is not negative');

select * from finish();
rollback;
