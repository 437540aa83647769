-- Listing executions: stable pages, filters, and what is refused.
begin;
\ir ../helpers.sql
select plan(24);

select ff_tap.freeze_time(1000);
select is_empty('select flowfabric.ff_list_executions()', 'an empty engine lists nothing');
select ff_tap.execution(
    format('{fp:%s}:00000000-0000-4000-8000-0000000000%s', n % 3, to_char(n, 'FM00')),
    p_lane_id => case when n % 2 = 0 then 'even' else 'odd' end,
    p_namespace => case when n <= 5 then 'first' else 'rest' end,
    p_delay_until_ms => case when n = 15 then 9000 end,
    p_tags => case when n = 7 then '{"app.lucky": "yes"}'::jsonb else '{}' end)
from generate_series(1, 15) as n;

create temporary table seen (page integer, row_number bigint, execution_id text, has_more boolean);
insert into seen
select 1, row_number() over (), execution_id, has_more from flowfabric.ff_list_executions(p_limit => 5);
insert into seen
select 2, row_number() over (), l.execution_id, l.has_more
from flowfabric.ff_list_executions(
    p_limit => 5, p_after => (select s.execution_id from seen as s where s.page = 1 and s.row_number = 5)) as l;
insert into seen
select 3, row_number() over (), l.execution_id, l.has_more
from flowfabric.ff_list_executions(
    p_limit => 5, p_after => (select s.execution_id from seen as s where s.page = 2 and s.row_number = 5)) as l;
select is(count(distinct execution_id), 15::bigint, 'three pages of five show all fifteen, each once') from seen;
select is(
    array_agg(execution_id order by page, row_number),
    array_agg(execution_id order by (flowfabric.ff_parse_execution_id(execution_id))),
    'pages are strictly ascending over all partitions') from seen;
select is(
    array_agg(distinct page || ':' || has_more order by page || ':' || has_more),
    array['1:true', '2:true', '3:false'], 'every row of a page says whether there is more') from seen;
select is_empty(
    format(
        'select flowfabric.ff_list_executions(p_after => %L)',
        (select execution_id from seen where page = 3 and row_number = 5)),
    'behind the last row there is nothing');
select is_empty('select flowfabric.ff_list_executions(p_limit => 0)', 'a limit of 0 lists nothing');
select is(count(*), 15::bigint, 'a limit above the cap is the cap') from flowfabric.ff_list_executions(p_limit => 100000);

select is(count(*), 5::bigint, 'a partition can be chosen') from flowfabric.ff_list_executions(p_partition_key => 1::smallint);
select is(count(*), 7::bigint, 'a lane can be chosen') from flowfabric.ff_list_executions(p_lane_id => 'even');
select is(count(*), 5::bigint, 'a namespace can be chosen') from flowfabric.ff_list_executions(p_namespace => 'first');
select is(count(*), 1::bigint, 'a public state can be chosen')
from flowfabric.ff_list_executions(p_public_state => 'delayed');
select is(count(*), 15::bigint, 'a phase can be chosen')
from flowfabric.ff_list_executions(p_lifecycle_phase => 'runnable');
select is(execution_id, '{fp:1}:00000000-0000-4000-8000-000000000007', 'a tag can be chosen')
from flowfabric.ff_list_executions(p_tag_key => 'app.lucky', p_tag_value => 'yes');
select is(count(*), 2::bigint, 'filters combine')
from flowfabric.ff_list_executions(p_lane_id => 'even', p_namespace => 'first');
update flowfabric.ff_exec_core
set flow_id = '550e8400-e29b-41d4-a716-446655440000', partition_key = 24
where execution_id = '00000000-0000-4000-8000-000000000007';
select is(count(*), 1::bigint, 'the members of a flow can be chosen')
from flowfabric.ff_list_executions(p_flow_id => '550e8400-e29b-41d4-a716-446655440000');
select results_eq(
    'select namespace, lane_id, execution_kind, public_state::text, priority, created_at_ms
    from flowfabric.ff_list_executions(p_after => ''{fp:2}:00000000-0000-4000-8000-000000000011'', p_limit => 1)',
    'values (''rest'', ''even'', ''test'', ''waiting'', 0, 1000::bigint)', 'a row names what people look for');

select throws_ok(
    'select flowfabric.ff_list_executions(p_limit => -1)', 'ZV001', 'invalid_input', 'a negative limit is refused');
select throws_ok(
    'select flowfabric.ff_list_executions(p_limit => null)', 'ZV001', 'invalid_input', 'a missing limit is refused');
select throws_ok(
    'select flowfabric.ff_list_executions(p_after => ''x'')', 'ZV001', 'invalid_input', 'a malformed cursor is refused');
select throws_ok(
    'select flowfabric.ff_list_executions(p_public_state => ''running'')', 'ZV001', 'invalid_input',
    'an unknown state is refused');
select throws_ok(
    'select flowfabric.ff_list_executions(p_lifecycle_phase => ''done'')', 'ZV001', 'invalid_input',
    'an unknown phase is refused');
select throws_ok(
    'select flowfabric.ff_list_executions(p_tag_key => ''app.x'')', 'ZV001', 'invalid_input',
    'a tag key without a value is refused');
select throws_ok(
    'select flowfabric.ff_list_executions(p_tag_key => ''x'', p_tag_value => ''1'')', 'ZV005', 'invalid_tag_key',
    'a malformed tag key is refused');
select is(
    ff_tap.error_of('select flowfabric.ff_list_executions(p_public_state => ''running'')') ->> 'field',
    'public_state', 'the field is named');
select * from finish();
rollback;
