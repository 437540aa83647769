-- A whole graph from one document: created as the single calls would, or refused with the place that is wrong.
begin;
\ir helpers.sql
select plan(116);

prepare submit (jsonb) as select s.* from flowfabric.ff_submit_flow($1) as s;

select ff_tap.freeze_time(1000);
create function ff_tap.example()
returns jsonb
language sql immutable
as $$
    select '{
        "flow_id": "6ba7b810-9dad-11d1-80b4-00c04fd430c8", "namespace": "shop", "tags": {"app.team": "blue"},
        "defaults": {"lane_id": "default", "policy": {"retry_policy": {"max_retries": 2}}},
        "members": [
            {"name": "ask-a", "execution_kind": "quote", "payload": {"vendor": "a"}},
            {"name": "ask-b", "execution_kind": "quote", "payload": {"vendor": "b"}},
            {"name": "choose", "execution_kind": "choose", "lane_id": "slow", "priority": 10}],
        "edges": [
            {"upstream": "ask-a", "downstream": "choose", "data_passing_ref": "result"},
            {"upstream": "ask-b", "downstream": "choose", "data_passing_ref": "result"}],
        "joins": {"choose": {"kind": "any_of", "on_satisfied": "cancel_remaining"}}}'::jsonb
$$;

-- The example
select results_eq(
    format('execute submit(%L)', ff_tap.example()),
    $$values
    ('6ba7b810-9dad-11d1-80b4-00c04fd430c8'::uuid, 'created', 5::bigint, 'ask-a',
     '{fp:77}:fec7c87b-8615-803d-a8cc-63206cf29d6c', 'waiting'::flowfabric.ff_public_state),
    ('6ba7b810-9dad-11d1-80b4-00c04fd430c8', 'created', 5, 'ask-b',
     '{fp:77}:3ab18daf-3bdb-808b-aafd-20948fe36409', 'waiting'),
    ('6ba7b810-9dad-11d1-80b4-00c04fd430c8', 'created', 5, 'choose',
     '{fp:77}:09b39360-4d3b-82ad-ab9b-f6644eb43adf', 'waiting_children')$$,
    'three members are created, with ids that follow from the flow and their names');
select is(
    (select to_jsonb(f) - array['flow_id', 'cancelled_at_ms', 'terminal_at_ms', 'cancel_reason', 'cancellation_policy']
     from flowfabric.ff_flow_core as f),
    '{"partition_key": 77, "flow_kind": "dag", "namespace": "shop", "public_flow_state": "open", "graph_revision": 5,
      "node_count": 3, "edge_count": 2, "created_at_ms": 1000, "last_mutation_at_ms": 1000,
      "tags": {"app.team": "blue"}}'::jsonb,
    'the flow counts its members and edges');
select is(
    ff_tap.vector('{fp:77}:09b39360-4d3b-82ad-ab9b-f6644eb43adf'),
    'runnable / unowned / blocked_by_dependencies / waiting_for_children / none / pending_first_attempt'
    ' -> waiting_children',
    'a member with upstreams waits for them');
select is(
    (select jsonb_build_array(e.lane_id, e.priority, e.namespace, e.execution_kind, e.blocking_detail)
     from ff_tap.core('{fp:77}:09b39360-4d3b-82ad-ab9b-f6644eb43adf') as e),
    '["slow", 10, "shop", "choose", "2 dep(s) unresolved"]'::jsonb,
    'a value of its own replaces the default');
select is(
    (select array_agg(l.lane_id::text order by l.lane_id) from flowfabric.ff_lane_registry as l),
    '{default,slow}', 'lanes are registered');
select is(
    (select jsonb_agg(
        jsonb_build_array(convert_from(p.payload, 'UTF8'), p.payload_encoding, p.policy) order by p.payload)
     from flowfabric.ff_exec_payload as p),
    '[["{\"vendor\": \"a\"}", "json", {"retry_policy": {"max_retries": 2}}],
      ["{\"vendor\": \"b\"}", "json", {"retry_policy": {"max_retries": 2}}],
      [null, null, {"retry_policy": {"max_retries": 2}}]]'::jsonb,
    'a payload is stored as the bytes of its JSON text');
select is(
    (select to_jsonb(g) - array['flow_id', 'cancel_siblings_pending_members'] from flowfabric.ff_edge_group as g),
    '{"partition_key": 77, "downstream_eid": "09b39360-4d3b-82ad-ab9b-f6644eb43adf", "policy_kind": "any_of", "k": 1,
      "on_satisfied": "cancel_remaining", "n": 2, "success_count": 0, "fail_count": 0, "skip_count": 0,
      "running_count": 2, "group_state": "pending", "satisfied_at_ms": null, "impossible_at_ms": null,
      "created_at_ms": 1000, "last_graph_revision": 5, "cancel_siblings_pending_flag": false,
      "cancel_siblings_reason": null}'::jsonb,
    'the join has its policy and its edges');
