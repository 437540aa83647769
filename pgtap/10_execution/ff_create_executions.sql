-- Creation in batches: every item as if it had been created alone, one after another.
begin;
\ir ../helpers.sql
select plan(103);

select ff_tap.freeze_time(1000);
\set one '{fp:1}:00000000-0000-4000-8000-000000000001'
\set two '{fp:1}:00000000-0000-4000-8000-000000000002'
\set three '{fp:0}:00000000-0000-4000-8000-000000000003'

create function pg_temp.rows_written() returns text language sql stable
as $$
    select concat_ws(
        ' ',
        (select count(*) from flowfabric.ff_exec_core), (select count(*) from flowfabric.ff_exec_payload),
        (select count(*) from flowfabric.ff_execution_idempotency), (select count(*) from flowfabric.ff_lane_registry),
        (select count(*) from flowfabric.ff_capability_set))
$$;
create function pg_temp.refusal(p_sql text) returns jsonb language sql volatile
as $$ select ff_tap.error_of(p_sql) - 'fn' - 'code' $$;

-- A plain batch

create temporary table plain on commit drop as
select b.* from flowfabric.ff_create_executions(array['a', 'b', 'c']) as b;
select results_eq(
    'select item, outcome, code, sqlstate, detail, public_state from plain',
    $$ select i.item, 'created', null::text, null::text, null::jsonb, 'waiting'::flowfabric.ff_public_state
       from generate_series(1, 3) as i (item) $$,
    'kinds are enough for a batch; its rows come in input order');
select is(
    (select array_agg((ff_tap.core(p.execution_id)).execution_kind order by p.item) from plain as p),
    '{a,b,c}'::text[], 'each row names the execution of its item');
select is(
    (select count(distinct p.execution_id) from plain as p where p.execution_id like '{fp:86}:%'), 3::bigint,
    'every item gets an id of its own, on the partition of its lane');
select is(
    (select (l.lane_state, l.lane_crc, l.registered_at_ms, l.registered_by)::text
     from flowfabric.ff_lane_registry as l where l.lane_id = 'default'),
    '(active,54870,1000,create_execution)', 'a lane is registered at its first use');
select lives_ok(
    format($$ select flowfabric.ff_issue_grant_and_claim(
        %L, 30000, p_worker_id => 'w', p_worker_instance_id => 'w-1') $$, p.execution_id),
    'item ' || p.item || ' can be claimed')
from plain as p;

-- Every array, compared with the single form

select flowfabric.ff_create_execution(
    'kind', '\x00ff', 'gpu', 'tenant', :'one', 'msgpack', 9999,
    '{"routing_requirements": {"required_capabilities": ["b", "a"]}, "timeout_policy": {"attempt_timeout_ms": 5},
      "stream_policy": {"retention_ttl_ms": 6}, "dedup_window_ms": 7}',
    '{"app.run": "7", "ff.instance_id": "blue"}', 2000, 9000, 'single', null, 'cron'),
    flowfabric.ff_create_execution('kind', p_execution_id => :'two', p_namespace => 'tenant', p_priority => -1,
        p_idempotency_key => 'single-2', p_creator_identity => 'cron');
create temporary table complete on commit drop as
select b.*
from flowfabric.ff_create_executions(
    array['kind', 'kind'], array['\x00ff'::bytea, ''], array['gpu', null], 'tenant',
    array['{fp:1}:00000000-0000-4000-8000-00000000000a', ''], array['msgpack', ''], array[9999, -1],
    array[
        '{"routing_requirements": {"required_capabilities": ["b", "a"]}, "timeout_policy": {"attempt_timeout_ms": 5},
          "stream_policy": {"retention_ttl_ms": 6}, "dedup_window_ms": 7}', '{}']::jsonb[],
    array['{"app.run": "7", "ff.instance_id": "blue"}', null]::jsonb[], array[2000, 1000], array[9000, null],
    array['batch', 'batch-2'], null, 'cron') as b;
select results_eq(
    'select item, outcome, public_state from complete',
    $$ values (1, 'created', 'delayed'::flowfabric.ff_public_state), (2, 'created', 'waiting') $$,
    'an item with a delay is delayed, one whose delay is over at this instant is not');
