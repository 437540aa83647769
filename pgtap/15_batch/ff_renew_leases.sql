-- Renewal in batches: one new expiry for all leases that the worker still holds, and a word about each other one.
begin;
\ir ../helpers.sql
select plan(58);

select ff_tap.freeze_time(1000);
\set other '00000000-0000-4000-8000-0000000000ff'
\set flow '00000000-0000-4000-8000-00000000f10f'
create function ff_tap.uuid(p_number integer)
returns uuid
language sql immutable
as $$ select ('00000000-0000-4000-8000-' || lpad(p_number::text, 12, '0'))::uuid $$;
create function ff_tap.id(p_number integer)
returns text
language sql immutable
as $$ select '{fp:86}:' || ff_tap.uuid(p_number)::text $$;
create function ff_tap.traces(p_execution_id text)
returns jsonb
language sql stable
as $$
    select jsonb_build_array(
        to_jsonb(ff_tap.core(p_execution_id)), to_jsonb(ff_tap.attempt(p_execution_id)),
        to_jsonb(ff_tap.note(p_execution_id)), ff_tap.lease_events(p_execution_id),
        ff_tap.completions(p_execution_id))
$$;

create temporary table item (
    number integer,
    execution_id text,
    lease_id uuid default ff_tap.lease_id(),
    lease_epoch bigint default 1,
    attempt_id uuid default ff_tap.attempt_id(),
    expected_code text
);
create function ff_tap.renew(p_lease_ttl_ms bigint default 600)
returns setof flowfabric.ff_renewal_item
language sql volatile
as $$
    select r.*
    from (
        select
            array_agg(i.execution_id order by i.number) as execution_ids,
            array_agg(i.lease_id order by i.number) as lease_ids,
            array_agg(i.lease_epoch order by i.number) as lease_epochs,
            array_agg(i.attempt_id order by i.number) as attempt_ids
        from item as i
    ) as b, flowfabric.ff_renew_leases(
        b.execution_ids, b.lease_ids, b.lease_epochs, b.attempt_ids, p_lease_ttl_ms) as r
$$;
-- What the single call would say about an item that it refuses; a raise writes nothing.
create function ff_tap.single_refusal(p_number integer)
returns jsonb
language sql volatile
as $$
    select ff_tap.error_of(format(
        'select flowfabric.ff_renew_lease(%L, %L, %L, %L)', i.execution_id, i.lease_id, i.lease_epoch, i.attempt_id))
    from item as i
    where i.number = p_number
$$;

-- Extending
select ff_tap.leased_execution(ff_tap.id(1), p_lease_epoch => 7, p_lease_expires_at_ms => 1500);
select ff_tap.leased_execution(ff_tap.id(2));
insert into item (number, execution_id, lease_epoch) values (1, ff_tap.id(2), 1), (2, ff_tap.id(1), 7);
create temporary table before as
select n, to_jsonb(ff_tap.core(ff_tap.id(n))) as core, to_jsonb(ff_tap.attempt(ff_tap.id(n))) as attempt
from generate_series(1, 2) as n;
select ff_tap.freeze_time(1499);
select results_eq(
    'select r.* from ff_tap.renew(600) as r',
    $$ select i.number, i.execution_id, 'renewed', null::text, null::text, null::jsonb, 2099::bigint, 1899::bigint,
           i.lease_epoch from item as i order by i.number $$,
    'all leases get now + ttl, and two thirds of it as the advised time to renew, in input order');
select is(
    to_jsonb(ff_tap.core(ff_tap.id(b.n))),
    b.core || '{"lease_expires_at_ms": 2099, "lease_last_renewed_at_ms": 1499, "last_mutation_at_ms": 1499}',
    format('a renewal changes the lease times of execution %s and nothing else', b.n))
from before as b
order by b.n;
select is(
    ff_tap.lease_events(ff_tap.id(1)), array['acquired:issue_grant_and_claim'], 'a renewal writes no event');
select results_eq(
    'select r.lease_expires_at_ms from ff_tap.renew(600) as r', $$ values (2099::bigint), (2099::bigint) $$,
    'a repeat gives the same answer in the same instant');
select results_eq(
    'select r.lease_expires_at_ms, r.lease_renewal_deadline_ms from ff_tap.renew(100) as r',
    $$ values (1599::bigint, 1565::bigint), (1599::bigint, 1565::bigint) $$,
    'a shorter lease replaces a longer one; the advised time is rounded down');
select is(
    (select r.lease_expires_at_ms from flowfabric.ff_renew_leases(
        array[ff_tap.id(2)], array[ff_tap.lease_id()], '{1}', array[ff_tap.attempt_id()]) as r),
    31499::bigint, 'the ttl is 30 seconds unless given');
