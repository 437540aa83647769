-- What the files of this folder include first: the common fixtures, and flows whose members are numbers.
\ir ../helpers.sql
\if :ff_tap_is_alone
    \quit
\endif

create function ff_tap.flow_id()
returns uuid
language sql immutable
as $$ select '11111111-1111-1111-1111-111111111111'::uuid $$;

comment on function ff_tap.flow_id() is 'The flow of the tests; its partition is 6.';

create function ff_tap.m(p_number integer)
returns text
language sql immutable
as $$ select '{fp:6}:00000000-0000-4000-8000-' || lpad(p_number::text, 12, '0') $$;

comment on function ff_tap.m(integer) is 'The id of a member; the order of the ids is that of the numbers.';

create function ff_tap.eid(p_number integer)
returns uuid
language sql immutable
as $$ select right(ff_tap.m(p_number), 36)::uuid $$;

comment on function ff_tap.eid(integer) is 'The uuid of a member.';

create function ff_tap.edge_id(p_upstream integer, p_downstream integer)
returns uuid
language sql immutable
as $$ select ('00000000-0000-4000-9000-' || lpad((p_upstream * 10000 + p_downstream)::text, 12, '0'))::uuid $$;

comment on function ff_tap.edge_id(integer, integer) is 'The id of the edge between two members.';

create function ff_tap.flow(p_members integer, p_first integer default 1, p_payload bytea default null)
returns void
language plpgsql volatile
as $$
begin
    perform flowfabric.ff_create_flow(ff_tap.flow_id(), 'dag');
    for n in p_first .. p_first + p_members - 1 loop
        perform ff_tap.execution(ff_tap.m(n), p_payload => p_payload);
        perform flowfabric.ff_add_execution_to_flow(ff_tap.flow_id(), ff_tap.m(n));
    end loop;
end;
$$;

comment on function ff_tap.flow(integer, integer, bytea) is 'Creates the flow, if it is not there, and so many members.';

create function ff_tap.revision()
returns bigint
language sql stable
as $$ select f.graph_revision from flowfabric.ff_flow_core as f where f.flow_id = ff_tap.flow_id() $$;

comment on function ff_tap.revision() is 'The graph revision of the flow.';

create function ff_tap.stage(p_upstream integer, p_downstream integer, p_ref text default null)
returns void
language plpgsql volatile
as $$
begin
    perform flowfabric.ff_stage_dependency_edge(
        ff_tap.flow_id(), ff_tap.edge_id(p_upstream, p_downstream), ff_tap.m(p_upstream), ff_tap.m(p_downstream),
        ff_tap.revision(), p_data_passing_ref => p_ref);
end;
$$;

comment on function ff_tap.stage(integer, integer, text) is 'Stages an edge between two members.';

create function ff_tap.apply(p_upstream integer, p_downstream integer)
returns flowfabric.ff_applied_edge
language sql volatile
as $$
    select flowfabric.ff_apply_dependency_to_child(
        ff_tap.flow_id(), ff_tap.edge_id(p_upstream, p_downstream), ff_tap.m(p_downstream), ff_tap.m(p_upstream))
$$;

comment on function ff_tap.apply(integer, integer) is 'Applies a staged edge.';

create function ff_tap.connect(p_upstreams integer[], p_downstream integer, p_ref text default null)
returns void
language plpgsql volatile
as $$
declare
    v_upstream integer;
begin
    foreach v_upstream in array p_upstreams loop
        perform ff_tap.stage(v_upstream, p_downstream, p_ref);
        perform ff_tap.apply(v_upstream, p_downstream);
    end loop;
end;
$$;

comment on function ff_tap.connect(integer[], integer, text) is 'Stages and applies edges into one member.';

create function ff_tap.join(
    p_downstream integer,
    p_kind text,
    p_on_satisfied text default 'let_run',
    p_k integer default null
)
returns void
language plpgsql volatile
as $$
begin
    perform flowfabric.ff_set_edge_group_policy(
        ff_tap.flow_id(), ff_tap.m(p_downstream), p_kind, p_on_satisfied, p_k);
end;
$$;

comment on function ff_tap.join(integer, text, text, integer) is 'Declares the join of a member.';

create function ff_tap.claim(p_number integer)
returns void
language plpgsql volatile
as $$
begin
    perform flowfabric.ff_issue_grant_and_claim(
        ff_tap.m(p_number), 30000, p_worker_id => 'worker', p_worker_instance_id => 'worker-1',
        p_lease_id => ff_tap.lease_id(), p_attempt_id => ff_tap.attempt_id());
end;
$$;

comment on function ff_tap.claim(integer) is 'Makes a member active.';

create function ff_tap.finish(p_number integer, p_outcome text default 'success', p_result text default null)
returns void
language plpgsql volatile
as $$
begin
    if p_outcome in ('success', 'failed') and (ff_tap.core(ff_tap.m(p_number))).lifecycle_phase <> 'active' then
        perform ff_tap.claim(p_number);
    end if;
    case p_outcome
        when 'success' then
            perform flowfabric.ff_complete_execution(
                ff_tap.m(p_number), p_result => convert_to(p_result, 'UTF8'),
                p_result_encoding => case when p_result is not null then 'text' end, p_source => 'operator_override');
        when 'failed' then
            perform flowfabric.ff_fail_execution(
                ff_tap.m(p_number), p_failure_reason => 'broken', p_source => 'operator_override');
        when 'cancelled' then
            perform flowfabric.ff_cancel_execution(ff_tap.m(p_number), 'unwanted', 'operator_override');
        when 'expired' then
            perform flowfabric.ff_expire_execution(ff_tap.m(p_number), 'execution_deadline');
    end case;