select is(
    to_jsonb(ff_tap.core(c.execution_id)) - array['execution_id', 'partition_key'],
    to_jsonb(ff_tap.core(s.execution_id)) - array['execution_id', 'partition_key'],
    'item ' || c.item || ' has the row that the single form writes')
from complete as c
join (values (1, :'one'), (2, :'two')) as s (item, execution_id) on s.item = c.item;
select is(
    to_jsonb(ff_tap.payload_row((select c.execution_id from complete as c where c.item = 1))) - 'execution_id',
    to_jsonb(ff_tap.payload_row(:'one')) - 'execution_id', 'and the same side row');
select is(
    jsonb_strip_nulls(to_jsonb(ff_tap.payload_row((select c.execution_id from complete as c where c.item = 2))))
    - array['execution_id', 'partition_key'],
    '{"tags": {}, "creator_identity": "cron"}'::jsonb, 'empty elements count as absent');
select results_eq(
    $$ select idempotency_key collate "default", created_at_ms, expires_at_ms
       from flowfabric.ff_execution_idempotency order by 1 $$,
    $$ values ('batch', 1000::bigint, 1007::bigint), ('batch-2', 1000, 86401000), ('single', 1000, 1007),
           ('single-2', 1000, 86401000) $$,
    'each key is recorded for the window of its own policy');
select is(
    (select count(*) from flowfabric.ff_capability_set where tokens = '{a,b}'), 1::bigint,
    'a set of capabilities is stored once');
create temporary table shifted on commit drop as
select b.*
from flowfabric.ff_create_executions(
    '[7:8]={x,y}'::text[], p_lane_ids => '[-3:-2]={gpu,NULL}', p_priorities => '[0:1]={3,4}') as b;
select results_eq(
    'select s.item, e.execution_kind, e.lane_id collate "default", e.priority
     from shifted as s cross join lateral ff_tap.core(s.execution_id) as e order by 1',
    $$ values (1, 'x', 'gpu', 3), (2, 'y', 'default', 4) $$,
    'arrays are read from their first element, whatever its subscript');

-- The call as a whole

select pg_temp.rows_written() as rows_before \gset
prepare create_batch (text[]) as select count(*) from flowfabric.ff_create_executions($1);
select throws_ok('execute create_batch(null)', 'ZV001', 'invalid_input', 'kinds are required');
select is(
    pg_temp.refusal('execute create_batch(null)'), '{"field": "execution_kinds", "reason": "null"}',
    'the refusal names them');
select throws_ok(
    format('select flowfabric.ff_create_executions(array[%L, %L], %s)', 'a', 'b', a.argument), 'ZV001',
    'invalid_input', a.field || ' of another length are refused')
from (values
    ('payloads', $$ p_payloads => array['x'::bytea] $$),
    ('lane_ids', $$ p_lane_ids => array['a', 'b', 'c'] $$),
    ('execution_ids', $$ p_execution_ids => '{}' $$),
    ('payload_encodings', $$ p_payload_encodings => array['x'] $$),
    ('priorities', $$ p_priorities => array[1] $$),
    ('policies', $$ p_policies => array['{}'::jsonb] $$),
    ('tags', $$ p_tags => array['{}'::jsonb] $$),
    ('delay_until_ms', $$ p_delay_until_ms => array[1] $$),
    ('execution_deadlines_at_ms', $$ p_execution_deadlines_at_ms => array[1] $$),
    ('idempotency_keys', $$ p_idempotency_keys => array['x'] $$)
) as a (field, argument);
select is(
    pg_temp.refusal($$ select flowfabric.ff_create_executions(array['a', 'b'], p_tags => array['{}'::jsonb]) $$)
    - 'value',
    '{"field": "tags", "reason": "length_mismatch"}', 'the refusal names the array');
select is(
    pg_temp.refusal($$ select flowfabric.ff_create_executions(array[['a', 'b']]) $$) - 'value',
    '{"field": "execution_kinds", "reason": "length_mismatch"}', 'a nested array is refused');