select flowfabric.ff_renew_leases(
    array[ff_tap.id(1)], array[ff_tap.lease_id()], '{7}', array[ff_tap.attempt_id()]);
select is(
    (select r.code from flowfabric.ff_renew_leases(
        array[replace(ff_tap.id(1), 'fp', 'FP')], array[ff_tap.lease_id()], '{7}', array[ff_tap.attempt_id()]) as r),
    'invalid_input', 'the tag of an id has no capitals');

-- The event of a renewal is a setting
select flowfabric.ff_set_setting('emit_lease_renewed', 1);
select is((select count(*) from ff_tap.renew() as r where r.outcome = 'renewed'), 2::bigint, 'leases are renewed');
select is(
    (select jsonb_agg(
        jsonb_strip_nulls(to_jsonb(v)) - array['event_id', 'xact_id', 'epoch'] order by v.execution_id)
     from flowfabric.ff_lease_event as v
     where v.event_type = 'renewed' and v.execution_id between ff_tap.uuid(1) and ff_tap.uuid(2)),
    (select jsonb_agg(
        jsonb_build_object(
            'partition_key', 86, 'execution_id', ff_tap.uuid(n), 'event_type', 'renewed',
            'lease_id', ff_tap.lease_id(), 'lease_epoch', case n when 1 then 7 else 1 end,
            'attempt_index', case n when 1 then 1 else 0 end, 'attempt_id', ff_tap.attempt_id(),
            'worker_id', 'worker', 'worker_instance_id', 'worker-1', 'namespace', 'default', 'occurred_at_ms', 1499)
        order by n)
     from generate_series(1, 2) as n),
    'with the setting on, one event per lease names the lease that was renewed');
select flowfabric.ff_set_setting('lease_events', 0);
select is((select count(*) from ff_tap.renew() as r where r.outcome = 'renewed'), 2::bigint, 'leases are renewed');
select is(
    (select count(*) from flowfabric.ff_lease_event as v
     where v.event_type = 'renewed' and v.execution_id between ff_tap.uuid(1) and ff_tap.uuid(2)), 2::bigint,
    'without lease events there is none about a renewal either');
select flowfabric.ff_set_setting('lease_events', 1);
select flowfabric.ff_set_setting('emit_lease_renewed', 0);

-- Every refusal, one item each, among good ones
truncate item;
select ff_tap.freeze_time(2000);
select ff_tap.leased_execution(ff_tap.id(n)) from unnest(array[10, 15, 16, 20, 21, 23, 24, 25, 26, 29]) as n;
select ff_tap.leased_execution(ff_tap.id(22), p_lease_epoch => 7, p_lease_expires_at_ms => 2500);
select ff_tap.execution(ff_tap.id(17));
select ff_tap.leased_execution(ff_tap.id(18));
select flowfabric.ff_complete_execution(ff_tap.id(18), ff_tap.lease_id(), 1, ff_tap.attempt_id());
select ff_tap.suspended_execution(ff_tap.id(19));
select flowfabric.ff_revoke_lease(ff_tap.id(20), p_reason => 'maintenance');
select ff_tap.leased_execution(ff_tap.id(27), '{"retry_policy": {"max_retries": 1}}');
select flowfabric.ff_fail_execution(ff_tap.id(27), ff_tap.lease_id(), 1, ff_tap.attempt_id());
select ff_tap.leased_execution(ff_tap.id(28), p_lease_expires_at_ms => 2400);
insert into item (number, execution_id, lease_id, lease_epoch, attempt_id, expected_code) values
    (1, ff_tap.id(10), ff_tap.lease_id(), 1, ff_tap.attempt_id(), null),
    (2, null, ff_tap.lease_id(), 1, ff_tap.attempt_id(), 'invalid_input'),
    (3, 'nonsense', ff_tap.lease_id(), 1, ff_tap.attempt_id(), 'invalid_input'),
    (4, '{fp:086}:00000000-0000-4000-8000-000000000010', null, null, null, 'invalid_input'),
    (5, '{fp:40000}:00000000-0000-4000-8000-000000000010', null, null, null, 'invalid_input'),
    (6, '{fp:86}:000000000000-4000-8000-0000-00000010', null, null, null, 'invalid_input'),
    (7, '', null, null, null, 'invalid_input'),
    (8, ff_tap.id(14), null, 1, null, 'execution_not_found'),
    (9, ff_tap.id(15), null, null, null, 'fence_required'),
    (10, ff_tap.id(16), ff_tap.lease_id(), null, ff_tap.attempt_id(), 'partial_fence_triple'),
    (11, ff_tap.id(17), ff_tap.lease_id(), 1, ff_tap.attempt_id(), 'execution_not_active'),
    (12, ff_tap.id(18), ff_tap.lease_id(), 1, ff_tap.attempt_id(), 'execution_not_active'),
    (13, ff_tap.id(19), ff_tap.lease_id(), 1, ff_tap.attempt_id(), 'execution_not_active'),
    (14, ff_tap.id(20), ff_tap.lease_id(), 1, ff_tap.attempt_id(), 'lease_revoked'),
    (15, ff_tap.id(22), ff_tap.lease_id(), 7, ff_tap.attempt_id(), 'lease_expired'),
    (16, ff_tap.id(23), :'other', 1, ff_tap.attempt_id(), 'stale_lease'),
    (17, ff_tap.id(24), ff_tap.lease_id(), 2, ff_tap.attempt_id(), 'stale_lease'),
    (18, ff_tap.id(25), ff_tap.lease_id(), 1, :'other', 'stale_lease'),
    (19, ff_tap.id(26), :'other', 0, :'other', 'stale_lease'),
    (20, ff_tap.id(27), ff_tap.lease_id(), 1, ff_tap.attempt_id(), 'execution_not_active'),
    (21, ff_tap.id(28), ff_tap.lease_id(), 1, ff_tap.attempt_id(), 'lease_expired'),
    (22, upper(ff_tap.id(29)), ff_tap.lease_id(), 1, ff_tap.attempt_id(), 'invalid_input'),
    (23, ff_tap.id(21), ff_tap.lease_id(), 1, ff_tap.attempt_id(), null);
