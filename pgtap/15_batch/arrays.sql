-- The arrays of a batch: wherever their subscripts begin, the first element is item 1.
begin;
\ir ../helpers.sql
select plan(9);

select ff_tap.freeze_time(1000);
create function ff_tap.id(p_number integer)
returns text
language sql immutable
as $$ select '{fp:86}:00000000-0000-4000-8000-' || lpad(p_number::text, 12, '0') $$;
-- An array as text, its first element under a subscript of choice.
create function ff_tap.beginning_at(p_lower integer, p_elements text[])
returns text
language sql immutable
as $$ select format('[%s:%s]=%s', p_lower, p_lower + cardinality(p_elements) - 1, p_elements) $$;
-- A batch in descending order: held, expiring at this instant, unknown, held, the first again. What it answers, and
-- what is stored of those that it holds. The ids are told apart by the number of the run, and left out.
create function ff_tap.run_batch(p_number integer, p_call text, p_lower integer)
returns jsonb
language plpgsql volatile
as $$
declare
    c_ids constant text[] := array[
        ff_tap.id(p_number * 10 + 9), ff_tap.id(p_number * 10 + 5), ff_tap.id(p_number * 10 + 3),
        ff_tap.id(p_number * 10 + 1), ff_tap.id(p_number * 10 + 9)];
    v_told jsonb;
    v_stored jsonb;
begin
    perform ff_tap.freeze_time(1000);
    perform ff_tap.leased_execution(c_ids[1]);
    perform ff_tap.leased_execution(c_ids[2], p_lease_expires_at_ms => 1500);
    perform ff_tap.leased_execution(c_ids[4]);
    perform ff_tap.freeze_time(1500);
    execute format(
        $call$
        select jsonb_agg(
            to_jsonb(r) - array['execution_id', 'detail'] || jsonb_build_object(
                'is_about', array_position(%L, r.execution_id), 'detail', r.detail - array['execution_id', 'value'])
            order by r.item)
        from %s as r
        $call$,
        c_ids,
        format(
            p_call,
            ff_tap.beginning_at(p_lower, c_ids),
            ff_tap.beginning_at(p_lower, array_fill(ff_tap.lease_id()::text, array[5])),
            ff_tap.beginning_at(p_lower, '{1,1,1,1,1}'),
            ff_tap.beginning_at(p_lower, array_fill(ff_tap.attempt_id()::text, array[5])),
            ff_tap.beginning_at(p_lower, '{first,second,third,fourth,fifth}'),
            ff_tap.beginning_at(p_lower, '{a,b,c,d,e}'),
            ff_tap.beginning_at(p_lower, array['{"max_retries": 1}', null, null, null, null])))
    into v_told;
    select jsonb_agg(jsonb_build_array(
        ff_tap.vector(i.id), r.result, r.result_encoding, a.failure_reason, a.failure_category, e.lease_expires_at_ms))
    into v_stored
    from unnest(array[c_ids[1], c_ids[4]]) as i (id), ff_tap.payload_row(i.id) as r, ff_tap.attempt(i.id) as a,
        ff_tap.core(i.id) as e;
    return jsonb_build_object('told', v_told, 'stored', v_stored);
end;
$$;
create temporary table run on commit drop as
select f.function, l.lower, ff_tap.run_batch(row_number() over ()::integer, f.call, l.lower) as outcome
from (values
    ('ff_complete_executions', 'flowfabric.ff_complete_executions(%1$L, %2$L, %3$L, %4$L, %5$L, %6$L)'),
    ('ff_fail_executions', 'flowfabric.ff_fail_executions(%1$L, %2$L, %3$L, %4$L, %5$L, %6$L, %7$L)'),
    ('ff_renew_leases', 'flowfabric.ff_renew_leases(%1$L, %2$L, %3$L, %4$L)')
) as f (function, call)
cross join unnest(array[1, 0, 5]) as l (lower);

select is(
    (select jsonb_agg(coalesce(t.answer ->> 'code', t.answer ->> 'outcome') || ' ' || (t.answer ->> 'is_about'))
     from jsonb_array_elements(r.outcome -> 'told') as t (answer)),
    to_jsonb(array[e.first || ' 1', 'lease_expired 2', 'execution_not_found 3', e.last || ' 4', 'invalid_input 1']),
    r.function || ': each item of a descending batch gets its own answer, a repeat a refusal')
from run as r
join (values
    ('ff_complete_executions', 'completed', 'completed'),
    ('ff_fail_executions', 'retry_scheduled', 'terminal_failed'),
    ('ff_renew_leases', 'renewed', 'renewed')
) as e (function, first, last) on e.function = r.function
where r.lower = 1
order by r.function;
select is(
    r.outcome, one.outcome,
    format('%s: arrays that begin at %s do and say what those that begin at 1 do', r.function, r.lower))
from run as r
join run as one on one.function = r.function and one.lower = 1
where r.lower <> 1
order by r.function, r.lower;
select * from finish();
rollback;