select is(
    (select to_jsonb(d) - array['flow_id', 'upstream_eid', 'downstream_eid'] from flowfabric.ff_edge as d
     where d.upstream_eid = 'fec7c87b-8615-803d-a8cc-63206cf29d6c'),
    '{"partition_key": 77, "edge_id": "7a909005-cdb3-8cf3-94ff-ff2ebaf19a8c", "dependency_kind": "success_only",
      "satisfaction_condition": "all_required", "data_passing_ref": "result", "dep_state": "unsatisfied",
      "resolved_outcome": null, "created_by": "engine", "created_at_ms": 1000, "staged_at_ms": 1000,
      "applied_at_ms": 1000, "last_resolved_at_ms": null}'::jsonb,
    'an edge is applied from the start, and its id follows from the names');
select is((select count(*) from flowfabric.ff_dependency_outbox), 0::bigint, 'nothing is left to the dispatcher');
select is((select count(*) from flowfabric.ff_execution_idempotency), 0::bigint, 'no key is reserved');
select is_empty('select f.* from flowfabric.ff_check_invariants() as f', 'all of it is consistent');

-- Again
select ff_tap.freeze_time(2000);
select flowfabric.ff_cancel_execution('{fp:77}:fec7c87b-8615-803d-a8cc-63206cf29d6c', 'unwanted', 'operator_override');
select ff_tap.everything() as before \gset
select results_eq(
    format('execute submit(%L)', ff_tap.example()),
    $$values
    ('6ba7b810-9dad-11d1-80b4-00c04fd430c8'::uuid, 'already_satisfied', 5::bigint, 'ask-a',
     '{fp:77}:fec7c87b-8615-803d-a8cc-63206cf29d6c', 'cancelled'::flowfabric.ff_public_state),
    ('6ba7b810-9dad-11d1-80b4-00c04fd430c8', 'already_satisfied', 5, 'ask-b',
     '{fp:77}:3ab18daf-3bdb-808b-aafd-20948fe36409', 'waiting'),
    ('6ba7b810-9dad-11d1-80b4-00c04fd430c8', 'already_satisfied', 5, 'choose',
     '{fp:77}:09b39360-4d3b-82ad-ab9b-f6644eb43adf', 'waiting_children')$$,
    'a repeat answers with the same ids and the states of now');
select is(
    (select array_agg(s.public_state order by s.name) from flowfabric.ff_submit_flow(
        ff_tap.example() || '{"members": [{"name": "ask-a", "execution_kind": "quote"},
            {"name": "other", "execution_kind": "quote"}], "edges": [], "joins": {}}') as s),
    array['cancelled', null]::flowfabric.ff_public_state[],
    'another document for the same flow is not compared; a name that is no member has no state');
select is(ff_tap.everything(), :'before'::jsonb, 'a repeat writes nothing');
select throws_ok(
    format('execute submit(%L)', ff_tap.example() - 'namespace'), 'ZV001', 'invalid_input',
    'a document that is wrong is refused even if the flow is there');

-- The same as the single calls
create function ff_tap.rows_of_flow(p_flow_id uuid)
returns jsonb
language sql stable
as $$
    select jsonb_build_object(
        'flow', (
            select to_jsonb(f) - array['flow_id', 'partition_key', 'tags'] || jsonb_build_object('all_tags', d.tags)
            from flowfabric.ff_flow_core as f, flowfabric.ff_describe_flow(f.flow_id) as d
            where f.flow_id = p_flow_id),
        'members', (
            select jsonb_agg(
                to_jsonb(e) - array['flow_id', 'partition_key', 'execution_id', 'blocking_detail', 'small_payload']
                || to_jsonb(c) || jsonb_build_object('creator', (ff_tap.payload_row(i.id)).creator_identity)
                order by e.priority)
            from flowfabric.ff_exec_core as e,
                flowfabric.ff_format_execution_id(e.partition_key, e.execution_id) as i (id),
                flowfabric.ff_read_execution_context(i.id) as c
            where e.flow_id = p_flow_id),
        'edges', (
            select jsonb_agg(
                to_jsonb(d) - array['flow_id', 'partition_key', 'edge_id', 'upstream_eid', 'downstream_eid']
                || jsonb_build_array(u.priority, w.priority) order by u.priority, w.priority)
            from flowfabric.ff_edge as d
            join flowfabric.ff_exec_core as u on u.execution_id = d.upstream_eid
            join flowfabric.ff_exec_core as w on w.execution_id = d.downstream_eid
            where d.flow_id = p_flow_id),
        'groups', (
            select jsonb_agg(
                to_jsonb(g) - array['flow_id', 'partition_key', 'downstream_eid', 'last_graph_revision']
                order by w.priority)
            from flowfabric.ff_edge_group as g
            join flowfabric.ff_exec_core as w on w.execution_id = g.downstream_eid
            where g.flow_id = p_flow_id))
$$;
create function ff_tap.by_single_calls()
returns void
language plpgsql volatile
as $$
declare
    c_flow constant uuid := ff_tap.flow_id();
