-- An operator forgets a consumer, and leaves a trace of it.
begin;
\ir helpers.sql
select plan(10);

prepare forget as select c.outcome from flowfabric.ff_delete_event_cursor('billing', 'completion', 'retired') as c;
select ff_tap.freeze_time(1000);
select results_eq('execute forget', $$values ('not_stored')$$, 'there is nothing to forget');
select is_empty('select v.event_id from flowfabric.ff_operator_event as v', 'and nothing is written');
select flowfabric.ff_commit_event_cursor('billing', 'completion', 'v1:1:100:7');
select flowfabric.ff_commit_event_cursor('billing', 'lease', 'v1:1:100:7');
select results_eq('execute forget', $$values ('deleted')$$, 'a consumer is forgotten');
select results_eq(
    'select c.stream collate "default" from flowfabric.ff_event_consumer as c', $$values ('lease')$$,
    'in one stream');
select results_eq(
    'select v.event_type, v.occurred_at_ms, v.details from flowfabric.ff_operator_event as v',
    $$select 'event_cursor_deleted', 1000::bigint, jsonb_build_object(
          'consumer', 'billing', 'stream', 'completion', 'owner', session_user, 'previous_cursor', 'v1:1:100:7',
          'reason', 'retired', 'login', session_user)$$,
    'an operator event says who forgot what and why');
select results_eq('execute forget', $$values ('not_stored')$$, 'a repeat finds nothing');

select is(
    ff_tap.error_of($$select flowfabric.ff_delete_event_cursor('', 'x')$$) ->> 'field', 'consumer', 'a consumer has a name');
select is(
    ff_tap.error_of($$select flowfabric.ff_delete_event_cursor('a', null)$$) ->> 'field', 'stream',
    'of a stream that there is');
select throws_ok(
    $$select ff_tap.as_role('flowfabric_reader', $q$select flowfabric.ff_delete_event_cursor('billing', 'lease')$q$)$$,
    '42501', null, 'a reader may not');
select lives_ok(
    $$select ff_tap.as_role('flowfabric_operator', $q$select flowfabric.ff_delete_event_cursor('billing', 'lease')$q$)$$,
    'an operator may');

select * from finish();
rollback;
