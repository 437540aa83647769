-- Paging through flows.
begin;
\ir helpers.sql
select plan(14);

create function ff_tap.flows(p_partition_key smallint, p_cursor uuid, p_limit integer)
returns text[]
language sql stable
as $$
    select coalesce(
        array_agg(flowfabric.ff_flow_partition(f.flow_id)::text || ':' || left(f.flow_id::text, 2)), '{}')
    from flowfabric.ff_list_flows(p_partition_key, p_cursor, p_limit) as f
$$;

select ff_tap.freeze_time(1000);
select is_empty('select f.* from flowfabric.ff_list_flows() as f', 'without flows there is no row');
-- By their first bytes: 11 lies on partition 6, 6b on 77, 00 on 0; the last two are chosen to share one.
select flowfabric.ff_create_flow(id, 'dag') from unnest(array[
    '11111111-1111-1111-1111-111111111111', '6ba7b810-9dad-11d1-80b4-00c04fd430c8',
    '00000000-0000-0000-0000-000000000000']::uuid[]) as id;
create temporary table fellow on commit drop as
select flow_id from (
    select md5(n::text)::uuid as flow_id from generate_series(1, 5000) as n
) as c where flowfabric.ff_flow_partition(flow_id) = 6 order by flow_id limit 3;
select flowfabric.ff_create_flow(f.flow_id, 'dag') from fellow as f;

select is(
    (select array_agg(row(flowfabric.ff_flow_partition(f.flow_id), f.flow_id)::text)
     from flowfabric.ff_list_flows() as f),
    (select array_agg(row(c.partition_key, c.flow_id)::text order by c.partition_key, c.flow_id)
     from flowfabric.ff_flow_core as c),
    'flows are listed by partition and id');
select is(
    (select array_agg(f.flow_id) from flowfabric.ff_list_flows(6::smallint) as f),
    (select array_agg(c.flow_id order by c.flow_id) from flowfabric.ff_flow_core as c where c.partition_key = 6),
    'or those of one partition');
select is(
    (select array_agg(distinct row(f.created_at_ms, f.status, f.has_more)::text) from flowfabric.ff_list_flows() as f),
    array['(1000,active,f)'], 'with their time and status, and no more to come');

-- Pages
select is(ff_tap.flows(null, null, 1), array['0:00'], 'the first page');
select ok((select bool_and(f.has_more) from flowfabric.ff_list_flows(p_limit => 5) as f), 'says that there is more');
select is(
    (
        with recursive page as (
            select f.flow_id, f.has_more from flowfabric.ff_list_flows(p_limit => 1) as f
            union all
            select f.flow_id, f.has_more
            from page as p cross join lateral flowfabric.ff_list_flows(p_cursor => p.flow_id, p_limit => 1) as f
        )
        select array_agg(p.flow_id) from page as p
    ),
    (select array_agg(f.flow_id) from flowfabric.ff_list_flows() as f),
    'pages of one give the same flows in the same order');
select is(
    ff_tap.flows(6::smallint, '11111111-1111-1111-1111-111111111111', 100),
    (select array_agg('6:' || left(c.flow_id::text, 2) order by c.flow_id) from flowfabric.ff_flow_core as c
     where c.partition_key = 6 and c.flow_id > '11111111-1111-1111-1111-111111111111'),
    'a page starts behind its cursor');
select is(ff_tap.flows(null, 'ffffffff-ffff-ffff-ffff-ffffffffffff', 0), '{}', 'a limit of 0 gives nothing');
select is(
    ff_tap.flows(77::smallint, '6ba7b810-9dad-11d1-80b4-00c04fd430c8', 100), '{}',
    'nor does a page behind the last flow');

-- The status
select flowfabric.ff_cancel_flow('6ba7b810-9dad-11d1-80b4-00c04fd430c8', 'over', 'flow_only');
update flowfabric.ff_flow_core as f set public_flow_state = 'failed'
where f.flow_id = '00000000-0000-0000-0000-000000000000';
select results_eq(
    $$select f.status from flowfabric.ff_list_flows() as f where f.status <> 'active'$$,
    $$values ('failed'), ('cancelled')$$, 'is that of the flow itself');
select is(flowfabric._ff_flow_status('paused'), 'unknown', 'a state that nobody knows is unknown');

select throws_ok('select flowfabric.ff_list_flows(p_limit => -1)', 'ZV001', 'invalid_input', 'a limit is not negative');
select throws_ok('select flowfabric.ff_list_flows(p_limit => null)', 'ZV001', 'invalid_input', 'and required');

select * from finish();
rollback;