end;
$$;

comment on function ff_tap.finish(integer, text, text) is 'Ends a member, after a claim if that needs one.';

create function ff_tap.states(variadic p_numbers integer[])
returns text
language sql stable
as $$
    select string_agg(coalesce(ff_tap.public_state(ff_tap.core(ff_tap.m(n.number)))::text, 'missing'), ' ' order by n.place)
    from unnest(p_numbers) with ordinality as n (number, place)
$$;

comment on function ff_tap.states(integer[]) is 'The public states of some members.';

create function ff_tap.edge(p_upstream integer, p_downstream integer)
returns text
language sql stable
as $$
    select concat_ws('/', d.dep_state, d.resolved_outcome) || coalesce('@' || d.last_resolved_at_ms::text, '')
    from flowfabric.ff_edge as d
    where d.flow_id = ff_tap.flow_id() and d.edge_id = ff_tap.edge_id(p_upstream, p_downstream)
$$;

comment on function ff_tap.edge(integer, integer) is 'The state of an edge, its outcome and when it got it.';

create function ff_tap.edge_group(p_downstream integer)
returns text
language sql stable
as $$
    select format(
        '%s of %s: %s ok, %s failed, %s skipped, %s%s', g.policy_kind || coalesce('(' || g.k::text || ')', ''), g.n,
        g.success_count, g.fail_count, g.skip_count, g.group_state,
        coalesce('@' || coalesce(g.satisfied_at_ms, g.impossible_at_ms)::text, ''))
    from flowfabric.ff_edge_group as g
    where g.flow_id = ff_tap.flow_id() and g.downstream_eid = ff_tap.eid(p_downstream)
$$;

comment on function ff_tap.edge_group(integer) is 'The join of a member: policy, counts, verdict and when it fell.';

create function ff_tap.number_of(p_execution_id uuid)
returns integer
language sql immutable
as $$ select right(p_execution_id::text, 12)::integer $$;

comment on function ff_tap.number_of(uuid) is 'The number of a member.';

create function ff_tap.outbox()
returns integer[]
language sql stable
as $$
    select coalesce(array_agg(ff_tap.number_of(o.upstream_eid) order by o.outbox_id), '{}')
    from flowfabric.ff_dependency_outbox as o
$$;

comment on function ff_tap.outbox() is 'The members that still owe edge resolutions, longest waiting first.';

create function ff_tap.backlog()
returns integer[]
language sql stable
as $$
    select coalesce(array_agg(ff_tap.number_of(m.execution_id) order by m.execution_id), '{}')
    from flowfabric.ff_cancel_backlog_member as m
$$;

comment on function ff_tap.backlog() is 'The members that wait to be cancelled with their flow.';

create function ff_tap.payload(p_number integer)
returns text
language sql stable
as $$ select ff_tap.input(ff_tap.m(p_number)) $$;

comment on function ff_tap.payload(integer) is 'The payload of a member and its encoding.';

create function ff_tap.setting(p_name text, p_value bigint)
returns void
language plpgsql volatile
as $$
begin
    perform flowfabric.ff_set_setting(p_name, p_value);
end;
$$;

comment on function ff_tap.setting(text, bigint) is 'Sets a setting, or with NULL puts it back.';

-- Everything that a function of this area could have written, to show that a refusal wrote nothing.
create function ff_tap.everything()
returns jsonb
language sql stable
as $$
    select jsonb_build_object(
        'flows', (select jsonb_agg(to_jsonb(t) order by t.flow_id) from flowfabric.ff_flow_core as t),
        'flow_tags', (select jsonb_agg(to_jsonb(t) order by t.flow_id) from flowfabric.ff_flow_tag as t),
        'members', (select jsonb_agg(to_jsonb(t) order by t.execution_id) from flowfabric.ff_exec_core as t),
        'notes', (select jsonb_agg(to_jsonb(t) order by t.execution_id) from flowfabric.ff_exec_note as t),
        'payloads', (select jsonb_agg(to_jsonb(t) order by t.execution_id) from flowfabric.ff_exec_payload as t),
        'edges', (select jsonb_agg(to_jsonb(t) order by t.edge_id) from flowfabric.ff_edge as t),
        'groups', (select jsonb_agg(to_jsonb(t) order by t.downstream_eid) from flowfabric.ff_edge_group as t),
        'outbox', (select jsonb_agg(to_jsonb(t) order by t.outbox_id) from flowfabric.ff_dependency_outbox as t),
        'siblings', (
            select jsonb_agg(to_jsonb(t) order by t.downstream_eid) from flowfabric.ff_pending_cancel_groups as t),
        'backlog', (select jsonb_agg(to_jsonb(t) order by t.flow_id) from flowfabric.ff_cancel_backlog as t),
        'backlog_members', (
            select jsonb_agg(to_jsonb(t) order by t.execution_id) from flowfabric.ff_cancel_backlog_member as t),
        'summaries', (select jsonb_agg(to_jsonb(t) order by t.flow_id) from flowfabric.ff_flow_summary as t),
        'lanes', (select jsonb_agg(to_jsonb(t) order by t.lane_id) from flowfabric.ff_lane_registry as t),
        'completions', (select count(*) from flowfabric.ff_completion_event),
        -- A test may change a setting on the way.
        'operator_events', (
            select count(*) from flowfabric.ff_operator_event as v where v.event_type <> 'setting_changed'))
$$;

comment on function ff_tap.everything() is 'All rows of flows, members, edges, joins, queues and summaries.';