select ff_tap.freeze_time(2500);
select flowfabric.ff_mark_lease_expired_if_due(ff_tap.id(28));
create temporary table before_refusals as
select i.number, ff_tap.traces(i.execution_id) as traces
from item as i
where i.number between 9 and 21;
create temporary table answer as select r.* from ff_tap.renew() as r;
select results_eq(
    'select a.item, a.execution_id, a.outcome, a.code from answer as a order by a.item',
    $$ select i.number, i.execution_id, case when i.expected_code is null then 'renewed' else 'refused' end,
           i.expected_code from item as i order by i.number $$,
    'exactly the bad items are refused, each with its own code, under the id as it was given');
select results_eq(
    'select a.item, a.sqlstate from answer as a order by a.item',
    $$ select i.number, c.sqlstate from item as i left join flowfabric.ff_list_error_codes() as c
       on c.code = i.expected_code order by i.number $$,
    'each refusal has the SQLSTATE of its code');
select is(
    a.detail, ff_tap.single_refusal(a.item) || '{"fn": "ff_renew_leases"}',
    format('item %s, %s: the detail is that of the single call', a.item, a.code))
from answer as a
where a.code is not null
order by a.item;
select results_eq(
    'select i.number, ff_tap.traces(i.execution_id) from item as i join before_refusals as b using (number) order by 1',
    'select b.number, b.traces from before_refusals as b order by 1',
    'a refused item leaves no trace');
select is(
    (select array_agg((ff_tap.core(ff_tap.id(n))).lease_expires_at_ms) from unnest(array[10, 21]) as n),
    array[3100::bigint, 3100], 'the good items among them are renewed');
select is(
    (select count(*) from answer as a
     where a.outcome = 'refused' and num_nulls(a.lease_expires_at_ms, a.lease_renewal_deadline_ms, a.lease_epoch) < 3),
    0::bigint, 'a refused item has no lease to show');

-- One lease twice
truncate item;
drop table answer;
select ff_tap.leased_execution(ff_tap.id(35));
insert into item (number, execution_id) values (1, ff_tap.id(35)), (2, ff_tap.id(35));
select results_eq(
    'select r.item, r.outcome, r.sqlstate, r.detail from ff_tap.renew() as r',
    $$ values (1, 'renewed', null, null::jsonb), (2, 'refused', 'ZV001', jsonb_build_object(
        'code', 'invalid_input', 'fn', 'ff_renew_leases', 'field', 'execution_ids', 'reason', 'duplicate_in_batch',
        'value', ff_tap.id(35))) $$,
    'the first occurrence is renewed, the other refused');

-- After another worker has taken over
truncate item;
select ff_tap.leased_execution(ff_tap.id(36), p_lease_expires_at_ms => 2600);
insert into item (number, execution_id) values (1, ff_tap.id(36));
select ff_tap.freeze_time(2600);
select is(
    (select r.code from ff_tap.renew() as r), 'lease_expired', 'a lease is over at its expiry, marked or not');
select flowfabric.ff_reclaim_execution(
    ff_tap.id(36), 'worker', 'worker-2',
    p_grant_key => (
        select g.grant_key from flowfabric.ff_issue_reclaim_grant(ff_tap.id(36), 'worker', 'worker-2') as g));
select is(
    (select r.code || ' ' || (r.detail ->> 'mismatch') from ff_tap.renew() as r),
    'stale_lease ["lease_id", "lease_epoch", "attempt_id"]', 'the old holder is told that everything has changed');