begin
    perform flowfabric.ff_create_flow(c_flow, 'order', 'shop');
    perform flowfabric.ff_create_execution(
        'quote', p_execution_id => ff_tap.m(1), p_namespace => 'shop', p_lane_id => 'fast', p_payload => '{"a": 1}',
        p_payload_encoding => 'json', p_priority => 1,
        p_policy => '{"routing_requirements": {"required_capabilities": ["gpu"]}, "max_replay_count": 3,
            "timeout_policy": {"attempt_timeout_ms": 5000}, "stream_policy": {"retention_ttl_ms": 60000}}',
        p_tags => '{"ff.instance_id": "blue"}', p_creator_identity => 'alice', p_execution_deadline_at_ms => 90000);
    perform flowfabric.ff_create_execution(
        'quote', p_execution_id => ff_tap.m(2), p_namespace => 'shop', p_lane_id => 'default', p_priority => 2,
        p_delay_until_ms => 9000);
    perform flowfabric.ff_create_execution(
        'choose', p_execution_id => ff_tap.m(3), p_namespace => 'shop', p_lane_id => 'default', p_priority => 3,
        p_payload => '\x00ff', p_payload_encoding => 'raw', p_delay_until_ms => 8000);
    perform flowfabric.ff_create_execution(
        'report', p_execution_id => ff_tap.m(4), p_namespace => 'shop', p_lane_id => 'default', p_priority => 9999,
        p_payload => 'null', p_payload_encoding => 'json', p_delay_until_ms => 500);
    perform flowfabric.ff_add_execution_to_flow(c_flow, ff_tap.m(n)) from generate_series(1, 4) as n;
    perform ff_tap.join(3, 'quorum', 'let_run', 1);
    perform ff_tap.connect('{1, 2}', 3, 'ref');
    perform ff_tap.connect('{3}', 4);
    perform flowfabric.ff_set_flow_tags(c_flow, '{"app.team": "red"}');
end;
$$;
select ff_tap.by_single_calls();
select flowfabric.ff_submit_flow('{
    "flow_id": "22222222-2222-2222-2222-222222222222", "flow_kind": "order", "namespace": "shop",
    "tags": {"app.team": "red"}, "defaults": {"lane_id": "default", "execution_kind": "quote"},
    "members": [
        {"name": "a", "lane_id": "fast", "payload": {"a": 1}, "priority": 1, "creator_identity": "alice",
         "policy": {"routing_requirements": {"required_capabilities": ["gpu"]}, "max_replay_count": 3,
            "timeout_policy": {"attempt_timeout_ms": 5000}, "stream_policy": {"retention_ttl_ms": 60000}},
         "tags": {"ff.instance_id": "blue"}, "execution_deadline_at_ms": 90000},
        {"name": "b", "priority": 2, "delay_until_ms": 9000},
        {"name": "c", "execution_kind": "choose", "priority": 3, "payload_base64": "AP8=", "payload_encoding": "raw",
         "delay_until_ms": 8000},
        {"name": "d", "execution_kind": "report", "priority": 9999, "payload": null, "delay_until_ms": 500}],
    "edges": [
        {"upstream": "a", "downstream": "c", "data_passing_ref": "ref"},
        {"upstream": "b", "downstream": "c", "data_passing_ref": "ref"},
        {"upstream": "c", "downstream": "d", "data_passing_ref": ""}],
    "joins": {"c": {"kind": "quorum", "k": 1, "on_satisfied": "let_run"}, "d": {"kind": "all_of"}}}');
select is(
    ff_tap.rows_of_flow('22222222-2222-2222-2222-222222222222'), ff_tap.rows_of_flow(ff_tap.flow_id()),
    'a document leaves exactly what the single calls leave');
