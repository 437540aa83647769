-- Whether an execution could run as far as its dependencies go.
begin;
\ir helpers.sql
select plan(14);

create function ff_tap.eligibility(p_number integer)
returns text
language sql volatile
as $$ select (flowfabric.ff_evaluate_flow_eligibility(ff_tap.m(p_number))).status $$;

select ff_tap.execution(ff_tap.m(1));
select is(ff_tap.eligibility(1), 'eligible', 'without a flow it could');
select is(ff_tap.eligibility(404), 'not_found', 'an unknown execution is an answer');
select ff_tap.claim(1);
select is(ff_tap.eligibility(1), 'not_runnable', 'one that runs already could not');
select ff_tap.finish(1);
select is(ff_tap.eligibility(1), 'not_runnable', 'nor could one that has ended');

select ff_tap.flow(9, 11);
select is(ff_tap.eligibility(11), 'eligible', 'a member without dependencies could');
select ff_tap.join(14, 'any_of');
select is(ff_tap.eligibility(14), 'eligible', 'so could one whose join has no edge yet');
select ff_tap.connect('{11, 12}', 13);
select ff_tap.connect('{11, 12}', 14);
select is(ff_tap.eligibility(13), 'blocked_by_dependencies', 'one that waits for its upstreams could not');
select ff_tap.finish(11);
select is(ff_tap.eligibility(13), 'blocked_by_dependencies', 'as long as one of them is open');
select is(ff_tap.eligibility(14), 'eligible', 'an any_of is satisfied with the first');
select ff_tap.finish(12);
select is(ff_tap.eligibility(13), 'eligible', 'an all_of with the last');
select ff_tap.connect('{15}', 16);
select ff_tap.finish(15, 'failed');
select is(ff_tap.eligibility(16), 'not_runnable', 'a child that was skipped has ended');
select flowfabric._ff_become_blocked(
    ff_tap.core(ff_tap.m(16)), 'blocked_by_dependencies', 'waiting_for_children', null, 'pending_first_attempt', null,
    flowfabric.ff_now_ms());
select is(ff_tap.eligibility(16), 'impossible', 'had it not, its join would still be impossible');
select throws_ok(
    $$select flowfabric.ff_evaluate_flow_eligibility('x')$$, 'ZV001', 'invalid_input',
    'a text that is no id is refused');
select throws_ok(
    $$select flowfabric.ff_evaluate_flow_eligibility(null)$$, 'ZV001', 'invalid_input', 'so is NULL');

select * from finish();
rollback;
