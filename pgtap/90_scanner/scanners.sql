-- The seed of the scanners: complete, repeatable, and blind to what an operator has set.
begin;
\ir ../helpers.sql
select plan(14);

select results_eq(
    $$select s.scanner collate "default", s.function_name, s.run_order, s.interval_ms, s.batch_limit
      from flowfabric.ff_scanner as s order by s.run_order$$,
    $$select k.scanner, k.function_name, k.run_order, k.interval_ms, k.batch_limit
      from flowfabric._ff_known_scanners() as k order by k.run_order$$,
    'an installation has every scanner with its defaults');
select is((select count(*) from flowfabric.ff_scanner), 24::bigint, 'there are 24 of them');
select is_empty(
    $$select s.function_name from flowfabric.ff_scanner as s
      where not exists (
          select from pg_proc as p
          where p.pronamespace = 'flowfabric'::regnamespace and p.proname = s.function_name)$$,
    'the function of each exists');
select is_empty(
    $$select s.scanner from flowfabric.ff_scanner as s
      where s.scanner not in (
          select r.scanner from flowfabric.ff_tick(p_force => true, p_max_ms => 60000) as r where r.status = 'ran')$$,
    'the tick knows how to run each');

create temporary view version as select string_agg(s.ctid::text, ',' order by s.scanner) as of_rows from flowfabric.ff_scanner as s;
select of_rows as before from version \gset
select is(flowfabric._ff_seed_scanners(), 0, 'loading an unchanged list writes nothing');
select is((select of_rows from version), :'before', 'and touches no row');

select flowfabric.ff_set_scanner('delayed', false, 123, 7);
update flowfabric.ff_scanner as s set function_name = 'ff_old_name', total_processed = 9 where s.scanner = 'delayed';
select is(flowfabric._ff_seed_scanners(), 1, 'a function that has another name now is written');
select results_eq(
    $$select s.function_name, s.enabled, s.interval_ms, s.batch_limit, s.total_processed
      from flowfabric.ff_scanner as s where s.scanner = 'delayed'$$,
    $$values ('ff_promote_due', false, 123::bigint, 7, 9::bigint)$$,
    'what an operator has set, and the figures, stay');

update flowfabric.ff_scanner as s set run_order = 1000 where s.scanner = 'lease_expiry';
update flowfabric.ff_scanner as s set run_order = 10 where s.scanner = 'retention';
update flowfabric.ff_scanner as s set run_order = 220 where s.scanner = 'lease_expiry';
select is(flowfabric._ff_seed_scanners(), 2, 'places that were swapped are swapped back');
select results_eq(
    $$select s.scanner collate "default", s.run_order from flowfabric.ff_scanner as s
      where s.scanner in ('lease_expiry', 'retention') order by s.run_order$$,
    $$values ('lease_expiry', 10), ('retention', 220)$$, 'each has its place');

delete from flowfabric.ff_scanner as s where s.scanner = 'unblock';
insert into flowfabric.ff_scanner (scanner, function_name, run_order, interval_ms, batch_limit)
values ('reclaimer', 'ff_reclaim', 110, 1, 1);
insert into flowfabric.ff_scanner_failure values ('reclaimer', 'x', 3, null, 'x', 0), ('unblock', 'x', 1, null, 'x', 0);
select is(flowfabric._ff_seed_scanners(), 2, 'one that is no longer known goes, one that is missing comes');
select is(
    (select s.run_order from flowfabric.ff_scanner as s where s.scanner = 'unblock'), 110, 'in the place that became free');
select results_eq(
    'select f.scanner collate "default" from flowfabric.ff_scanner_failure as f', $$values ('unblock')$$,
    'failures of a scanner that is gone go with it');
select is(
    (select count(*) from flowfabric.ff_scanner), 24::bigint, 'and there are as many as before');
select * from finish();
rollback;