select is(
    pg_temp.refusal($$ select flowfabric.ff_create_executions(array['a', 'b'], p_lane_ids => array[['a', 'b']]) $$)
    - 'value',
    '{"field": "lane_ids", "reason": "length_mismatch"}', 'also when it has as many elements');
select throws_ok(
    $$ execute create_batch(array_fill('k'::text, array[1001])) $$, 'ZV001', 'invalid_input', '1001 items are refused');
select is(
    pg_temp.refusal($$ execute create_batch(array_fill('k'::text, array[1001])) $$),
    '{"field": "execution_kinds", "reason": "too_many_items", "value": "1001"}', 'the refusal names their number');
select throws_ok(
    $$ select flowfabric.ff_create_executions(array['a'], p_namespace => 'a b') $$, 'ZV001', 'invalid_input',
    'a malformed namespace is refused as a whole');
select is(
    pg_temp.refusal($$ select flowfabric.ff_create_executions('{}', p_namespace => '') $$) - 'value',
    '{"field": "namespace", "reason": "empty"}', 'also when there is no item');
select is(pg_temp.rows_written(), :'rows_before', 'none of them has written anything');

select is_empty($$ select b.item from flowfabric.ff_create_executions('{}') as b $$, 'an empty batch has no rows');
select is_empty(
    $$ select b.item from flowfabric.ff_create_executions('{}', p_lane_ids => '{}', p_idempotency_keys => '{}') as b $$,
    'nor has one of empty arrays');
select results_eq(
    $$ select b.outcome, count(*), min(b.item), max(b.item)
       from flowfabric.ff_create_executions(array_fill('k'::text, array[1000])) as b group by 1 $$,
    $$ values ('created', 1000::bigint, 1, 1000) $$, '1000 items are created');

-- Items that are refused, compared with the single form

create temporary table bad (
    item integer generated always as identity, kind text default 'k', lane_id text, execution_id text, policy jsonb,
    tags jsonb, idempotency_key text) on commit drop;
insert into bad (kind) values (null), ('');
insert into bad (lane_id) values (''), (repeat('x', 65)), ('größe'), (E'a\nb'), ('draining'), ('disabled');
insert into bad (execution_id) values
    ('x'), ('{fp:86}:'), ('{fp:01}:00000000-0000-4000-8000-000000000001'),
    ('{fp:256}:00000000-0000-4000-8000-000000000001'), (repeat('x', 10000));
insert into bad (idempotency_key) values (repeat('x', 513));
insert into bad (policy) values
    ('[]'), ('null'), ('{"routing_requirements": null}'), ('{"max_replay_count": "x"}'), ('{"budget_ids": [1]}'),
    ('{"retry_policy": {"max_retries": -1}}'), ('{"quota_policy_id": "unknown"}'), ('{"budget_ids": ["unknown"]}'),
    ('{"routing_requirements": {"required_capabilities": {}}}'),
    ('{"routing_requirements": {"required_capabilities": ["a", "a b"]}}'),
    (jsonb_build_object('routing_requirements', jsonb_build_object(
        'required_capabilities', (select jsonb_agg('c' || n) from generate_series(1, 257) as g (n)))));
insert into bad (tags) values
    ('[]'), ('null'), ('7'), ('{"app.a": 1}'), ('{"app.a": null}'), ('{"app.ok": "x", "Bad": "x"}'), ('{"": "x"}');
-- Several faults at once: the first of the documented order is reported.
insert into bad (kind, lane_id, execution_id, policy, tags) values
    ('', 'größe', 'x', '[]', '[]'), ('', 'draining', 'x', '[]', '[]'), ('k', 'draining', 'x', '[]', '[]'),
    ('k', 'draining', null, '[]', '[]'), ('k', 'default', null, '[]', '[]');

select ff_tap.execution(p_execution_id => null, p_lane_id => lane.id)
from (values ('draining'), ('disabled')) as lane (id);
update flowfabric.ff_lane_registry set lane_state = lane_id where lane_id in ('draining', 'disabled');
create function pg_temp.single_refusal(p_item bad) returns jsonb language plpgsql volatile
as $$
declare
    v_code text;
    v_sqlstate text;
    v_detail text;
