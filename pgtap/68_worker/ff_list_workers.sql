-- Listing workers: who is there, in byte order, page by page.
begin;
\ir ../helpers.sql
select plan(20);

select ff_tap.freeze_time(1000);
select flowfabric.ff_register_worker(w.worker_id, w.instance_id, w.lanes, w.capabilities, w.namespace, w.ttl)
from (values
    ('pool', 'a-2', '{l2,l1}'::text[], '{gpu}'::text[], 'n1', 5000), ('pool', 'a-1', '{l1}', '{}', 'n1', 500),
    ('pool', 'B-1', '{l1}', '{}', 'n1', 5000), ('pool', 'a-1', '{l1}', '{}', 'N2', 5000),
    ('pool', 'a-1', '{l1}', '{}', 'n3', 5000)
) as w (worker_id, instance_id, lanes, capabilities, namespace, ttl);
select flowfabric.ff_drain_worker('a-2', p_reason => 'upgrade', p_namespace => 'n1');
create function ff_tap.names(
    p_namespace text default null, p_after_namespace text default null, p_after text default null,
    p_limit integer default 1000, p_include_lapsed boolean default false)
returns text
language sql volatile
as $$
    select string_agg(w.namespace || '/' || w.worker_instance_id || case when w.has_more then '+' else '' end, ' ')
    from flowfabric.ff_list_workers(p_namespace, p_after_namespace, p_after, p_limit, p_include_lapsed) as w
$$;

select is(
    (select to_jsonb(w) from flowfabric.ff_list_workers('n1', null, 'a-1') as w),
    '{"namespace": "n1", "worker_instance_id": "a-2", "worker_id": "pool", "lanes": ["l1", "l2"],
    "capabilities": ["gpu"],
      "last_heartbeat_ms": 1000, "liveness_ttl_ms": 5000, "expires_at_ms": 6000, "registered_at_ms": 1000,
      "draining": true, "drain_reason": "upgrade", "live": true,
      "has_more": false}', 'a worker is listed with all of it');
select is(ff_tap.names(), 'N2/a-1 n1/B-1 n1/a-1 n1/a-2 n3/a-1', 'workers of all namespaces, in byte order');
select is(ff_tap.names('n1'), 'n1/B-1 n1/a-1 n1/a-2', 'or of one');
select is(ff_tap.names('unknown'), null, 'of an unknown one there are none');
select is(ff_tap.names(''), 'N2/a-1 n1/B-1 n1/a-1 n1/a-2 n3/a-1', 'an empty namespace is none');

-- Pages
select is(ff_tap.names(p_limit => 2), 'N2/a-1+ n1/B-1+', 'a page says that there is more');
select is(ff_tap.names(null, 'n1', 'B-1', 2), 'n1/a-1+ n1/a-2+', 'the next one starts after its last row');
select is(ff_tap.names(null, 'n1', 'a-2', 2), 'n3/a-1', 'the last one is over');
select is(ff_tap.names(null, 'n3', 'a-1', 2), null, 'after it there is nothing');
select is(ff_tap.names('n1', null, 'B-1', 1), 'n1/a-1+', 'within one namespace the instance id is a cursor');
select is(ff_tap.names('n1', 'n1', 'a-1'), 'n1/a-2', 'and so is the pair');
select is(ff_tap.names(null, 'n1'), 'n1/B-1 n1/a-1 n1/a-2 n3/a-1', 'a namespace alone is where it begins');
select is(ff_tap.names(p_limit => 0), null, 'a page of no rows is empty');
select is(ff_tap.names(p_limit => 2147483647), 'N2/a-1 n1/B-1 n1/a-1 n1/a-2 n3/a-1', 'a huge page is a large one');

-- Lapsed
select ff_tap.freeze_time(1500);
select is(ff_tap.names('n1'), 'n1/B-1 n1/a-2', 'a process that lapsed is not listed');
select is(ff_tap.names('n1', p_include_lapsed => true), 'n1/B-1 n1/a-1 n1/a-2', 'unless it is asked for');
select is(
    (select array_agg(w.live order by w.worker_instance_id)
     from flowfabric.ff_list_workers('n1', p_include_lapsed => true) as w),
    array[true, false, true], 'and then it shows that it is not live');

select throws_ok(
    'select ff_tap.names(p_limit => -1)', 'ZV001', 'invalid_input', 'a page does not have a negative number of rows');
select is(
    ff_tap.error_of($$select ff_tap.names(null, null, 'a-1')$$) - array['code', 'fn'],
    '{"field": "after_namespace", "reason": "null"}', 'over all namespaces an instance id alone is no cursor');
select is(
    ff_tap.error_of($$select ff_tap.names('a b')$$) ->> 'field', 'namespace', 'a namespace is a name');

select * from finish();
rollback;
