-- The cursor of a consumer: stored, never moved back, and moved by its owner only.
begin;
\ir helpers.sql
select plan(36);

prepare commit_cursor (text) as
select c.outcome from flowfabric.ff_commit_event_cursor('billing', 'completion', $1) as c;
prepare stored as
select c.cursor, c.updated_at_ms from flowfabric.ff_event_consumer as c where c.stream = 'completion';

select ff_tap.freeze_time(1000);
select results_eq('execute commit_cursor(''v1:1:100:7'')', $$ values ('stored') $$, 'a first position is stored');
select results_eq('execute stored', $$ values ('v1:1:100:7', 1000::bigint) $$, 'with its time');
select ff_tap.freeze_time(2000);
select results_eq('execute commit_cursor(''v1:1:100:6'')', $$ values ('ignored_older') $$, 'an older event is ignored');
select results_eq(
    'execute commit_cursor(''v1:1:99:9'')', $$ values ('ignored_older') $$,
    'so is an older transaction, which is a matter of numbers and not of text');
select results_eq('execute commit_cursor(''v1:0:200:9'')', $$ values ('ignored_older') $$, 'and an older epoch');
select results_eq('execute stored', $$ values ('v1:1:100:7', 1000::bigint) $$, 'none of them changes anything');
select results_eq(
    'execute commit_cursor(''v1:1:100:7'')', $$ values ('stored') $$, 'the same position may be stored again');
select results_eq('execute stored', $$ values ('v1:1:100:7', 2000::bigint) $$, 'and shows that the consumer lives');
select results_eq('execute commit_cursor(''v1:1:1000:0'')', $$ values ('stored') $$, 'a later transaction is stored');
update flowfabric.ff_partition_config as c set event_epoch = 2;
select results_eq('execute commit_cursor(''v1:2:0:0'')', $$ values ('stored') $$, 'so is a later epoch');
select results_eq(
    'execute commit_cursor(''v1:02:010:0'')', $$ values ('stored') $$, 'a cursor can be spelt with zeros');
select results_eq('execute stored', $$ values ('v1:2:10:0', 2000::bigint) $$, 'and is kept without them');
select results_eq(
    $$ select c.outcome from flowfabric.ff_commit_event_cursor('billing', 'lease', 'v1:1:1:1') as c
       union all
       select c.outcome from flowfabric.ff_commit_event_cursor('audit', 'completion', 'v1:1:1:1') as c $$,
    $$ values ('stored'), ('stored') $$, 'each consumer has its own position in each stream');
select is((select count(*) from flowfabric.ff_event_consumer), 3::bigint, 'which are three by now');

select is(
    ff_tap.error_of($$ select flowfabric.ff_commit_event_cursor('', 'x', 'x') $$) - 'value',
    '{"code": "invalid_input", "fn": "ff_commit_event_cursor", "field": "consumer", "reason": "empty"}',
    'a consumer has a name');
select is(
    ff_tap.error_of($$ select flowfabric.ff_commit_event_cursor('a b', 'x', 'x') $$) ->> 'reason', 'space_or_control',
    'without spaces');
select is(
    ff_tap.error_of($$ select flowfabric.ff_commit_event_cursor('a', 'x', 'x') $$) ->> 'field', 'stream',
    'an unknown stream is refused');
select throws_ok('execute commit_cursor(''x'')', 'ZV016', 'invalid_offset', 'a malformed cursor is refused');
select throws_ok('execute commit_cursor(null)', 'ZV016', 'invalid_offset', 'and so is none');
select throws_ok(
    $$ do $do$
    begin
        perform set_config('transaction_read_only', 'on', true);
        perform flowfabric.ff_commit_event_cursor('billing', 'completion', 'v1:3:1:1');
    end;
    $do$ $$,
    'ZU005', 'read_only_server', 'a session that cannot write is told so');

-- The horizon
prepare reach (text) as
select c.outcome from flowfabric.ff_commit_event_cursor('reach', 'completion', $1) as c;
select ff_tap.horizon() as horizon \gset
select results_eq(
    format('execute reach(%L)', 'v1:2:' || :'horizon' || ':0'), $$ values ('stored') $$,
    'the position of a reader that has read everything is stored');