begin
    perform flowfabric.ff_create_execution(
        p_item.kind, p_lane_id => p_item.lane_id, p_execution_id => p_item.execution_id, p_policy => p_item.policy,
        p_tags => p_item.tags, p_idempotency_key => p_item.idempotency_key);
    return 'null';
exception when others then
    get stacked diagnostics
        v_code = message_text, v_sqlstate = returned_sqlstate, v_detail = pg_exception_detail;
    return jsonb_build_object(
        'code', v_code, 'sqlstate', v_sqlstate,
        'detail', v_detail::jsonb || '{"fn": "ff_create_executions"}'::jsonb);
end;
$$;
select pg_temp.rows_written() as rows_before \gset
create temporary table refused on commit drop as
select r.*
from (
    select
        array_agg(b.kind order by b.item) as kinds, array_agg(b.lane_id order by b.item) as lane_ids,
        array_agg(b.execution_id order by b.item) as execution_ids, array_agg(b.policy order by b.item) as policies,
        array_agg(b.tags order by b.item) as tags, array_agg(b.idempotency_key order by b.item) as keys
    from bad as b
) as a
cross join lateral flowfabric.ff_create_executions(
    a.kinds, p_lane_ids => a.lane_ids, p_execution_ids => a.execution_ids, p_policies => a.policies,
    p_tags => a.tags, p_idempotency_keys => a.keys) as r;
select is(
    jsonb_build_object('code', r.code, 'sqlstate', r.sqlstate, 'detail', r.detail), pg_temp.single_refusal(b),
    'item ' || b.item || ' is refused like the single call: ' || coalesce(r.code, 'not at all'))
from bad as b join refused as r on r.item = b.item order by b.item;
select is_empty(
    $$ select item from refused where outcome <> 'refused' or execution_id is not null or public_state is not null $$,
    'a refused item has no execution and no state');
select is(pg_temp.rows_written(), :'rows_before', 'and writes nothing');

-- Refused, duplicate and good items in one batch

create temporary table mixed on commit drop as
select b.*
from flowfabric.ff_create_executions(
    array['m1', 'm2', 'm3', 'm4', 'm5', 'm6', 'm7'],
    p_lane_ids => array['default', 'default', 'new', 'draining', 'new', 'default', 'default'],
    p_policies => array[
        null, '[]', null, null, null, null,
        '{"routing_requirements": {"required_capabilities": ["m"]}}']::jsonb[],
    p_tags => array[null, null, null, null, null, null, '{"BAD": "x"}']::jsonb[],
    p_execution_ids => array[null, null, null, null, null, :'one', null],
    p_idempotency_keys => array['m', null, null, null, 'm', null, null]) as b;
select results_eq(
    'select item, outcome, code, public_state from mixed',
    $$ values
        (1, 'created', null, 'waiting'::flowfabric.ff_public_state),
        (2, 'refused', 'invalid_policy_json', null),
        (3, 'created', null, 'waiting'),
        (4, 'refused', 'lane_not_accepting', null),
        (5, 'duplicate', null, 'waiting'),
        (6, 'duplicate', null, 'delayed'),
        (7, 'refused', 'invalid_tag_key', null) $$,
    'exactly the rows of bad items and duplicates differ, in input order');
select is(
    (select m.execution_id from mixed as m where m.item = 5), (select m.execution_id from mixed as m where m.item = 1),
    'a repeated key names the execution of the earlier item');
select is((select m.execution_id from mixed as m where m.item = 6), :'one', 'an id that exists names that execution');
select is(
    (select l.registered_by from flowfabric.ff_lane_registry as l where l.lane_id = 'new'), 'create_execution',
    'the lane of a good item is registered');
select is(
    (select count(*) from flowfabric.ff_capability_set where tokens = '{m}'), 0::bigint,
    'the capabilities of a refused one are not stored');
select lives_ok(
    format($$ select flowfabric.ff_issue_grant_and_claim(
        %L, 30000, p_worker_id => 'w', p_worker_instance_id => 'w-1') $$, m.execution_id),
    'good item ' || m.item || ' can be claimed')
from mixed as m where m.outcome = 'created';

