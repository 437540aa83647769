-- Items that keep failing: counted, left out after the third time, tried again after a pause.
begin;
\ir ../helpers.sql
select plan(17);

\set item '{fp:86}:00000000-0000-4000-8000-000000000001'
prepare failure as
select f.failures, f.skip_until_ms, f.last_error, f.last_failed_at_ms
from flowfabric.ff_scanner_failure as f
where f.scanner = 'lease_expiry' and f.item_key = :'item';
create function ff_tap.fail(p_now_ms bigint, p_error text default 'broken')
returns void
language sql volatile
as $$
    select flowfabric._ff_scanner_item_failed(
        'lease_expiry', '{fp:86}:00000000-0000-4000-8000-000000000001', p_error, p_now_ms)
$$;

-- Without a row in ff_scanner
delete from flowfabric.ff_scanner;
select ff_tap.fail(1000);
select results_eq(
    'execute failure', $$values (1, null::bigint, 'broken', 1000::bigint)$$, 'the first failure is recorded');
select ff_tap.fail(2000, 'broken again');
select results_eq(
    'execute failure', $$values (2, null::bigint, 'broken again', 2000::bigint)$$, 'the second one is counted');
select ff_tap.fail(3000);
select results_eq(
    'execute failure', $$values (3, 13000::bigint, 'broken', 3000::bigint)$$,
    'the third one pauses the item, for ten seconds if the scanner has no interval');
select ff_tap.fail(13000);
select results_eq(
    'execute failure', $$values (4, 23000::bigint, 'broken', 13000::bigint)$$,
    'a failure after the pause starts the next one at once');
select flowfabric._ff_scanner_item_ok('delayed', :'item');
select isnt_empty('execute failure', 'a success of another scanner changes nothing');
select flowfabric._ff_scanner_item_ok('lease_expiry', :'item');
select is_empty('execute failure', 'a success forgets the failures');
select ff_tap.fail(30000);
select results_eq(
    'execute failure', $$values (1, null::bigint, 'broken', 30000::bigint)$$, 'and counting starts anew');

-- With an interval
insert into flowfabric.ff_scanner (scanner, function_name, run_order, interval_ms, batch_limit)
values ('lease_expiry', 'ff_scan_expired_leases', 10, 1500, 100);
select ff_tap.fail(31000);
select ff_tap.fail(32000, repeat('x', 5000));
select results_eq(
    'execute failure', format($$values (3, 47000::bigint, %L, 32000::bigint)$$, repeat('x', 1000)),
    'the pause is ten intervals of the scanner, and the message is cut to 1000 characters');

-- What a scanner makes of it
create function ff_tap.refuse() returns trigger language plpgsql
as $$ begin raise exception 'poisoned' using detail = 'by the test', errcode = 'ZX002'; end $$;
create trigger poison before update on flowfabric.ff_exec_core
for each row when (old.execution_id = '00000000-0000-4000-8000-000000000001') execute function ff_tap.refuse();
prepare scan as select s.* from flowfabric.ff_scan_expired_leases() as s;
delete from flowfabric.ff_scanner_failure;
select ff_tap.freeze_time(1000);
alter table flowfabric.ff_exec_core disable trigger poison;
select ff_tap.leased_execution(:'item', p_lease_expires_at_ms => 2000);
alter table flowfabric.ff_exec_core enable trigger poison;
select ff_tap.freeze_time(2000);
select results_eq('execute scan', 'values (0, 0, 1, false)', 'a failing item is an error of the scan');
select results_eq(
    'execute failure', $$values (1, null::bigint, 'ZX002 poisoned by the test', 2000::bigint)$$,
    'SQLSTATE, message and detail are kept');
select is((ff_tap.core(:'item')).ownership_state, 'leased', 'and what it did is undone');
select flowfabric.ff_scan_expired_leases();
select flowfabric.ff_scan_expired_leases();
select results_eq('execute scan', 'values (0, 0, 0, false)', 'after the third failure the item is left out');
select ff_tap.freeze_time(16999);
select results_eq('execute scan', 'values (0, 0, 0, false)', 'as long as the pause lasts');
select ff_tap.freeze_time(17000);
select results_eq('execute scan', 'values (0, 0, 1, false)', 'at its end the item gets a try');
select results_eq('execute scan', 'values (0, 0, 0, false)', 'and when that fails, the next pause');
drop trigger poison on flowfabric.ff_exec_core;
select ff_tap.freeze_time(32000);
select results_eq('execute scan', 'values (1, 0, 0, false)', 'an item that is healed is done');
select is_empty('execute failure', 'and its failures are forgotten');

select * from finish();
rollback;
