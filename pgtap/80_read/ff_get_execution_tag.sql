-- Reading one tag.
begin;
\ir ../helpers.sql
select plan(7);

\set execution '{fp:86}:00000000-0000-4000-8000-000000000001'
prepare tag (text, text) as select flowfabric.ff_get_execution_tag($1, $2);
select ff_tap.execution(:'execution', p_tags => '{"app.run_id": "7"}');
select is(flowfabric.ff_get_execution_tag(:'execution', 'app.run_id'), '7', 'a tag has its value');
select is(flowfabric.ff_get_execution_tag(:'execution', 'app.other'), null, 'an unknown tag is NULL');
select is(
    flowfabric.ff_get_execution_tag('{fp:86}:00000000-0000-4000-8000-000000000002', 'app.run_id'), null,
    'an unknown execution is NULL');
select throws_ok(
    format('execute tag(%L, ''run_id'')', :'execution'), 'ZV005', 'invalid_tag_key', 'a key without owner is refused');
select throws_ok(
    format('execute tag(%L, null)', :'execution'), 'ZV005', 'invalid_tag_key', 'a missing key is refused');
select is(
    ff_tap.error_of(format('execute tag(%L, ''App.x'')', :'execution')) ->> 'key', 'App.x', 'the key is named');
select throws_ok('execute tag(''x'', ''app.x'')', 'ZV001', 'invalid_input', 'a malformed id is refused');
select * from finish();
rollback;
