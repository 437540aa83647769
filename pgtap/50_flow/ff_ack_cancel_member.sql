-- Taking a member out of the cancel backlog because somebody else has dealt with it.
begin;
\ir helpers.sql
select plan(15);

prepare ack (integer) as select a.* from flowfabric.ff_ack_cancel_member(ff_tap.flow_id(), ff_tap.m($1)) as a;

select ff_tap.freeze_time(1000);
select ff_tap.flow(3);
select flowfabric.ff_cancel_flow(ff_tap.flow_id(), 'stop', 'cancel_all', p_sync_limit => 1);
select results_eq('execute ack(1)', $$values ('not_pending', 2)$$,
    'a member that was cancelled at once is not pending');
select to_jsonb(ff_tap.core(ff_tap.m(2))) as member \gset
select results_eq('execute ack(2)', $$values ('acked', 1)$$, 'a pending one is taken out');
select is(ff_tap.backlog(), '{3}', 'the other one stays');
select is((select count(*) from flowfabric.ff_cancel_backlog), 1::bigint, 'and with it the backlog');
select is(to_jsonb(ff_tap.core(ff_tap.m(2))), :'member'::jsonb, 'the execution is not touched');
select results_eq('execute ack(2)', $$values ('not_pending', 1)$$, 'the repeat finds nothing');
select results_eq('execute ack(3)', $$values ('acked', 0)$$, 'the last one is taken out');
select is_empty('select from flowfabric.ff_cancel_backlog', 'and the backlog with it');
select is((select count(*) from flowfabric.ff_operator_event), 1::bigint,
    'no event tells of it: there is only the cancel''s');
select results_eq('execute ack(404)', $$values ('not_pending', 0)$$, 'an unknown member is not pending');
select is(
    flowfabric.ff_ack_cancel_member(gen_random_uuid(), ff_tap.m(1)),
    row('not_pending', 0)::flowfabric.ff_cancel_acknowledgement, 'nor is one of an unknown flow');
select is(
    flowfabric.ff_ack_cancel_member(ff_tap.flow_id(), '{fp:7}:00000000-0000-4000-8000-000000000001'),
    row('not_pending', 0)::flowfabric.ff_cancel_acknowledgement, 'nor one of another partition');
select throws_ok(
    format('select flowfabric.ff_ack_cancel_member(%L, %L)', ff_tap.flow_id(), 'one'), 'ZV001', 'invalid_input',
    'a text that is no id is refused');
select throws_ok(
    format('select flowfabric.ff_ack_cancel_member(%L, null)', ff_tap.flow_id()), 'ZV001', 'invalid_input',
    'a member is required');
select throws_ok(
    format('select flowfabric.ff_ack_cancel_member(null, %L)', ff_tap.m(1)), 'ZV001', 'invalid_input',
    'a flow is required');

select * from finish();
rollback;
