-- The cursor of a consumer: stored, and never moved back.
begin;
\ir helpers.sql
select plan(20);

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

select * from finish();
rollback;
