-- Looking at a queue: the order of claims without claiming.
begin;
\ir ../helpers.sql
select plan(23);

create function ff_tap.id(p_number integer)
returns text
language sql immutable
as $$ select '{fp:86}:00000000-0000-4000-8000-' || lpad(p_number::text, 12, '0') $$;

create function ff_tap.queue(
    p_lane text default 'default',
    p_limit integer default 100,
    p_capabilities text[] default null,
    p_after_priority integer default null,
    p_after_created_at_ms bigint default null,
    p_after_execution_id text default null
)
returns integer[]
language sql volatile
as $$
    select coalesce(array_agg(right(q.execution_id, 12)::integer), '{}')
    from flowfabric.ff_scan_eligible(
        p_lane, p_limit, p_capabilities, p_after_priority, p_after_created_at_ms, p_after_execution_id) as q
$$;

create function ff_tap.refusal(p_arguments text)
returns text
language sql volatile
as $$
    select concat_ws(' ', e ->> 'code', coalesce(e ->> 'field', e ->> 'side'), e ->> 'reason')
    from ff_tap.error_of('select flowfabric.ff_scan_eligible(' || p_arguments || ')') as e
$$;

select ff_tap.freeze_time(2000);
select ff_tap.execution(ff_tap.id(5)), ff_tap.execution(ff_tap.id(4));
select ff_tap.execution(ff_tap.id(7), p_lane_id => 'other');
select ff_tap.execution(ff_tap.id(3), '{"routing_requirements": {"required_capabilities": ["gpu"]}}');
select ff_tap.execution(ff_tap.id(8), p_delay_until_ms => 9000);
select ff_tap.freeze_time(1000);
select ff_tap.execution(ff_tap.id(6)), ff_tap.execution(ff_tap.id(2), p_priority => 7);
select ff_tap.execution(
    ff_tap.id(1), '{"routing_requirements": {"required_capabilities": ["gpu", "big"]}}', p_priority => 9);
select ff_tap.freeze_time(3000);

select is(ff_tap.queue(), '{1,2,6,3,4,5}', 'the queue of a lane, over all capabilities, in the order of claims');
select results_eq(
    $$ select right(q.execution_id, 1), q.priority, q.created_at_ms, q.attempt_state::text, q.required_capabilities,
              q.has_more
       from flowfabric.ff_scan_eligible('default', 2) as q $$,
    $$ values ('1', 9, 1000::bigint, 'pending_first_attempt', '{big,gpu}'::text[], true),
              ('2', 7, 1000, 'pending_first_attempt', '{}', true) $$, 'with what a dashboard shows');
select is(ff_tap.queue(p_capabilities => '{}'), '{2,6,4,5}', 'without capabilities: what any worker can do');
select is(ff_tap.queue(p_capabilities => '{gpu}'), '{2,6,3,4,5}', 'with some: what they cover');
select is(ff_tap.queue(p_capabilities => '{big,gpu,x}'), '{1,2,6,3,4,5}', 'more than needed does no harm');
select is(ff_tap.queue('other'), '{7}', 'another lane is another queue');
select is(ff_tap.queue('nobody'), '{}', 'an unknown lane is empty');
select is(ff_tap.queue(p_limit => 0), '{}', 'a page of 0 is empty');

select is(ff_tap.queue(p_limit => 3), '{1,2,6}', 'the first page');
select is(ff_tap.queue('default', 3, null, 0, 1000, ff_tap.id(6)), '{3,4,5}', 'the page behind its last row');
select is(ff_tap.queue('default', 3, null, 0, 2000, ff_tap.id(4)), '{5}', 'ties are told apart by the id');
select is(ff_tap.queue('default', 3, null, 0, 2000, ff_tap.id(5)), '{}', 'behind the last row is nothing');
select is(
    (select array_agg(q.has_more) from flowfabric.ff_scan_eligible('default', 3, null, 7, 1000, ff_tap.id(2)) as q),
    '{t,t,t}', 'every row tells whether there is more');
select is(
    (select bool_or(q.has_more) from flowfabric.ff_scan_eligible('default', 6) as q), false,
    'a page that holds all has no more');
select is(
    ff_tap.queue('default', 9, '{gpu}', 7, 1000, ff_tap.id(2)), '{6,3,4,5}', 'a cursor and capabilities go together');

select flowfabric.ff_claim_next('{default}', 'pool', 'pool-1', p_max => 2);
select is(ff_tap.queue(), '{1,3,4,5}', 'what is claimed has left the queue');
select flowfabric.ff_issue_claim_grant(ff_tap.id(4), 'pool', 'pool-1', 'default');
select is(ff_tap.queue(), '{1,3,4,5}', 'what is granted has not');

select is(ff_tap.refusal('null'), 'invalid_input lane null', 'a lane is required');
select is(ff_tap.refusal($$ '' $$), 'invalid_input lane empty', 'with a name');
select is(ff_tap.refusal($$ 'a', -1 $$), 'invalid_input limit out_of_range', 'a page is not negative');
select is(ff_tap.refusal($$ 'a', 1, '{a,null}' $$), 'invalid_capabilities worker non_string_token', 'tokens are texts');
select is(
    ff_tap.refusal($$ 'a', p_after_priority => 1 $$), 'invalid_input after_created_at_ms null',
    'a cursor is whole or none');
select is(
    ff_tap.refusal($$ 'a', 1, null, 1, 1, 'x' $$), 'invalid_input execution_id missing_tag', 'and ends in an id');

select * from finish();
rollback;