select throws_ok(
    format('execute reach(%L)', 'v1:2:' || :'horizon' || ':1'), 'ZV016', 'invalid_offset', 'one event further is refused');
select throws_ok(
    format('execute reach(%L)', 'v1:2:' || (:'horizon'::bigint + 1)::text || ':0'), 'ZV016', 'invalid_offset',
    'so is one transaction further');
select throws_ok('execute reach(''v1:3:0:0'')', 'ZV016', 'invalid_offset', 'and an epoch that has not begun');
select is(
    ff_tap.error_of('execute reach(''v1:32767:18446744073709551615:9223372036854775807'')'),
    '{"code": "invalid_offset", "fn": "ff_commit_event_cursor", "reason": "beyond_horizon",
      "offset": "v1:32767:18446744073709551615:9223372036854775807"}', 'which the refusal says');
select results_eq(
    'execute reach(''v1:1:18446744073709551615:9223372036854775807'')', $$ values ('ignored_older') $$,
    'an older epoch has ended, whatever its ids were');
select throws_ok(
    $$ select flowfabric.ff_commit_event_cursor('newcomer', 'lease', 'v1:3:0:0') $$, 'ZV016', 'invalid_offset',
    'a first position is not stored either');
select is_empty(
    $$ select c.cursor from flowfabric.ff_event_consumer as c where c.consumer_name = 'newcomer' $$, 'and leaves nothing');

-- The owner
create role ff_tap_team;
create role ff_tap_member in role ff_tap_team, flowfabric_reader;
create role ff_tap_other in role flowfabric_reader;
create role ff_tap_operator in role flowfabric_operator;
grant flowfabric_reader to ff_tap_team;
create function ff_tap.commit_as(p_role text, p_cursor text, p_consumer text default 'team')
returns text
language sql volatile
as $$
    select ff_tap.as_role(
        p_role, format('select flowfabric.ff_commit_event_cursor(%L, %L, %L)', p_consumer, 'completion', p_cursor))::text
$$;
select ff_tap.commit_as('ff_tap_team', 'v1:1:10:0');
select is(
    (select c.owner from flowfabric.ff_event_consumer as c where c.consumer_name = 'team') collate "default",
    'ff_tap_team', 'a cursor belongs to the role that stored it first, by SET ROLE');
select throws_ok(
    $$ select ff_tap.commit_as('ff_tap_other', 'v1:1:11:0') $$, 'ZV017', 'unauthorized', 'another reader may not move it');
select throws_ok(
    $$ select ff_tap.commit_as('ff_tap_other', 'v1:1:9:0') $$, 'ZV017', 'unauthorized', 'nor learn by an older one');
select throws_ok(
    $$ select ff_tap.commit_as('ff_tap_operator', 'v1:1:11:0') $$, 'ZV017', 'unauthorized', 'an operator has other means');
select is(
    ff_tap.error_of($$ select ff_tap.commit_as('ff_tap_other', 'v1:1:11:0') $$),
    '{"code": "unauthorized", "fn": "ff_commit_event_cursor", "op": "ff_commit_event_cursor", "consumer": "team",
      "stream": "completion", "owner": "ff_tap_team"}', 'the refusal names the owner');
select lives_ok($$ select ff_tap.commit_as('ff_tap_member', 'v1:1:12:0') $$, 'a member of the owner may');
select results_eq(
    $$ select c.cursor, c.owner collate "default" from flowfabric.ff_event_consumer as c
       where c.consumer_name = 'team' $$,
    $$ values ('v1:1:12:0', 'ff_tap_team') $$, 'and the owner stays');
update flowfabric.ff_event_consumer as c set owner = null where c.consumer_name = 'team';
select ff_tap.commit_as('ff_tap_other', 'v1:1:13:0');
select is(
    (select c.owner from flowfabric.ff_event_consumer as c where c.consumer_name = 'team') collate "default",
    'ff_tap_other', 'a row from before owners gets the role that stores next');

select * from finish();
rollback;
