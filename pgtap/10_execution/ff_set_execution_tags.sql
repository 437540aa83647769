-- Tags: adding and replacing them, before and after the end of an execution.
begin;
\ir ../helpers.sql
select plan(52);

select ff_tap.freeze_time(1000);
\set execution '{fp:86}:00000000-0000-4000-8000-000000000001'
select ff_tap.execution(:'execution', p_tags => '{"app.run": "1"}');
prepare tag (text, jsonb) as select outcome, tag_count from flowfabric.ff_set_execution_tags($1, $2);
create function pg_temp.tags(p_execution_id text) returns jsonb language sql stable
as $$
    select d.tags from flowfabric.ff_describe_execution(p_execution_id) as d
$$;
create function pg_temp.changed_at_ms(p_execution_id text) returns bigint language sql stable
as $$
    select d.last_mutation_at_ms from flowfabric.ff_describe_execution(p_execution_id) as d
$$;

-- Setting

select to_jsonb(ff_tap.core(:'execution')) as core_before \gset
select ff_tap.freeze_time(2000);
select results_eq(
    format('execute tag(%L, %L)', :'execution', '{"app.owner": "mail"}'), $$ values ('ok', 1) $$, 'one tag is set');
select is(
    pg_temp.tags(:'execution'), '{"app.run": "1", "app.owner": "mail"}'::jsonb, 'beside those that were there');
select is(to_jsonb(ff_tap.core(:'execution')), :'core_before'::jsonb, 'the row that workers need does not change');
select is(pg_temp.changed_at_ms(:'execution'), 2000::bigint, 'but readers see the time of the last write');
select is(
    (ff_tap.payload_row(:'execution')).tags, '{"app.run": "1"}'::jsonb, 'and the tags of the creation stay as they are');
select results_eq(
    format('execute tag(%L, %L)', :'execution', '{"app.run": "2", "a.b": "", "app.sub.field": "ü"}'),
    $$ values ('ok', 3) $$, 'several are set at once');
select is(
    pg_temp.tags(:'execution'), '{"app.run": "2", "app.owner": "mail", "a.b": "", "app.sub.field": "ü"}'::jsonb,
    'a tag that was there is replaced');
select is(
    (select row(
        flowfabric.ff_get_execution_tag(c.id, 'app.run'), flowfabric.ff_get_execution_tag(c.id, 'app.owner'),
        (select v.tags ->> 'app.run' from flowfabric.ff_v_execution as v where v.execution_id = c.id),
        (select x.tags ->> 'app.run' from flowfabric.ff_read_execution_context(c.id) as x))::text
     from (values (:'execution')) as c (id)),
    '(2,mail,2,2)', 'every reader has the newest value');
select results_eq(
    $$ select t.value, l.execution_id
       from unnest(array['1', '2']) as t (value)
       left join lateral flowfabric.ff_list_executions(p_tag_key => 'app.run', p_tag_value => t.value) as l on true
       order by 1 $$,
    format($$ values ('1', null), ('2', %L) $$, :'execution'), 'a list by tag knows the newest value only');
select ff_tap.freeze_time(3000);
select results_eq(
    format('execute tag(%L, %L)', :'execution', '{"app.run": "2"}'), $$ values ('ok', 1) $$,
    'the same tag again is no error');
select is(pg_temp.changed_at_ms(:'execution'), 3000::bigint, 'and moves the time of the last write');

-- The instance tag

select is((ff_tap.core(:'execution')).instance_tag, null, 'an execution without the instance tag has none');
select flowfabric.ff_set_execution_tags(:'execution', '{"ff.instance_id": "blue", "app.x": "y"}');
select is((ff_tap.core(:'execution')).instance_tag, 'blue', 'setting it reaches the row that events copy it from');
select flowfabric.ff_set_execution_tags(:'execution', '{"app.x": "z"}');
select is((ff_tap.core(:'execution')).instance_tag, 'blue', 'other tags leave it');
update flowfabric.ff_partition_config set instance_tag_key = 'app.instance';
select flowfabric.ff_set_execution_tags(:'execution', '{"app.instance": "green", "ff.instance_id": "red"}');
select is((ff_tap.core(:'execution')).instance_tag, 'green', 'it is the one that is configured');

-- Every state

select ff_tap.leased_execution('{fp:86}:00000000-0000-4000-8000-000000000002');
select results_eq(
    $$ execute tag('{fp:86}:00000000-0000-4000-8000-000000000002', '{"app.run": "1"}') $$, $$ values ('ok', 1) $$,
    'a running execution is tagged without a fence');
