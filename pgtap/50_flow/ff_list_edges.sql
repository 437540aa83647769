-- The edges of an execution.
begin;
\ir helpers.sql
select plan(10);

create function ff_tap.edges(p_number integer, p_direction text)
returns text[]
language sql stable
as $$
    select coalesce(array_agg(
        ff_tap.number_of(right(d.upstream_execution_id, 36)::uuid)::text || '->'
        || ff_tap.number_of(right(d.downstream_execution_id, 36)::uuid)::text || ' ' || d.dep_state), '{}')
    from flowfabric.ff_list_edges(ff_tap.m(p_number), p_direction) as d
$$;

select ff_tap.flow(5);
select ff_tap.connect('{2, 1}', 3);
select ff_tap.stage(3, 4);
select ff_tap.stage(1, 4);
select ff_tap.finish(2);
select is(ff_tap.edges(3, 'incoming'), '{1->3 unsatisfied,2->3 satisfied}',
    'those that enter, in the order of their ids');
select is(ff_tap.edges(3, 'outgoing'), '{3->4 staged}', 'those that leave');
select is(ff_tap.edges(1, 'outgoing'), '{1->3 unsatisfied,1->4 staged}', 'staged or applied');
select is(ff_tap.edges(1, 'incoming'), '{}', 'a root has none that enter');
select is(ff_tap.edges(5, 'incoming'), '{}', 'a member without edges has none');
select ff_tap.execution(ff_tap.m(6));
select is(ff_tap.edges(6, 'outgoing'), '{}', 'nor has an execution without a flow');
select is(ff_tap.edges(404, 'outgoing'), '{}', 'nor an unknown one');
select throws_ok(
    format('select flowfabric.ff_list_edges(%L, %L)', ff_tap.m(1), 'both'), 'ZV001', 'invalid_input',
    'a direction is incoming or outgoing');
select throws_ok(
    format('select flowfabric.ff_list_edges(%L, null)', ff_tap.m(1)), 'ZV001', 'invalid_input', 'and required');
select throws_ok(
    $$select flowfabric.ff_list_edges('x', 'incoming')$$, 'ZV001', 'invalid_input', 'a text that is no id is refused');

select * from finish();
rollback;