select is(
    ff_tap.rows_of_flow(ff_tap.flow_id()) #> '{members,2,input_payload}', '"\\x00ff"', 'raw bytes arrive as they are');

-- A delayed child goes on waiting for its time.
select flowfabric.ff_complete_execution(
    c.execution_id, c.lease_id, c.lease_epoch, c.attempt_id)
from flowfabric.ff_submit_flow('{
    "flow_id": "22222222-2222-2222-2222-222222222222", "namespace": "x",
    "defaults": {"lane_id": "l", "execution_kind": "k"},
    "members": [{"name": "a"}]}') as s
cross join lateral flowfabric.ff_issue_grant_and_claim(s.execution_id, 30000) as c;
select is(
    (select s.public_state from flowfabric.ff_submit_flow('{
        "flow_id": "22222222-2222-2222-2222-222222222222", "namespace": "x",
        "defaults": {"lane_id": "l", "execution_kind": "k"}, "members": [{"name": "c"}]}') as s),
    'delayed'::flowfabric.ff_public_state, 'after its upstreams it is delayed');

-- Ids of one's own
select results_eq(
    format(
        'select s.execution_id, s.flow_id from flowfabric.ff_submit_flow(%L) as s',
        jsonb_build_object(
            'flow_id', '33333333-3333-3333-3333-333333333333', 'namespace', 'x',
            'defaults', '{"lane_id": "l", "execution_kind": "k"}'::jsonb,
            'members', jsonb_build_array(
                jsonb_build_object('name', 'a', 'execution_id', flowfabric.ff_format_execution_id(
                    flowfabric.ff_flow_partition('33333333-3333-3333-3333-333333333333'),
                    'AAAAAAAA-0000-4000-8000-000000000001'))))),
    format(
        'values (%L, %L::uuid)',
        flowfabric.ff_format_execution_id(
            flowfabric.ff_flow_partition('33333333-3333-3333-3333-333333333333'),
            'aaaaaaaa-0000-4000-8000-000000000001'),
        '33333333-3333-3333-3333-333333333333'),
    'a member may bring its id');
select isnt(
    (select s.flow_id from flowfabric.ff_submit_flow('{"namespace": "x", "members": [
        {"name": "a", "lane_id": "l", "execution_kind": "k"}]}') as s),
    (select s.flow_id from flowfabric.ff_submit_flow('{"namespace": "x", "members": [
        {"name": "a", "lane_id": "l", "execution_kind": "k"}]}') as s),
    'without an id every call makes a new flow');

-- Refusals: the document, and what is wrong with it
create function ff_tap.document(p_changes jsonb default '{}')
returns jsonb
language sql immutable
as $$
    select '{
        "flow_id": "6ba7b810-9dad-11d1-80b4-00c04fd430c9", "namespace": "shop",
        "defaults": {"lane_id": "default", "execution_kind": "work"},
        "members": [{"name": "a"}, {"name": "b"}, {"name": "c"}],
        "edges": [{"upstream": "a", "downstream": "b"}, {"upstream": "b", "downstream": "c"}]}'::jsonb || p_changes
$$;
create function ff_tap.refusal(p_changes jsonb)
returns jsonb
language sql volatile
as $$
    select ff_tap.error_of(format('select flowfabric.ff_submit_flow(%L)', ff_tap.document(p_changes)))
        - array['fn', 'value', 'code']
$$;
select ff_tap.everything() as before \gset

-- 1
select is(
    ff_tap.error_of('select flowfabric.ff_submit_flow(null)'),
    '{"code": "invalid_input", "fn": "ff_submit_flow", "path": "$", "field": "flow", "reason": "not_object"}',
    'a document is required');
select throws_ok('execute submit(''[]'')', 'ZV001', 'invalid_input', 'an array is none');
select is(
    ff_tap.error_of('execute submit(''"flow"'')') ->> 'reason', 'not_object', 'a text is none either');
select is(
    ff_tap.error_of(format(
        'select flowfabric.ff_submit_flow(jsonb_build_object(%L, repeat(%L, 16777216)))', 'namespace', 'x'))
    - 'actual_bytes',
    '{"code": "payload_too_large", "fn": "ff_submit_flow", "path": "$", "limit_bytes": 16777216}',
    'a document has at most 16 MiB');
select is(
    ff_tap.error_of($$select flowfabric.ff_submit_flow(jsonb_build_object('members', (
        select jsonb_agg('1e131071'::jsonb) from generate_series(1, 9000))))$$),
    '{"code": "payload_too_large", "fn": "ff_submit_flow", "path": "$", "limit_bytes": 16777216}',
    'also if its text would be larger than the server can hold');

-- 2 and 3
select is(
    ff_tap.refusal(b.changes::jsonb), jsonb_build_object('path', b.path, 'field', b.field, 'reason', b.reason),
    b.description)
from (values
    ('{"flow_id": 1}', 'flow_id', 'flow_id', 'not_string', 'an id is a text'),
    ('{"flow_kind": null}', 'flow_kind', 'flow_kind', 'not_string', 'a JSON null is none'),
    ('{"namespace": {}}', 'namespace', 'namespace', 'not_string', 'a namespace is a text'),
    ('{"tags": []}', 'tags', 'tags', 'not_object', 'tags are an object'),
    ('{"defaults": "x"}', 'defaults', 'defaults', 'not_object', 'defaults are an object'),
    ('{"members": {}}', 'members', 'members', 'not_array', 'members are an array'),
    ('{"edges": {}}', 'edges', 'edges', 'not_array', 'edges are an array'),
    ('{"joins": []}', 'joins', 'joins', 'not_object', 'joins are an object'),
    ('{"colour": 1}', 'colour', 'colour', 'unknown_key', 'a key that nobody knows is refused'),
    ('{"defaults": {"name": "x"}}', 'defaults.name', 'name', 'unknown_key', 'a name cannot be a default'),
    ('{"defaults": {"payload": 1}}', 'defaults.payload', 'payload', 'unknown_key', 'nor can a payload'),
    ('{"defaults": {"priority": "1"}}', 'defaults.priority', 'priority', 'not_integer', 'defaults have types too'),
    ('{"members": [{"name": "a"}, 7]}', 'members[1]', 'members[1]', 'not_object', 'a member is an object'),
    ('{"members": [{}]}', 'members[0].name', 'name', 'missing', 'a member has a name'),
    ('{"defaults": {"lane_id": "l"}}', 'members[0].execution_kind', 'execution_kind', 'missing', 'and a kind'),
    ('{"defaults": {"execution_kind": "k"}}', 'members[0].lane_id', 'lane_id', 'missing', 'and a lane'),
    ('{"members": [{"name": 1}]}', 'members[0].name', 'name', 'not_string', 'a name is a text'),
    (
        '{"members": [{"name": "a"}, {"name": "b", "priority": 1.5}]}', 'members[1].priority', 'priority',
        'not_integer',
        'a priority is whole'
    ),
    (
        '{"members": [{"name": "a", "delay_until_ms": 1e300}]}', 'members[0].delay_until_ms', 'delay_until_ms',
        'out_of_range', 'a number is within 2^53'
    ),
    ('{"members": [{"name": "a", "policy": 7}]}', 'members[0].policy', 'policy', 'not_object', 'a policy is an object'),
    ('{"members": [{"name": "a", "nmae": 7}]}', 'members[0].nmae', 'nmae', 'unknown_key', 'a misspelt key is refused'),
    ('{"edges": [{"upstream": "a"}]}', 'edges[0].downstream', 'downstream', 'missing', 'an edge has two ends'),
    ('{"edges": [[]]}', 'edges[0]', 'edges[0]', 'not_object', 'an edge is an object'),
    (
        '{"edges": [{"upstream": "a", "downstream": "b", "policy": 1}]}', 'edges[0].policy', 'policy', 'unknown_key',
        'an edge has no policy'
    ),
    ('{"joins": {"b": "any_of"}}', 'joins.b', 'joins.b', 'not_object', 'a join is an object'),
    ('{"joins": {"b": {"k": 1}}}', 'joins.b.kind', 'kind', 'missing', 'with a kind'),
    ('{"joins": {"b": {"kind": "quorum", "k": "1"}}}', 'joins.b.k', 'k', 'not_integer', 'and a whole k'),
    ('{"joins": {"b": {"kind": "quorum", "n": 1}}}', 'joins.b.n', 'n', 'unknown_key', 'and nothing else'),
    ('{"members": []}', 'members', 'members', 'empty', 'a flow has at least one member'),
    (
        '{"members": [{"name": 1}], "edges": 7, "colour": 1}', 'edges', 'edges', 'not_array',
        'of several offences the first of the document is told: the outer keys come first'
    ),
    (
        '{"members": [{"name": "?"}, {"name": 1}]}', 'members[1].name', 'name', 'not_string',
        'types of all members come before the names of any'
    )
) as b (changes, path, field, reason, description);
select is(
    ff_tap.refusal('{}'::jsonb || jsonb_build_object('namespace', null)) ->> 'reason', 'not_string',
    'a namespace that is null is of the wrong type');
select is(
    ff_tap.error_of(format('execute submit(%L)', ff_tap.document() - 'namespace')) - array['code', 'fn'],
    '{"path": "namespace", "field": "namespace", "reason": "missing"}', 'a namespace is required');
select ff_tap.setting('max_submit_members', 2);
select is(
    ff_tap.error_of(format('execute submit(%L)', ff_tap.document())) - array['code', 'fn'],
    '{"path": "members", "field": "members", "reason": "too_many", "value": "2"}', 'members are limited');
select ff_tap.setting('max_submit_members', null);
select ff_tap.setting('max_submit_edges', 1);
select is(
    ff_tap.error_of(format('execute submit(%L)', ff_tap.document())) - array['code', 'fn'],
    '{"path": "edges", "field": "edges", "reason": "too_many", "value": "1"}', 'and edges');
select ff_tap.setting('max_submit_edges', null);
select is(
    ff_tap.refusal(jsonb_build_object(
        'members', (select jsonb_agg(jsonb_build_object('name', 'm' || n::text)) from generate_series(1, 10001) as n))),
    '{"path": "members", "field": "members", "reason": "too_many"}', 'ten thousand are enough');

-- 4
select is(
    ff_tap.refusal(b.changes::jsonb), jsonb_build_object('path', b.path, 'field', b.field, 'reason', b.reason),
    b.description)
from (values
    ('{"flow_id": "six"}', 'flow_id', 'flow_id', 'bad_id', 'an id is a uuid'),
    ('{"flow_id": "6ba7b8109dad11d180b400c04fd430c9"}', 'flow_id', 'flow_id', 'bad_id', 'with its hyphens'),
    ('{"flow_kind": ""}', 'flow_kind', 'flow_kind', 'empty', 'a kind of flow is not empty'),
    ('{"namespace": "a b"}', 'namespace', 'namespace', 'space_or_control', 'a namespace has no spaces'),
    ('{"namespace": ""}', 'namespace', 'namespace', 'empty', 'and is not empty'),
    ('{"members": [{"name": ""}]}', 'members[0].name', 'name', 'bad_name', 'a name is not empty'),
    ('{"members": [{"name": "a b"}]}', 'members[0].name', 'name', 'bad_name', 'has no spaces'),
    ('{"members": [{"name": "-a"}]}', 'members[0].name', 'name', 'bad_name', 'starts with a letter, a digit or _'),
    ('{"members": [{"name": "ä"}]}', 'members[0].name', 'name', 'bad_name', 'is ASCII'),
    ('{"members": [{"name": "a\nb"}]}', 'members[0].name', 'name', 'bad_name', 'and one line'),
    ('{"members": [{"name": "a''; drop table x; --"}]}', 'members[0].name', 'name', 'bad_name', 'and harmless'),
    ('{"members": [{"name": "a"}, {"name": "a"}]}', 'members[1].name', 'name', 'duplicate_name', 'and its own'),
    (
        '{"members": [{"name": "a", "execution_id": "x"}]}', 'members[0].execution_id', 'execution_id', 'bad_id',
        'an execution id has its form'
    ),
    (
        '{"members": [{"name": "a", "execution_id": "{fp:99999}:00000000-0000-4000-8000-000000000001"}]}',
        'members[0].execution_id', 'execution_id', 'partition_mismatch', 'and lies on the partition of the flow'
    ),
    (
        '{"members": [{"name": "a", "payload": 1, "payload_base64": "AA=="}]}', 'members[0].payload', 'payload',
        'ambiguous_payload', 'there is one payload'
    ),
    (
        '{"members": [{"name": "a", "payload_base64": "AA"}]}', 'members[0].payload_base64', 'payload_base64',
        'bad_base64', 'base64 is padded'
    ),
    (
        '{"members": [{"name": "a", "payload_base64": "A A="}]}', 'members[0].payload_base64', 'payload_base64',
        'bad_base64', 'and has no spaces'
    ),
    (
        '{"edges": [{"upstream": "a", "downstream": "b", "edge_id": "7"}]}', 'edges[0].edge_id', 'edge_id', 'bad_id',
        'the id of an edge is a uuid'
    ),
    (
        '{"edges": [{"upstream": "a", "downstream": "b", "dependency_kind": "always"}]}', 'edges[0].dependency_kind',
        'dependency_kind', 'unknown', 'there is one kind of edge'
    ),
    (
        '{"edges": [
            {"upstream": "a", "downstream": "b", "edge_id": "00000000-0000-4000-8000-000000000001"},
            {"upstream": "a", "downstream": "c", "edge_id": "00000000-0000-4000-8000-000000000001"}]}',
        'edges[1].edge_id', 'edge_id', 'duplicate_id', 'every edge has its own id'
    )
) as b (changes, path, field, reason, description);
select is(
    ff_tap.refusal(jsonb_build_object('members', jsonb_build_array(
        jsonb_build_object('name', 'a'),
        jsonb_build_object('name', 'b', 'execution_id', flowfabric.ff_format_execution_id(
            flowfabric.ff_flow_partition('6ba7b810-9dad-11d1-80b4-00c04fd430c9'), flowfabric._ff_derived_id(
                uuid_send('6ba7b810-9dad-11d1-80b4-00c04fd430c9') || '\x0161'))),
        jsonb_build_object('name', 'c')))),
    '{"path": "members[1].execution_id", "field": "execution_id", "reason": "duplicate_id"}',
    'a given id that is derived for another member is refused');