-- A member of a flow
truncate item;
insert into flowfabric.ff_flow_core (
    partition_key, flow_id, flow_kind, namespace, public_flow_state, created_at_ms, last_mutation_at_ms)
values (86, :'flow', 'test', 'default', 'open', 0, 0);
select ff_tap.leased_execution(ff_tap.id(50));
update flowfabric.ff_exec_core as e set flow_id = :'flow' where e.execution_id = ff_tap.uuid(50);
insert into item (number, execution_id) values (1, ff_tap.id(50));
select is((select r.outcome from ff_tap.renew() as r), 'renewed', 'the lease of a member is renewed like any other');

-- A hundred, out of order
truncate item;
select ff_tap.leased_execution(ff_tap.id(n)) from generate_series(1001, 1100) as n;
insert into item (number, execution_id)
select row_number() over (order by md5(n::text)), ff_tap.id(n::integer) from generate_series(1001, 1100) as n;
select ff_tap.advance_time(5);
create temporary table answer as
select row_number() over () as position, r.* from ff_tap.renew() as r;
select results_eq(
    'select a.position::integer, a.item, a.execution_id, a.outcome, a.lease_expires_at_ms from answer as a
     order by a.position',
    $$ select i.number, i.number, i.execution_id, 'renewed', 3205::bigint from item as i order by i.number $$,
    'a hundred leases get one new expiry and are answered in input order');
select is(
    (select count(*) from item as i, ff_tap.core(i.execution_id) as e where e.lease_expires_at_ms = 3205),
    100::bigint, 'all of them have it');

-- The call as a whole
create function ff_tap.call(
    p_ids text[], p_leases uuid[] default '{}', p_epochs bigint[] default '{}', p_attempts uuid[] default '{}',
    p_ttl_ms bigint default 600)
returns text
language sql immutable
as $$
    select format(
        'select * from flowfabric.ff_renew_leases(%L, %L, %L, %L, %L)', p_ids, p_leases, p_epochs, p_attempts,
        p_ttl_ms)
$$;
select is_empty(ff_tap.call('{}'), 'an empty batch gives no rows');
select throws_ok(ff_tap.call('{}', p_ttl_ms => 0), 'ZV001', 'invalid_input', 'a ttl of 0 is refused');
select is_empty(ff_tap.call('{}', p_ttl_ms => 86400000), 'a ttl of one day is the longest');
select is(
    ff_tap.error_of(c.call) - 'fn',
    jsonb_strip_nulls(jsonb_build_object(
        'code', 'invalid_input', 'field', c.field, 'reason', c.reason, 'value', c.value)),
    c.description)
from (values
    (ff_tap.call(null), 'execution_ids', 'null', null, 'the ids must be given'),
    (ff_tap.call('{}', null), 'lease_ids', 'null', null, 'the lease ids must be given'),
    (ff_tap.call('{}', '{}', null), 'lease_epochs', 'null', null, 'the lease epochs must be given'),
    (ff_tap.call('{}', '{}', '{}', null), 'attempt_ids', 'null', null, 'the attempt ids must be given'),
    (ff_tap.call('{a,b}', '{null,null}', '{1,2}', '{null}'), 'attempt_ids', 'length_mismatch', '1',
        'an array of another length is refused'),
    (ff_tap.call('{a,b}', '{null,null}', '{{1,2}}', '{null,null}'), 'lease_epochs', 'length_mismatch', '[1:1][1:2]',
        'a nested array is refused'),
    (ff_tap.call(array_fill('x'::text, array[1001]), array_fill(null::uuid, array[1001]),
        array_fill(1::bigint, array[1001]), array_fill(null::uuid, array[1001])),
        'execution_ids', 'too_many_items', '1001', 'more than 1000 items are refused as a whole'),
    (ff_tap.call('{}', p_ttl_ms => null), 'lease_ttl_ms', 'null', null, 'a ttl must be given'),
    (ff_tap.call('{}', p_ttl_ms => 0), 'lease_ttl_ms', 'out_of_range', '0', 'a ttl of 0 is out of range'),
    (ff_tap.call('{}', p_ttl_ms => 86400001), 'lease_ttl_ms', 'out_of_range', '86400001',
        'a ttl of more than a day is out of range')
) as c (call, field, reason, value, description);
select is(
    (select count(*) from flowfabric.ff_renew_leases(
        (select array_agg(ff_tap.id(n)) from generate_series(2001, 3000) as n), array_fill(:'other'::uuid, array[1000]),
        array_fill(1::bigint, array[1000]), array_fill(:'other'::uuid, array[1000])) as r
     where r.code = 'execution_not_found'),
    1000::bigint, '1000 items are taken');
select * from finish();
rollback;
