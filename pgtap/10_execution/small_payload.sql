-- Small payloads: which payloads stand in the execution's own row, and that nobody who reads or writes one can tell.
begin;
\ir ../50_flow/helpers.sql
select plan(54);

select ff_tap.freeze_time(1000);

-- Where a payload stands

create function ff_tap.created(
    p_way text, p_payload bytea, p_encoding text, p_creator text, p_policy jsonb, p_tags jsonb)
returns text
language plpgsql volatile
as $$
declare
    c_id constant text := flowfabric.ff_format_execution_id(86::smallint, gen_random_uuid());
begin
    if p_way like 'alone%' then
        return c.execution_id
        from flowfabric.ff_create_execution(
            'test', p_payload, p_payload_encoding => p_encoding, p_creator_identity => p_creator,
            p_policy => p_policy, p_tags => p_tags,
            p_execution_id => case p_way when 'alone, with an id' then c_id end) as c;
    end if;
    return b.execution_id
    from flowfabric.ff_create_executions(
        '{test}', array[p_payload], p_payload_encodings => array[p_encoding], p_creator_identity => p_creator,
        p_policies => case when p_policy is not null then array[p_policy] end,
        p_tags => case when p_tags is not null then array[p_tags] end,
        p_execution_ids => case p_way when 'in a batch, with an id' then array[c_id] end,
        p_idempotency_keys => case p_way when 'in a batch, with a key' then array[c_id] end) as b;
end;
$$;
create function ff_tap.place(p_execution_id text)
returns text
language sql stable
as $$
    select case
        when e.small_payload is not null then 'in its own row' || coalesce(' and beside ' || p.tags::text, '')
        when p.tags is null then 'nowhere' else 'beside it'
    end
    from ff_tap.core(p_execution_id) as e, ff_tap.payload_row(p_execution_id) as p
$$;

create temporary table given (
    number integer generated always as identity, what text, place text, payload bytea, encoding text, creator text,
    policy jsonb, tags jsonb) on commit drop;
insert into given (what, place, payload, encoding, creator, policy, tags) values
    ('nothing', 'in its own row', null, null, null, null, null),
    ('an empty payload', 'in its own row', '', null, null, null, null),
    ('a zero byte', 'in its own row', '\x00', null, null, null, null),
    ('128 bytes', 'in its own row', convert_to(repeat('x', 128), 'UTF8'), null, null, null, null),
    ('129 bytes', 'beside it', convert_to(repeat('x', 129), 'UTF8'), null, null, null, null),
    ('empty company', 'in its own row', 'x', '', '', '{}', '{}'),
    ('an encoding', 'beside it', 'x', 'text', null, null, null),
    ('a creator', 'beside it', 'x', null, 'cron', null, null),
    ('a policy', 'beside it', 'x', null, null, '{"max_replay_count": 1}', null),
    ('tags', 'beside it', 'x', null, null, null, '{"app.run": "7"}'),
    ('an encoding of nothing', 'beside it', null, 'text', null, null, null);
create temporary table made on commit drop as
select
    g.number, w.way,
    ff_tap.created(w.way, g.payload, g.encoding, g.creator, g.policy, g.tags) as execution_id
from given as g
cross join unnest(array[
    'alone', 'alone, with an id', 'in a batch', 'in a batch, with an id', 'in a batch, with a key']) as w (way);
select is(
    (select jsonb_object_agg(m.way, ff_tap.place(m.execution_id)) from made as m where m.number = g.number),
    (select jsonb_object_agg(m.way, g.place) from made as m where m.number = g.number),
    format('%s: the payload stands %s, however it was created', g.what, g.place))
from given as g
order by g.number;
select is_empty(
    $$ select g.what, m.way
       from given as g
       join made as m on m.number = g.number
       cross join lateral flowfabric.ff_read_execution_context(m.execution_id) as c
       where (c.input_payload, c.payload_encoding, c.tags, c.policy) is distinct from (
           coalesce(g.payload, ''), nullif(g.encoding, ''), coalesce(g.tags, '{}'), nullif(g.policy, '{}')) $$,
    'what was given is read, wherever it stands');
select is(
    (select array_agg(distinct d.tags) || array_agg(distinct v.tags)
     from made as m
     cross join lateral flowfabric.ff_describe_execution(m.execution_id) as d
     join flowfabric.ff_v_execution as v on v.execution_id = m.execution_id
     where m.number = 1),
    '{"{}", "{}"}'::jsonb[], 'people see an execution with nothing beside it as one without tags');

-- Claims

create temporary table way (number integer, name text, with_payload boolean) on commit drop;
insert into way (number, name, with_payload)
select row_number() over (partition by r.round order by w.name, p.with_payload) + 200 * r.round, w.name, p.with_payload
from unnest(array['one by one', 'at once', 'with capabilities', 'after lost leases']) as w (name)
cross join unnest(array[true, false]) as p (with_payload)
-- Twice: the second time with tags that are set after the creation, of which claims then know.
cross join unnest(array[0, 1]) as r (round);
create function ff_tap.lane(p_way integer)
returns text
language sql immutable
as $$ select 'way-' || p_way::text $$;
create function ff_tap.claims(p_way integer)
returns setof text
language plpgsql volatile
as $$
declare
    c_lanes constant text[] := array[ff_tap.lane(p_way)];
    v_way way;
    v_claims text;