select is(
    ff_tap.refusal(jsonb_build_object(
        'members', jsonb_build_array(jsonb_build_object('name', repeat('n', 129))))) ->> 'reason',
    'bad_name', 'and not one more');

-- 5
select is(
    ff_tap.error_of(format('select flowfabric.ff_submit_flow(%L)', ff_tap.document(b.changes::jsonb)))
    - array['fn', 'value'],
    b.refusal::jsonb, b.description)
from (values
    (
        '{"defaults": {"lane_id": "", "execution_kind": "work"}}',
        '{"code": "invalid_input", "path": "defaults.lane_id", "field": "lane_id", "reason": "empty"}',
        'a lane is checked as by a creation, and the path is where it stands'
    ),
    (
        '{"members": [{"name": "a"}, {"name": "b", "lane_id": "ä"}]}',
        '{"code": "invalid_input", "path": "members[1].lane_id", "field": "lane_id", "reason": "not_printable_ascii"}',
        'be it with the member'
    ),
    (
        '{"members": [{"name": "a", "execution_kind": ""}]}',
        '{"code": "invalid_input", "path": "members[0].execution_kind", "field": "execution_kind", "reason": "empty"}',
        'a kind is not empty'
    ),
    (
        '{"members": [{"name": "a"}, {"name": "b", "policy": {"retry_policy": {"max_retries": "many"}}}]}',
        '{"code": "invalid_policy_json", "flow_path": "members[1].policy", "path": "retry_policy.max_retries",
          "reason": "not_number"}',
        'a policy has a path of its own, and one in the document'
    ),
    (
        '{"members": [{"name": "a", "policy": {"routing_requirements": {"required_capabilities": ["a,b"]}}}]}',
        '{"code": "invalid_capabilities", "path": "members[0].policy", "side": "required", "reason": "comma_in_token"}',
        'capabilities are checked'
    ),
    (
        '{"members": [{"name": "a", "policy": {"budget_ids": ["none"]}}]}',
        '{"code": "invalid_input", "path": "members[0].policy", "field": "policy.budget_ids", "reason": "unknown"}',
        'budgets must be known'
    ),
    (
        '{"members": [{"name": "a", "tags": {"no_dot": "x"}}]}',
        '{"code": "invalid_tag_key", "path": "members[0].tags", "key": "no_dot"}', 'tags have keys with a dot'
    ),
    (
        '{"members": [{"name": "a", "tags": {"a.b": 1}}]}',
        '{"code": "invalid_input", "path": "members[0].tags", "field": "tags", "reason": "not_string"}',
        'and texts as values'
    ),
    (
        '{"tags": {"no_dot": "x"}}', '{"code": "invalid_tag_key", "path": "tags", "key": "no_dot"}',
        'those of the flow too'
    ),
    (
        '{"members": [{"name": "a", "tags": {"no_dot": "x"}}, {"name": "b", "lane_id": ""}]}',
        '{"code": "invalid_tag_key", "path": "members[0].tags", "key": "no_dot"}',
        'the first member with an offence is told'
    ),
    (
        '{"defaults": {"lane_id": "l", "execution_kind": "k", "policy": {"max_replay_count": -1}},
          "members": [{"name": "a", "policy": {}}, {"name": "b"}]}',
        '{"code": "invalid_policy_json", "flow_path": "defaults.policy", "path": "max_replay_count",
          "reason": "not_number"}',
        'a policy of its own keeps a member from the default as a whole'
    )
) as b (changes, refusal, description);