-- Repeats inside a batch, as if the items had been created one after another

create function pg_temp.batch(
    p_execution_ids text[], p_idempotency_keys text[], p_policies jsonb[] default null,
    p_dedup_ttl_ms bigint default null)
returns table (item integer, outcome text, same_as integer) language sql volatile
as $$
    select b.item, b.outcome, min(b.item) over (partition by b.execution_id)
    from flowfabric.ff_create_executions(
        array_fill('k'::text, array[cardinality(coalesce(p_execution_ids, p_idempotency_keys))]),
        p_namespace => 'repeats', p_execution_ids => p_execution_ids, p_idempotency_keys => p_idempotency_keys,
        p_policies => p_policies, p_dedup_ttl_ms => p_dedup_ttl_ms) as b
    order by b.item
$$;
select results_eq(
    $$ select * from pg_temp.batch(null, '{r1,r2,r1,NULL,r2,"",NULL,""}') $$,
    $$ values (1, 'created', 1), (2, 'created', 2), (3, 'duplicate', 1), (4, 'created', 4), (5, 'duplicate', 2),
           (6, 'created', 6), (7, 'created', 7), (8, 'created', 8) $$,
    'items with the key of an earlier one are duplicates of it; items without a key are not');
select results_eq(
    format('select * from pg_temp.batch(array[%L, %L, upper(%L), null], null)',
        '{fp:2}:0000000a-0000-4000-8000-00000000000a', '{fp:3}:0000000a-0000-4000-8000-00000000000a',
        '{fp:2}:0000000a-0000-4000-8000-00000000000a'),
    $$ values (1, 'created', 1), (2, 'created', 2), (3, 'refused', 3), (4, 'created', 4) $$,
    'the same uuid on another partition is another id, and a tag in upper case is none');
select results_eq(
    format('select * from pg_temp.batch(array[%L, %L, null], null)',
        '{fp:2}:0000000a-0000-4000-8000-00000000000b', '{fp:2}:0000000A-0000-4000-8000-00000000000B'),
    $$ values (1, 'created', 1), (2, 'duplicate', 1), (3, 'created', 3) $$,
    'an id is the same in upper case');
select results_eq(
    format('select * from pg_temp.batch(array[%1$L, %1$L, %2$L, %2$L], array[%3$L, %4$L, %4$L, %3$L])',
        '{fp:2}:00000000-0000-4000-8000-0000000000c1', '{fp:2}:00000000-0000-4000-8000-0000000000c2', 'c1', 'c2'),
    $$ values (1, 'created', 1), (2, 'duplicate', 1), (3, 'created', 3), (4, 'duplicate', 1) $$,
    'a duplicate by its id leaves its key to the next one, and a key goes before an id');
select results_eq(
    $$ select idempotency_key collate "default", execution_id from flowfabric.ff_execution_idempotency
       where namespace = 'repeats' and idempotency_key like 'c_' order by 1 $$,
    $$ values ('c1', '00000000-0000-4000-8000-0000000000c1'::uuid), ('c2', '00000000-0000-4000-8000-0000000000c2') $$,
    'and each key names the execution that it created');
select results_eq(
    $$ select * from pg_temp.batch(null, '{d1,d1,d1}', array['[]', null, '[]']::jsonb[]) $$,
    $$ values (1, 'refused', 1), (2, 'created', 2), (3, 'duplicate', 2) $$,
    'a refused item takes no key; a malformed one with a key that is taken is a duplicate');
select results_eq(
    $$ select * from pg_temp.batch(null, '{e1,e1}', p_dedup_ttl_ms => 0) $$,
    $$ values (1, 'created', 1), (2, 'created', 2) $$, 'with a ttl of 0 a key is not recorded between items either');
select results_eq(
    $$ select * from pg_temp.batch(
           null, '{f1,f1,f1}', array['{"dedup_window_ms": 0}', null, '{"dedup_window_ms": 0}']::jsonb[]) $$,
    $$ values (1, 'created', 1), (2, 'created', 2), (3, 'duplicate', 2) $$,
    'an item that records nothing is not in the way of the next one');

-- The same batch again

