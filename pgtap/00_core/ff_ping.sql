-- The cheapest round trip.
begin;
\ir ../helpers.sql
select plan(2);

select ff_tap.freeze_time(1700000000000);
select is(flowfabric.ff_ping(), 1700000000000::bigint, 'the answer is the time of the engine');
set local role flowfabric_signaller;
select flowfabric.ff_ping() as answer \gset
reset role;
select is(:answer::bigint, 1700000000000::bigint, 'the role with the fewest rights gets it too');

select * from finish();
rollback;