begin
    select w.* into v_way from way as w where w.number = p_way;
    if v_way.name = 'after lost leases' then
        perform flowfabric.ff_claim_next(c_lanes, 'pool', 'pool-2', p_max => 4, p_lease_ttl_ms => 1);
        perform ff_tap.advance_time(1);
    end if;
    v_claims := case v_way.name
        when 'one by one' then
            'generate_series(1, 4) as n, flowfabric.ff_claim_next(
                $1, ''pool'', ''pool-1'', p_lease_ttl_ms => 1000 + n, p_with_payload => $2)'
        when 'at once' then
            'flowfabric.ff_claim_next($1, ''pool'', ''pool-1'', p_max => 4, p_with_payload => $2)'
        when 'with capabilities' then
            'flowfabric.ff_claim_next($1, ''pool'', ''pool-1'', ''{gpu}'', p_max => 4, p_with_payload => $2)'
        when 'after lost leases' then
            'flowfabric.ff_reclaim_next($1, ''pool'', ''pool-1'', p_max => 4, p_with_payload => $2)'
    end;
    return query execute format(
        'select row(c.payload, c.payload_encoding, c.tags, c.policy)::text from %s as c order by c.execution_id',
        v_claims)
    using c_lanes, v_way.with_payload;
end;
$$;
select ff_tap.execution(
    ff_tap.m(w.number * 10 + x.number), x.policy, ff_tap.lane(w.number), p_payload => x.payload, p_tags => x.tags)
from way as w
cross join (values
    (1, 'input'::bytea, null::jsonb, '{}'::jsonb), (2, null, null, '{}'),
    (3, convert_to(repeat('x', 129), 'UTF8'), null, '{}'), (4, 'company', '{"max_replay_count": 1}', '{"app.run": "7"}')
) as x (number, payload, policy, tags);
select results_eq(
    format('select ff_tap.claims(%s)', w.number),
    format(
        $$ select row(case when %L then nullif(c.input_payload, '') end, c.payload_encoding, c.tags, c.policy)::text
           from generate_series(1, 4) as n
           cross join lateral flowfabric.ff_read_execution_context(ff_tap.m(%s + n)) as c order by n $$,
        w.with_payload, w.number * 10),
    format(
        'claims %s return %s and what came with them', w.name,
        case when w.with_payload then 'payloads' else 'no payloads' end))
from way as w
where w.number < 200
order by w.number;
select flowfabric.ff_set_execution_tags(ff_tap.m(w.number * 10 + x.number), '{"app.run": "8", "app.late": "yes"}')
from way as w
cross join unnest(array[1, 4]) as x (number)
where w.number > 200;
select results_eq(
    format('select ff_tap.claims(%s)', w.number),
    format(
        $$ select row(
               case when %L then nullif(c.input_payload, '') end, c.payload_encoding,
               case when n in (1, 4) then '{"app.run": "8", "app.late": "yes"}'::jsonb else '{}' end, c.policy)::text
           from generate_series(1, 4) as n
           cross join lateral flowfabric.ff_read_execution_context(ff_tap.m(%s + n)) as c order by n $$,
        w.with_payload, w.number * 10),
    format(
        'claims %s return %s and tags that were set later', w.name,
        case when w.with_payload then 'payloads' else 'no payloads' end))
from way as w
where w.number > 200
order by w.number;

-- From a claim to retention, for an execution that ends alone, one that ends in a batch and a member of a flow

create temporary table life (number integer, what text) on commit drop;
insert into life values (101, 'alone'), (102, 'in a batch'), (103, 'in a flow');
create function ff_tap.claimed(p_number integer)
returns text
language sql volatile
as $$
    select concat_ws(' ', convert_from(c.payload, 'UTF8'), c.payload_encoding, c.tags::text)
    from flowfabric.ff_claim_next(array['life-' || p_number::text], 'pool', 'pool-1') as c
$$;
create function ff_tap.complete(p_number integer, p_result bytea)
returns void
language plpgsql volatile
as $$
declare
    v_core flowfabric.ff_exec_core := ff_tap.core(ff_tap.m(p_number));
begin
    if p_number = 102 then
        perform flowfabric.ff_complete_executions(
            array[ff_tap.m(p_number)], array[v_core.current_lease_id], array[v_core.current_lease_epoch],
            array[v_core.current_attempt_id], array[p_result], array['text']);
    else
        perform flowfabric.ff_complete_execution(
            ff_tap.m(p_number), v_core.current_lease_id, v_core.current_lease_epoch, v_core.current_attempt_id,
            p_result, 'text');
    end if;
end;
$$;
create function ff_tap.stored(p_number integer)
returns text
language sql stable
as $$
    select concat_ws(
        ', ', ff_tap.place(ff_tap.m(p_number)), ff_tap.payload(p_number),
        convert_from(r.result, 'UTF8') || '/' || r.result_encoding)
    from flowfabric.ff_get_execution_result(ff_tap.m(p_number)) as r
