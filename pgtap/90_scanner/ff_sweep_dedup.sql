-- Expired keys are deleted, those that have been over for longest first, whatever they are keys of.
begin;
\ir ../helpers.sql
select plan(19);

prepare sweep (integer) as select s.* from flowfabric.ff_sweep_dedup($1) as s;

-- A key of each kind, with its number as its name and its expiry.
create function ff_tap.keys(p_kind text, p_expiries bigint[])
returns void
language plpgsql volatile
as $$
declare
    v_at_ms bigint;
begin
    foreach v_at_ms in array p_expiries loop
        case p_kind
            when 'creation' then
                insert into flowfabric.ff_execution_idempotency
                values ('default', v_at_ms::text, 86, gen_random_uuid(), 0, v_at_ms);
            when 'suspend' then
                insert into flowfabric.ff_suspend_dedup
                values (86, gen_random_uuid(), v_at_ms::text, 'suspended', null, 0, v_at_ms);
            when 'signal' then
                insert into flowfabric.ff_signal_dedup
                values (86, gen_random_uuid(), v_at_ms::text, gen_random_uuid(), v_at_ms);
            when 'report' then
                insert into flowfabric.ff_budget_usage_dedup values ('budget', v_at_ms::text, 0, v_at_ms);
            when 'reservation' then
                insert into flowfabric.ff_budget_reservation
                values (
                    'budget', v_at_ms::text, 86, gen_random_uuid(), gen_random_uuid(), 1, '{tokens}', '{1}', 'settled', 0,
                    0, 'settled', v_at_ms);
        end case;
    end loop;
end;
$$;

create function ff_tap.kept()
returns text
language sql stable
as $$
    select coalesce(string_agg(k.kind || ' ' || k.at_ms::text, ', ' order by k.at_ms, k.kind), 'nothing')
    from (
        select 'creation', x.expires_at_ms from flowfabric.ff_execution_idempotency as x
        union all
        select 'suspend', x.expires_at_ms from flowfabric.ff_suspend_dedup as x
        union all
        select 'signal', x.expires_at_ms from flowfabric.ff_signal_dedup as x
        union all
        select 'report', x.expires_at_ms from flowfabric.ff_budget_usage_dedup as x
        union all
        select 'reservation', x.expires_at_ms from flowfabric.ff_budget_reservation as x
    ) as k (kind, at_ms)
$$;

select ff_tap.freeze_time(1000);
select results_eq('execute sweep(1000)', 'values (0, 0, 0, false)', 'without keys nothing happens');
select ff_tap.keys('creation', '{500,1000,1001}');
select results_eq('execute sweep(1000)', 'values (2, 0, 0, false)', 'a key is over at the instant itself');
select is(ff_tap.kept(), 'creation 1001', 'and not before');
select ff_tap.keys('suspend', '{900,2000}');
select ff_tap.keys('signal', '{901,2001}');
select ff_tap.keys('report', '{902,2002}');
select ff_tap.keys('reservation', '{903,2003}');
select results_eq('execute sweep(1000)', 'values (4, 0, 0, false)', 'expired keys of every kind are deleted');
select is(
    ff_tap.kept(), 'creation 1001, suspend 2000, signal 2001, report 2002, reservation 2003', 'and the others are kept');
insert into flowfabric.ff_budget_reservation (
    budget_id, reservation_key, partition_key, execution_id, attempt_id, lease_epoch, dimensions, amounts, reserved_at_ms)
values ('budget', 'open', 86, gen_random_uuid(), gen_random_uuid(), 1, '{tokens}', '{1}', 0);
select ff_tap.freeze_time(253402300799000);
select results_eq('execute sweep(1000)', 'values (5, 0, 0, false)', 'in the end they all go');
select is(
    (select r.reservation_key from flowfabric.ff_budget_reservation as r), 'open', 'but an open reservation stays for ever');
delete from flowfabric.ff_budget_reservation;

-- The limit
select ff_tap.freeze_time(1000);
select ff_tap.keys('creation', '{10,20,30,40,50}');
select ff_tap.keys('signal', '{15}');
select ff_tap.keys('reservation', '{45}');
select results_eq('execute sweep(3)', 'values (3, 0, 0, true)', 'a full batch says so');
select is(
    ff_tap.kept(), 'creation 30, creation 40, reservation 45, creation 50',
    'the longest expired go first, whatever their table');
select results_eq('execute sweep(1)', 'values (1, 0, 0, true)', 'a limit of one deletes one');
select results_eq('execute sweep(2)', 'values (2, 0, 0, true)', 'and goes on where it was');
select is(ff_tap.kept(), 'creation 50', 'so that no kind waits for another');
select results_eq('execute sweep(2)', 'values (1, 0, 0, false)', 'the rest is no full batch');
select results_eq('execute sweep(2)', 'values (0, 0, 0, false)', 'a repeat finds nothing');

select throws_ok('execute sweep(0)', 'ZV001', 'invalid_input', 'a limit below 1 is refused');
select throws_ok('execute sweep(10001)', 'ZV001', 'invalid_input', 'a limit above 10000 is refused');
select throws_ok('execute sweep(null)', 'ZV001', 'invalid_input', 'a limit of NULL is refused');
select lives_ok(
    $$select ff_tap.as_role('flowfabric_operator', 'select flowfabric.ff_sweep_dedup()')$$, 'an operator may sweep');
select throws_ok(
    $$select ff_tap.as_role('flowfabric_worker', 'select flowfabric.ff_sweep_dedup()')$$, '42501', null,
    'a worker may not');
select * from finish();
rollback;
