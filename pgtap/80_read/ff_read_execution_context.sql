-- What a worker reads right after its claim.
begin;
\ir ../helpers.sql
select plan(5);

\set execution '{fp:86}:00000000-0000-4000-8000-000000000001'
\set empty '{fp:86}:00000000-0000-4000-8000-000000000002'
prepare context (text) as select c.* from flowfabric.ff_read_execution_context($1) as c;
select throws_ok(
    format('execute context(%L)', :'execution'), 'ZN001', 'execution_not_found', 'an unknown execution is refused');
select throws_ok('execute context(''nonsense'')', 'ZV001', 'invalid_input', 'a malformed id is refused');
select ff_tap.execution(
    :'execution', p_payload => '\x00ff10', p_tags => '{"app.x": "1"}', p_policy => '{"max_replay_count": 3}');
select results_eq(
    format('execute context(%L)', :'execution'),
    'values (''\x00ff10''::bytea, null::text, ''test'', ''{"app.x": "1"}''::jsonb, ''{"max_replay_count": 3}''::jsonb)',
    'bytes, kind, tags and policy come as they were given');
select ff_tap.execution(:'empty');
select is(c.input_payload, ''::bytea, 'no payload is empty, never NULL')
from flowfabric.ff_read_execution_context(:'empty') as c;
select is(c.policy, null, 'no policy is NULL') from flowfabric.ff_read_execution_context(:'empty') as c;
select * from finish();
rollback;
