-- Bringing summaries up to date, oldest first, and none for ever in front of the others.
begin;
\ir helpers.sql
select plan(14);

prepare project (integer) as select s.* from flowfabric.ff_project_flow_summaries($1) as s;

create function ff_tap.flow_of(p_number integer)
returns uuid
language sql immutable
as $$ select md5('flow ' || p_number::text)::uuid $$;

create function ff_tap.flow_with_member(p_number integer)
returns text
language plpgsql volatile
as $$
declare
    v_id text := flowfabric.ff_format_execution_id(
        flowfabric.ff_flow_partition(ff_tap.flow_of(p_number)), md5('member ' || p_number::text)::uuid);
begin
    perform flowfabric.ff_create_flow(ff_tap.flow_of(p_number), 'dag');
    perform ff_tap.execution(v_id);
    perform flowfabric.ff_add_execution_to_flow(ff_tap.flow_of(p_number), v_id);
    return v_id;
end;
$$;

create function ff_tap.summaries()
returns text
language sql stable
as $$
    select string_agg(n::text || ':' || s.public_flow_state || '@' || s.last_summary_update_at::text, ' ' order by n)
    from generate_series(1, 9) as n
    join flowfabric.ff_flow_summary as s on s.flow_id = ff_tap.flow_of(n)
$$;

select results_eq('execute project(100)', 'values (0, 0, 0, false)', 'without flows there is nothing to do');
select ff_tap.freeze_time(1000);
select flowfabric.ff_create_flow(gen_random_uuid(), 'dag') from generate_series(1, 10);
select results_eq('execute project(5)', 'values (0, 0, 0, false)', 'flows without members are never due');
select ff_tap.flow_with_member(n) from generate_series(1, 3) as n;
select ff_tap.freeze_time(2000);
select results_eq('execute project(2)', 'values (2, 0, 0, true)', 'a full batch says that there is more');
select ff_tap.freeze_time(3000);
select results_eq('execute project(1)', 'values (1, 0, 0, true)', 'flows without a summary come first');
select is(
    (select array_agg(s.last_summary_update_at order by s.last_summary_update_at) from flowfabric.ff_flow_summary as s),
    array[2000, 2000, 3000]::bigint[], 'so each has one now');
select ff_tap.freeze_time(4000);
select flowfabric.ff_project_flow_summaries(2);
select is(
    (select array_agg(s.last_summary_update_at order by s.last_summary_update_at) from flowfabric.ff_flow_summary as s),
    array[3000, 4000, 4000]::bigint[], 'then the oldest ones are made anew');

-- An end is final until something changes.
select flowfabric.ff_cancel_execution(
    flowfabric.ff_format_execution_id(
        flowfabric.ff_flow_partition(ff_tap.flow_of(1)), md5('member 1')::uuid), 'unwanted', 'operator_override');
select ff_tap.freeze_time(5000);
select flowfabric.ff_project_flow_summaries();
select ff_tap.freeze_time(6000);
select results_eq('execute project(100)', 'values (2, 0, 0, false)', 'a flow that has ended is not looked at again');
select is(ff_tap.summaries(), '1:failed@5000 2:open@6000 3:open@6000', 'the others are');
select flowfabric.ff_replay_execution(
    flowfabric.ff_format_execution_id(flowfabric.ff_flow_partition(ff_tap.flow_of(1)), md5('member 1')::uuid));
select ff_tap.freeze_time(7000);
select results_eq('execute project(1)', 'values (1, 0, 0, true)', 'unless it has changed');
select is(ff_tap.summaries(), '1:open@7000 2:open@6000 3:open@6000', 'as by a replay');

-- A flow that cannot be counted does not stop the others.
alter table flowfabric.ff_flow_summary
add constraint no_third check (last_summary_update_at <> 8000 or total_members < 2);
select ff_tap.freeze_time(8000);
update flowfabric.ff_exec_core as e
set flow_id = ff_tap.flow_of(2), partition_key = flowfabric.ff_flow_partition(ff_tap.flow_of(2))
where e.execution_id = md5('member 3')::uuid;
select results_eq('execute project(100)', 'values (1, 0, 1, false)', 'one that fails is counted as an error');
select is(
    (select jsonb_build_array(f.scanner, f.item_key, f.failures) from flowfabric.ff_scanner_failure as f),
    jsonb_build_array('flow_summary', ff_tap.flow_of(2), 1), 'and recorded');

select throws_ok('execute project(0)', 'ZV001', 'invalid_input', 'a limit is at least 1');
select throws_ok('execute project(null)', 'ZV001', 'invalid_input', 'and required');

select * from finish();
rollback;
