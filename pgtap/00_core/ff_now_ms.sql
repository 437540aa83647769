-- The engine's clock.
begin;
\ir ../helpers.sql
select plan(8);

create function pg_temp.wall_clock_ms() returns bigint language sql volatile
as $$ select floor(extract(epoch from clock_timestamp()) * 1000)::bigint $$;

select pg_temp.wall_clock_ms() as before_ms \gset
select flowfabric.ff_now_ms() as now_ms \gset
select pg_temp.wall_clock_ms() as after_ms \gset
select cmp_ok(:now_ms, '>=', :before_ms, 'the time is the wall clock''s: not earlier');
select cmp_ok(:now_ms, '<=', :after_ms, 'and not later');
select is(pg_typeof(flowfabric.ff_now_ms()), 'bigint'::regtype, 'it is whole milliseconds');

-- The clock moves on inside a transaction, whose own time stands still.
create function pg_temp.first_later_time(p_ms bigint) returns bigint language plpgsql volatile
as $$
declare
    v_ms bigint;
begin
    loop
        v_ms := flowfabric.ff_now_ms();
        exit when v_ms > p_ms;
    end loop;
    return v_ms;
end;
$$;
select cmp_ok(
    pg_temp.first_later_time(:now_ms), '>', floor(extract(epoch from now()) * 1000)::bigint,
    'it is not the start of the transaction');
select is(
    (select provolatile from pg_proc where oid = 'flowfabric.ff_now_ms()'::regprocedure), 'v'::"char",
    'it is volatile: no plan keeps an old time');

select ff_tap.freeze_time(1000);
select is(flowfabric.ff_now_ms(), 1000::bigint, 'a frozen clock stands still');
select ff_tap.advance_time(1);
select is(flowfabric.ff_now_ms(), 1001::bigint, 'until it is moved');

set local role flowfabric_signaller;
select flowfabric.ff_now_ms() as signaller_ms \gset
reset role;
select is(:signaller_ms::bigint, 1001::bigint, 'the role with the fewest rights sees the same time');

select * from finish();
rollback;