select results_eq(
    $$ select * from pg_temp.batch(null, '{r1,r2,r1,NULL}') $$,
    $$ values (1, 'duplicate', 1), (2, 'duplicate', 2), (3, 'duplicate', 1), (4, 'created', 4) $$,
    'a repeated batch answers duplicate for keys and creates items without one again');
select pg_temp.batch(null, '{g1}', p_dedup_ttl_ms => 500);
select ff_tap.freeze_time(1499);
select is((select b.outcome from pg_temp.batch(null, '{g1}') as b), 'duplicate', 'a key lives to its last millisecond');
select ff_tap.freeze_time(1500);
select results_eq(
    $$ select * from pg_temp.batch(null, '{g1,g1}', p_dedup_ttl_ms => 500) $$,
    $$ values (1, 'created', 1), (2, 'duplicate', 1) $$, 'at its expiry it creates anew');
select is(
    (select (i.created_at_ms, i.expires_at_ms)::text from flowfabric.ff_execution_idempotency as i
     where i.namespace = 'repeats' and i.idempotency_key = 'g1'),
    '(1500,2000)', 'and lives on from there');

delete from flowfabric.ff_exec_payload where execution_id = '00000000-0000-4000-8000-0000000000c1';
delete from flowfabric.ff_exec_core where execution_id = '00000000-0000-4000-8000-0000000000c1';
select results_eq(
    $$ select b.outcome, b.execution_id, b.public_state
       from flowfabric.ff_create_executions(array['k'], p_namespace => 'repeats', p_idempotency_keys => '{c1}') as b $$,
    $$ values ('duplicate', '{fp:2}:00000000-0000-4000-8000-0000000000c1', null::flowfabric.ff_public_state) $$,
    'the key of an execution that retention has removed is a duplicate without a state');
select results_eq(
    $$ select b.outcome, (ff_tap.core(b.execution_id)).execution_kind
       from flowfabric.ff_create_executions(
           array['again'], p_namespace => 'repeats', p_idempotency_keys => '{c9}',
           p_execution_ids => array['{fp:2}:00000000-0000-4000-8000-0000000000c2']) as b $$,
    $$ values ('duplicate', 'k') $$, 'an id that exists is a duplicate, and its new key');
select is(
    (select count(*) from flowfabric.ff_execution_idempotency where idempotency_key = 'c9'), 0::bigint,
    'is not recorded');

-- Many kinds of everything

select results_eq(
    $$ select b.outcome, count(*)
       from flowfabric.ff_create_executions(
           array_fill('k'::text, array[1000]),
           p_namespace => 'many',
           p_lane_ids => array(select 'many-' || n % 10 from generate_series(1, 1000) as g (n)),
           p_policies => array(select jsonb_build_object(
               'routing_requirements', jsonb_build_object('required_capabilities', jsonb_build_array('many-' || n % 7)),
               'max_replay_count', n % 250) from generate_series(1, 1000) as g (n)),
           p_idempotency_keys => array(select 'many-' || n % 900 from generate_series(1, 1000) as g (n))) as b
       group by 1 order by 1 $$,
    $$ values ('created', 900::bigint), ('duplicate', 100) $$,
    '1000 items with 250 policies, 7 sets, 10 lanes and 900 keys');
select is(
    (select count(*) from flowfabric.ff_capability_set as s where s.tokens[1] like 'many-%'), 7::bigint,
    'each set is stored once');
select is_empty(
    $$ select e.execution_id
       from flowfabric.ff_exec_core as e
       join flowfabric.ff_exec_payload as p on p.partition_key = e.partition_key and p.execution_id = e.execution_id
       join flowfabric.ff_capability_set as s on s.capability_set_id = e.capability_set_id
       where e.namespace = 'many'
           and s.tokens[1] is distinct from p.policy #>> '{routing_requirements,required_capabilities,0}' $$,
    'every execution has the set and the policy of its item');

set local role flowfabric_producer;
select outcome as producer_outcome from flowfabric.ff_create_executions(array['test']) \gset
reset role;
select is(:'producer_outcome'::text, 'created', 'a producer creates without any privilege on a table');

select * from finish();
rollback;
