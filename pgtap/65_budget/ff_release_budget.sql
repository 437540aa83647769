-- Giving back what an execution spent: its own ledger, of this period, and nothing else.
begin;
\ir ../helpers.sql
select plan(19);

select ff_tap.freeze_time(1000);
\set first '{fp:86}:00000000-0000-4000-8000-000000000001'
\set second '{fp:86}:00000000-0000-4000-8000-000000000002'
select flowfabric.ff_create_budget('b1', 'tenant', 'acme', '{tokens}', '{100}', '{5}');
select flowfabric.ff_create_budget('b2', 'tenant', 'acme');
create function ff_tap.spend(p_execution_id text, p_amount bigint, p_key text default null, p_budget text default 'b1')
returns flowfabric.ff_usage_report
language sql volatile
as $$
    select r.*
    from flowfabric.ff_record_spend(
        p_budget, '{tokens,calls}', array[p_amount, 1], p_execution_id, p_key, p_source => 'operator_override') as r
$$;
create function ff_tap.usage(p_budget text default 'b1')
returns jsonb
language sql stable
as $$
    select jsonb_object_agg(u.dimension, u.current_value) from flowfabric.ff_budget_usage as u
    where u.budget_id = p_budget
$$;
create function ff_tap.ledger_rows()
returns bigint
language sql stable
as $$ select count(*) from flowfabric.ff_budget_usage_by_exec as x where x.budget_id = 'b1' $$;
prepare release (text) as select r.outcome from flowfabric.ff_release_budget('b1', $1) as r;

select ff_tap.spend(:'first', 3, 'k'), ff_tap.spend(:'first', 7), ff_tap.spend(:'first', 2);
select ff_tap.spend(:'second', 10), ff_tap.spend(:'first', 20, null, 'b2');
select is(ff_tap.usage(), '{"tokens": 22, "calls": 4}', 'two executions have spent');
select ff_tap.freeze_time(2000);
select results_eq(format('execute release(%L)', :'first'), $$values ('released')$$, 'one of them is given back');
select is(ff_tap.usage(), '{"tokens": 10, "calls": 1}', 'all that it spent, in every dimension');
select is(ff_tap.ledger_rows(), 2::bigint, 'its ledger is empty, the other''s is not');
select is(ff_tap.usage('b2'), '{"tokens": 20, "calls": 1}', 'other budgets keep what it spent there');
select is(
    (select jsonb_build_array(b.soft_breach_count, b.updated_at_ms)
     from flowfabric.ff_budget_policy as b where b.budget_id = 'b1'), '[3, 2000]',
    'breaches that happened have happened');
select results_eq(format('execute release(%L)', :'first'), $$values ('noop')$$, 'a repeat finds nothing');
select is(ff_tap.usage(), '{"tokens": 10, "calls": 1}', 'and changes nothing');
select is((ff_tap.spend(:'first', 3, 'k')).outcome, 'already_applied', 'an old key stays applied');
select results_eq(
    $$execute release('{fp:86}:00000000-0000-4000-8000-000000000009')$$, $$values ('noop')$$,
    'an unknown execution has nothing to give back');
select is(
    (flowfabric.ff_release_budget('unknown', :'first')).outcome, 'noop', 'nor has an unknown budget');

-- Reports are nobody's
select flowfabric.ff_report_usage_and_check('b1', '{tokens}', '{5}', p_source => 'operator_override');
select results_eq(format('execute release(%L)', :'second'), $$values ('released')$$, 'the other one is given back');
select is(ff_tap.usage(), '{"tokens": 5, "calls": 0}', 'usage that was only reported stays');

-- After a reset
select ff_tap.spend(:'first', 30);
select flowfabric.ff_reset_budget('b1');
select ff_tap.spend(:'second', 4);
select results_eq(
    format('execute release(%L)', :'first'), $$values ('noop')$$, 'what was spent before a reset is not given back');
select is(ff_tap.usage(), '{"tokens": 4, "calls": 1}', 'so newer spending of others is not touched');
-- By hand: usage below the ledger is what no function leaves behind.
update flowfabric.ff_budget_usage as u set current_value = 1 where u.budget_id = 'b1' and u.dimension = 'tokens';
select results_eq(format('execute release(%L)', :'second'), $$values ('released')$$, 'even if it were less than spent');
select is(ff_tap.usage(), '{"tokens": 0, "calls": 0}', 'usage would not become negative');

select throws_ok(
    format($$select flowfabric.ff_release_budget('a b', %L)$$, :'first'), 'ZV001', 'invalid_input',
    'a budget id is a name');
select is(
    ff_tap.error_of($$select flowfabric.ff_release_budget('b1', 'x')$$) ->> 'field', 'execution_id',
    'an execution id is well formed');

select * from finish();
rollback;
