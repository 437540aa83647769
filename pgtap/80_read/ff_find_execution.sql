-- Finding an execution by its uuid alone.
begin;
\ir ../helpers.sql
select plan(9);

\set uuid '00000000-0000-4000-8000-000000000001'
prepare find (uuid) as
select f.execution_id, f.execution_kind, f.public_state::text from flowfabric.ff_find_execution($1) as f;

select ff_tap.freeze_time(1000);
select ff_tap.execution('{fp:86}:' || :'uuid');
select results_eq(
    format('execute find(%L)', :'uuid'),
    format($$ values ('{fp:86}:%s', 'test', 'waiting') $$, :'uuid'), 'the wire id of a uuid');
select ff_tap.execution('{fp:0}:' || :'uuid');
select ff_tap.execution('{fp:255}:' || :'uuid');
select results_eq(
    format('select f.execution_id from flowfabric.ff_find_execution(%L) as f', :'uuid'),
    format($$ values ('{fp:0}:%s'), ('{fp:86}:%s'), ('{fp:255}:%s') $$, :'uuid', :'uuid', :'uuid'),
    'all of them, from the first partition to the last');
select is_empty($$ execute find('00000000-0000-4000-8000-000000000404') $$, 'an unknown uuid is no row');
select throws_ok('execute find(null)', 'ZV001', 'invalid_input', 'a uuid is required');
select is(
    (select f.has_more from flowfabric.ff_find_execution(:'uuid') as f limit 1), false, 'there is no next page');

-- What a bare uuid is told where an id is asked for
create function ff_tap.hint_of(p_sql text)
returns text
language plpgsql volatile
as $$
declare
    v_hint text;
begin
    execute p_sql;
    return null;
exception when others then
    get stacked diagnostics v_hint = pg_exception_hint;
    return v_hint;
end;
$$;
select is(
    ff_tap.error_of(format('select flowfabric.ff_why(%L)', :'uuid')) ->> 'reason', 'missing_tag',
    'a bare uuid is no id');
select is(
    ff_tap.hint_of(format('select flowfabric.ff_why(%L)', :'uuid')),
    'The partition is missing: an execution id is {fp:N}:<uuid>. Find it with `flowfabric executions show ' || :'uuid'
    || '`, or: select execution_id from flowfabric.ff_find_execution(''' || :'uuid' || ''');',
    'the hint says what is missing and how to find it');
select is(
    ff_tap.hint_of($$ select flowfabric.ff_why('{fp:x}:y') $$),
    'Pass the whole id as create or claim returned it: {fp:N}:<uuid>, with the partition N.',
    'the hint for any other text says what an id is');
select is(
    ff_tap.hint_of($$ select flowfabric.ff_set_lane_state('default', 'closed') $$),
    'Set lane_state to one of: active, paused, draining, disabled.', 'a value that is not known is told those that are');
select * from finish();
rollback;