$$;
select flowfabric.ff_create_flow(ff_tap.flow_id(), 'test');
select ff_tap.execution(ff_tap.m(l.number), p_lane_id => 'life-' || l.number::text, p_payload => 'input')
from life as l;
select flowfabric.ff_add_execution_to_flow(ff_tap.flow_id(), ff_tap.m(103));
select ff_tap.claimed(l.number), ff_tap.complete(l.number, 'output') from life as l;
select is(
    ff_tap.stored(l.number), 'in its own row and beside {}, input, output/text',
    l.what || ': a result gets a row of its own, and the payload stays where it was')
from life as l;
select flowfabric.ff_replay_execution(ff_tap.m(l.number), p_force => true) from life as l;
select is(
    ff_tap.stored(l.number), 'in its own row and beside {}, input', l.what || ': a replay takes only the result away')
from life as l;
select is(ff_tap.claimed(l.number), 'input {}', l.what || ': the next claim has the payload again') from life as l;
select ff_tap.complete(l.number, 'second output') from life as l;
select flowfabric.ff_set_execution_tags(ff_tap.m(l.number), '{"app.run": "7"}') from life as l;
select is(
    ff_tap.stored(l.number), 'in its own row and beside {}, input, second output/text',
    l.what || ': tags leave payload and result where they are')
from life as l;
select flowfabric.ff_replay_execution(ff_tap.m(l.number), p_force => true) from life as l;
select is(
    ff_tap.claimed(l.number), 'input {"app.run": "7"}', l.what || ': the next claim has the payload and its tags')
from life as l;
select ff_tap.complete(l.number, 'third output') from life as l;

select ff_tap.execution(ff_tap.m(104), p_lane_id => 'life-104', p_payload => 'input');
select flowfabric.ff_set_execution_tags(ff_tap.m(104), '{"app.run": "7"}');
select is(ff_tap.stored(104), 'in its own row, input', 'tags leave the payload of a waiting execution alone');
select is(ff_tap.claimed(104), 'input {"app.run": "7"}', 'and its claim has both');
select ff_tap.execution(ff_tap.m(105), p_lane_id => 'life-105');
select flowfabric.ff_set_execution_tags(ff_tap.m(105), '{"app.run": "7"}');
select is(ff_tap.claimed(105), '{"app.run": "7"}', 'where there is no payload, tags make none');
select ff_tap.execution(ff_tap.m(106), p_lane_id => 'life-106', p_payload => 'input');
select ff_tap.claimed(106);
select flowfabric.ff_fail_execution(
    ff_tap.m(106), e.current_lease_id, 1, e.current_attempt_id,
    p_retry_policy => '{"max_retries": 1, "backoff": {"type": "fixed", "delay_ms": 0}}')
from ff_tap.core(ff_tap.m(106)) as e;
select is(ff_tap.claimed(106), 'input {}', 'a retry has the payload of the first attempt');

-- Results as payloads: into a member with a small payload, and into one that is replayed

select ff_tap.flow(6, 111, 'own');
select ff_tap.connect('{111}', 112, 'ref');
select ff_tap.finish(111, 'success', 'passed on');
select is(
    ff_tap.stored(112), 'beside it, passed on/text', 'a result that is passed on takes the place of a small payload');
select flowfabric.ff_set_execution_tags(ff_tap.m(116), '{"app.run": "7"}');
select ff_tap.connect('{115}', 116, 'ref');
select ff_tap.finish(115, 'success', 'passed on');
select is(
    (select ff_tap.stored(116) || ' ' || c.tags::text from flowfabric.ff_read_execution_context(ff_tap.m(116)) as c),
    'beside it, passed on/text {"app.run": "7"}', 'and leaves the tags of a member alone');
select ff_tap.connect('{113}', 114, 'ref');
select ff_tap.finish(113, 'failed');
select flowfabric.ff_replay_execution(ff_tap.m(113));
select ff_tap.finish(113, 'success', 'in the end');
select flowfabric.ff_replay_execution(ff_tap.m(114));
select is(ff_tap.stored(114), 'beside it, in the end/text', 'also when the member is replayed');

select is_empty('select f.* from flowfabric.ff_check_invariants() as f', 'all of that leaves a sound database');
select ff_tap.advance_time(86400000);
select flowfabric.ff_trim_retention(p_limit => 1000);
select is_empty(
    $$ select p.execution_id from flowfabric.ff_exec_payload as p
       where p.execution_id in (select ff_tap.eid(l.number) from life as l)
       union all
       select e.execution_id from flowfabric.ff_exec_core as e
       where e.execution_id in (select ff_tap.eid(l.number) from life as l)
       union all
       select t.execution_id from flowfabric.ff_exec_tag as t
       where t.execution_id in (select ff_tap.eid(l.number) from life as l) $$,
    'retention leaves no row');
select is_empty(
    'select r.* from flowfabric.ff_get_execution_result(ff_tap.m(101)) as r', 'nor a result without a value');
select * from finish();
rollback;