-- 6
select is(
    ff_tap.refusal('{"edges": [{"upstream": "a", "downstream": "b"}, {"upstream": "x", "downstream": "y"}]}'),
    '{"path": "edges[1].upstream", "field": "upstream", "reason": "unknown_member"}',
    'an upstream that is no member is refused');
select is(
    ff_tap.error_of(format('execute submit(%L)', ff_tap.document('{"edges": [{"upstream": "a", "downstream": "y"}]}')))
    - array['code', 'fn'],
    '{"path": "edges[0].downstream", "field": "downstream", "reason": "unknown_member", "value": "y"}',
    'a downstream too, with its name');
select is(
    ff_tap.error_of(format(
        'execute submit(%L)', ff_tap.document('{"edges": [{"upstream": "a", "downstream": "a"}]}'))) - 'fn',
    '{"code": "self_referencing_edge", "path": "edges[0]", "name": "a"}', 'nobody waits for itself');
select throws_ok(
    format('execute submit(%L)', ff_tap.document('{"edges": [{"upstream": "a", "downstream": "a"}]}')), 'ZK003',
    'self_referencing_edge', 'with its own code');
select is(
    ff_tap.error_of(format('execute submit(%L)', ff_tap.document('{"edges": [
        {"upstream": "a", "downstream": "b"}, {"upstream": "a", "downstream": "c"},
        {"upstream": "a", "downstream": "b", "edge_id": "00000000-0000-4000-8000-000000000001"}]}')))
    - array['code', 'fn'],
    '{"path": "edges[2]", "field": "edges", "reason": "duplicate_edge", "value": "a -> b"}',
    'two members have one edge between them');

-- 7
select is(
    ff_tap.error_of(format(
        'select flowfabric.ff_submit_flow(%L)', ff_tap.document(jsonb_build_object('joins', b.joins::jsonb))))
    - array['code', 'fn'],
    b.refusal::jsonb, b.description)
from (values
    (
        '{"x": {"kind": "all_of"}}', '{"path": "joins.x", "field": "joins", "reason": "unknown_member", "value": "x"}',
        'a join is that of a member'
    ),
    (
        '{"b": {"kind": "most_of"}}',
        '{"path": "joins.b.kind", "field": "policy_kind", "reason": "unsupported_policy_variant: most_of",
          "value": "most_of"}',
        'of a known kind'
    ),
    (
        '{"b": {"kind": "any_of"}}',
        '{"path": "joins.b.on_satisfied", "field": "on_satisfied",
          "reason": "on_satisfied required for any_of/quorum: cancel_remaining | let_run"}',
        'with what becomes of the others'
    ),
    (
        '{"b": {"kind": "quorum", "on_satisfied": "let_run"}}',
        '{"path": "joins.b.k", "field": "k", "reason": "quorum k must be >= 1"}', 'a quorum has a k'
    ),
    (
        '{"b": {"kind": "quorum", "on_satisfied": "let_run", "k": 2}}',
        '{"path": "joins.b.k", "field": "k", "reason": "quorum_exceeds_inputs", "value": "2"}',
        'not larger than its inputs'
    ),
    (
        '{"a": {"kind": "any_of", "on_satisfied": "let_run"}}',
        '{"path": "joins.a", "field": "joins", "reason": "no_inbound_edges", "value": "a"}',
        'and a member without inputs has none'
    )
) as b (joins, refusal, description);