select flowfabric.ff_complete_execution(
    '{fp:86}:00000000-0000-4000-8000-000000000002', ff_tap.lease_id(), 1, ff_tap.attempt_id());
select ff_tap.freeze_time(4000);
select results_eq(
    $$ execute tag('{fp:86}:00000000-0000-4000-8000-000000000002', '{"app.run": "2"}') $$, $$ values ('ok', 1) $$,
    'an ended one too');
select is(
    ff_tap.vector('{fp:86}:00000000-0000-4000-8000-000000000002'),
    'terminal / unowned / not_applicable / none / success / attempt_terminal -> completed', 'which stays as it ended');
select is(
    (select (d.last_mutation_at_ms, d.last_transition_at_ms)::text
     from flowfabric.ff_describe_execution('{fp:86}:00000000-0000-4000-8000-000000000002') as d),
    '(4000,3000)', 'tagging is a write and no transition');
-- Refusals

select pg_temp.tags(:'execution') as tags_before \gset
select is(
    ff_tap.error_of(format('execute tag(%L, %L)', :'execution', b.tags)) - 'fn' - 'value',
    jsonb_build_object('code', 'invalid_input', 'field', 'tags', 'reason', b.reason),
    b.what || ' is refused: ' || b.reason)
from (values
    (null, 'null', 'nothing'), ('{}', 'empty', 'an empty object'), ('[]', 'not_object', 'a list'),
    ('"x"', 'not_object', 'a text'), ('null', 'not_object', 'a JSON null'),
    ('{"app.a": 1}', 'not_string', 'a number'), ('{"app.a": null}', 'not_string', 'a null'),
    ('{"app.a": {"b": "c"}}', 'not_string', 'an object'),
    ('{"app.a": "x", "Bad": 1}', 'not_string', 'a number beside a text')
) as b (tags, reason, what);
select throws_ok(
    format('execute tag(%L, %L)', :'execution', '{}'), 'ZV001', 'invalid_input', 'its SQLSTATE is ZV001');
select throws_ok(
    format('execute tag(%L, %L)', :'execution', jsonb_build_object('app.ok', 'x', t.key, 'x')), 'ZV005',
    'invalid_tag_key', 'the tag ' || to_jsonb(t.key)::text || ' is refused')
from (values
    (''), ('App.x'), ('1app.x'), ('app'), ('app.'), ('app..x'), ('.app'), ('ap p.x'), ('a-p.x'), ('app.Foo'),
    ('app.foo bar'), ('app.foo-bar'), (E'app.x\n')
) as t (key);
select is(
    ff_tap.error_of(format('execute tag(%L, %L)', :'execution', '{"b": "x", "app.ok": "x", "Z": "x", "a": "x"}')),
    '{"code": "invalid_tag_key", "fn": "ff_set_execution_tags", "key": "Z"}',
    'the first malformed key in byte order is named');
select is(pg_temp.tags(:'execution'), :'tags_before'::jsonb, 'nothing is written if any key is malformed');
select is(pg_temp.changed_at_ms(:'execution'), 3000::bigint, 'not even the time');

select throws_ok(
    $$ execute tag('{fp:86}:00000000-0000-4000-8000-0000000000ff', '{"app.a": "x"}') $$, 'ZN001',
    'execution_not_found', 'an execution must exist to be tagged');
select is(
    ff_tap.error_of($$ execute tag('{fp:86}:00000000-0000-4000-8000-0000000000FF', '{"app.a": "x"}') $$) - 'code',
    '{"fn": "ff_set_execution_tags", "execution_id": "{fp:86}:00000000-0000-4000-8000-0000000000ff"}',
    'the refusal names the id');
select throws_ok(
    $$ execute tag('{fp:86}:00000000-0000-4000-8000-0000000000ff', '{"BAD": "x"}') $$, 'ZN001', 'execution_not_found',
    'existence is checked before the keys');
select throws_ok(
    $$ execute tag('{fp:86}:00000000-0000-4000-8000-0000000000ff', '{"BAD": 1}') $$, 'ZV001', 'invalid_input',
    'and after the shape');
select throws_ok($$ execute tag('x', '[]') $$, 'ZV001', 'invalid_input', 'a malformed id is refused');
select is(ff_tap.error_of($$ execute tag(null, '[]') $$) ->> 'field', 'execution_id', 'before anything else');

set local role flowfabric_producer;
select tag_count as tagged from flowfabric.ff_set_execution_tags(:'execution', '{"app.a": "x"}') \gset
reset role;
select is(:tagged, 1, 'a producer tags without any privilege on a table');

select * from finish();
rollback;
