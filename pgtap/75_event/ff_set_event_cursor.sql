-- An operator moves the position of a consumer, and leaves a trace of it.
begin;
\ir helpers.sql
select plan(21);

prepare set_cursor (text) as
select c.outcome from flowfabric.ff_set_event_cursor('billing', 'completion', $1, 'lost a week') as c;
create temporary view stored as
select c.cursor, c.updated_at_ms from flowfabric.ff_event_consumer as c;
create temporary view trace as
select v.event_type, v.partition_key, v.occurred_at_ms, v.details from flowfabric.ff_operator_event as v;

select ff_tap.freeze_time(1000);
select results_eq('execute set_cursor(''v1:1:5:0'')', $$values ('not_stored')$$, 'an unknown consumer has no position');
select is((select count(*) from stored), 0::bigint, 'and gets none');
select flowfabric.ff_commit_event_cursor('billing', 'completion', 'v1:1:100:7');
select ff_tap.freeze_time(2000);
select results_eq('execute set_cursor(''v1:1:100:7'')', $$values ('unchanged')$$, 'the same position changes nothing');
select is_empty('table trace', 'and leaves no trace');
select results_eq('execute set_cursor(''v1:01:5:3'')', $$values ('set')$$, 'a position can be moved back');
select results_eq('table stored', $$values ('v1:1:5:3', 2000::bigint)$$, 'and is stored');
select results_eq(
    'table trace',
    $$select 'event_cursor_set', 0::smallint, 2000::bigint, jsonb_build_object(
          'consumer', 'billing', 'stream', 'completion', 'owner', session_user, 'previous_cursor', 'v1:1:100:7',
          'cursor', 'v1:1:5:3', 'reason', 'lost a week', 'login', session_user)$$,
    'an operator event says who moved what, from where and why');
select results_eq('execute set_cursor(''v1:1:90:0'')', $$values ('set')$$, 'a position can be moved forward');
select results_eq('execute set_cursor(''v1:0:0:0'')', $$values ('set')$$, 'or to the start');
select results_eq(
    $$select c.outcome from flowfabric.ff_commit_event_cursor('billing', 'completion', 'v1:1:1:1') as c$$,
    $$values ('stored')$$, 'the consumer goes on from there');

-- Refusals
select is(
    ff_tap.error_of(format('execute set_cursor(%L)', 'v1:1:' || ff_tap.horizon() || ':1')) ->> 'reason',
    'beyond_horizon', 'a position that no reader has reached is refused');
select throws_ok('execute set_cursor(''x'')', 'ZV016', 'invalid_offset', 'and a malformed one');
select throws_ok('execute set_cursor(null)', 'ZV016', 'invalid_offset', 'and none');
update flowfabric.ff_event_stream as s
set pruned_epoch = 1, pruned_xact_id = '50', pruned_event_id = 2 where s.stream = 'completion';
select throws_ok(
    'execute set_cursor(''v1:1:50:1'')', 'ZS035', 'event_cursor_expired', 'and one whose events are partly pruned');
select is(
    ff_tap.error_of('execute set_cursor(''v1:1:50:1'')') - '{code,fn}'::text[],
    '{"stream": "completion", "cursor": "v1:1:50:1", "oldest_cursor": "v1:1:50:2"}', 'which says what is left');
select results_eq('execute set_cursor(''v1:1:50:2'')', $$values ('set')$$, 'the oldest that is left can be chosen');
select is(
    ff_tap.error_of($$select flowfabric.ff_set_event_cursor('a b', 'x', 'x')$$) ->> 'field', 'consumer',
    'a consumer has a name');
select is(
    ff_tap.error_of($$select flowfabric.ff_set_event_cursor('a', 'x', 'x')$$) ->> 'field', 'stream',
    'of a stream that there is');
select throws_ok(
    $$select ff_tap.as_role(
        'flowfabric_reader', $q$select flowfabric.ff_set_event_cursor('billing', 'completion', 'v1:0:0:0')$q$)$$,
    '42501', null, 'a reader may not');
select lives_ok(
    $$select ff_tap.as_role(
        'flowfabric_operator', $q$select flowfabric.ff_set_event_cursor('billing', 'completion', 'v1:1:60:0')$q$)$$,
    'an operator may');
select is(
    (select v.details ->> 'role' from flowfabric.ff_operator_event as v order by v.event_id desc limit 1),
    'flowfabric_operator', 'under its own name');

select * from finish();
rollback;