-- 8
select is(
    ff_tap.error_of(format('execute submit(%L)', ff_tap.document('{"edges": [
        {"upstream": "c", "downstream": "a"}, {"upstream": "a", "downstream": "b"},
        {"upstream": "b", "downstream": "c"}]}'))) - 'fn',
    '{"code": "cycle_detected", "path": "edges[0]", "cycle": ["c", "a", "b", "c"]}',
    'a circle is told member by member, from its first edge');
select is(
    ff_tap.error_of(format('execute submit(%L)', ff_tap.document('{
        "members": [{"name": "a"}, {"name": "b"}, {"name": "c"}, {"name": "d"}, {"name": "e"}],
        "edges": [
            {"upstream": "a", "downstream": "b"}, {"upstream": "c", "downstream": "d"},
            {"upstream": "d", "downstream": "e"}, {"upstream": "b", "downstream": "c"},
            {"upstream": "d", "downstream": "c"}]}'))) - 'fn',
    '{"code": "cycle_detected", "path": "edges[1]", "cycle": ["c", "d", "c"]}',
    'what leads into it or out of it is not part of it');
select throws_ok(
    format('execute submit(%L)', ff_tap.document('{"edges": [
        {"upstream": "a", "downstream": "b"}, {"upstream": "b", "downstream": "a"}]}')),
    'ZK002', 'cycle_detected', 'the code is that of the single call');

select is(ff_tap.everything(), :'before'::jsonb, 'no refusal so far has written anything');

-- 10
update flowfabric.ff_lane_registry as l set lane_state = 'draining' where l.lane_id = 'slow';
select is(
    ff_tap.error_of(format('execute submit(%L)', ff_tap.document(
        '{"members": [{"name": "a"}, {"name": "b"}, {"name": "c", "lane_id": "slow"}]}'))) - 'fn',
    '{"code": "lane_not_accepting", "path": "members[2].lane_id", "lane_id": "slow", "lane_state": "draining"}',
    'a lane that takes no more work is refused');
select is(
    (select s.outcome from flowfabric.ff_submit_flow(ff_tap.example()) as s limit 1), 'already_satisfied',
    'a flow that is there does not ask for its lanes');
update flowfabric.ff_lane_registry as l set lane_state = 'active' where l.lane_id = 'slow';
select is(
    ff_tap.error_of(format('execute submit(%L)', ff_tap.document(jsonb_build_object(
        'members', jsonb_build_array(
            jsonb_build_object('name', 'a'), jsonb_build_object('name', 'b'),
            jsonb_build_object('name', 'c', 'execution_id', x.id)))))) - array['code', 'fn'],
    jsonb_build_object(
        'path', 'members[2].execution_id', 'field', 'execution_id', 'reason', 'execution_exists', 'value', x.id),
    'an id that is taken is refused')
from (
    select ff_tap.execution(flowfabric.ff_format_execution_id(
        flowfabric.ff_flow_partition('6ba7b810-9dad-11d1-80b4-00c04fd430c9'),
        'cccccccc-0000-4000-8000-000000000001')) as id
) as x;
delete from flowfabric.ff_exec_core as e where e.execution_id = 'cccccccc-0000-4000-8000-000000000001';
delete from flowfabric.ff_exec_payload as e where e.execution_id = 'cccccccc-0000-4000-8000-000000000001';
select is_empty(
    $$select from flowfabric.ff_flow_core as f where f.flow_id = '6ba7b810-9dad-11d1-80b4-00c04fd430c9'$$,
    'nor have these');
select lives_ok(
    format('execute submit(%L)', ff_tap.document(jsonb_build_object(
        'flow_id', gen_random_uuid(), 'members', jsonb_build_array(jsonb_build_object('name', repeat('n', 128))),
        'edges', '[]'::jsonb))),
    'a name may have 128 bytes');

-- Wide graphs
select results_eq(
    $$select s.public_state, count(*) from flowfabric.ff_submit_flow(jsonb_build_object(
        'namespace', 'x', 'defaults', '{"lane_id": "l", "execution_kind": "k"}'::jsonb,
        'members', (select jsonb_agg(jsonb_build_object('name', 'm' || n::text)) from generate_series(0, 2000) as n),
        'edges', (
            select jsonb_agg(jsonb_build_object('upstream', 'm' || n::text, 'downstream', 'm0'))
            from generate_series(1, 1000) as n
        ) || (
            select jsonb_agg(jsonb_build_object('upstream', 'm0', 'downstream', 'm' || n::text))
            from generate_series(1001, 2000) as n
        ))) as s group by 1 order by 1$$,
    $$values ('waiting'::flowfabric.ff_public_state, 1000::bigint), ('waiting_children', 1001)$$,
    'a fan-in and a fan-out of a thousand fit into one document');
select is_empty('select f.* from flowfabric.ff_check_invariants() as f', 'all of it is consistent');

select * from finish();
rollback;
