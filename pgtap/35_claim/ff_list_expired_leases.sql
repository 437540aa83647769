-- Expired leases: whoever decides about a takeover sees them at once, marked or not.
begin;
\ir ../helpers.sql
select plan(20);

create function ff_tap.id(p_number integer)
returns text
language sql immutable
as $$ select '{fp:86}:00000000-0000-4000-8000-' || lpad(p_number::text, 12, '0') $$;

create function ff_tap.expired(
    p_as_of_ms bigint default null,
    p_namespace text default null,
    p_limit integer default 1000,
    p_after_expires_at_ms bigint default null,
    p_after_number integer default null
)
returns integer[]
language sql volatile
as $$
    select coalesce(array_agg(right(l.execution_id, 12)::integer), '{}')
    from flowfabric.ff_list_expired_leases(
        p_as_of_ms, p_namespace, p_limit, p_after_expires_at_ms,
        case when p_after_number is not null then 86 end::smallint,
        right(ff_tap.id(p_after_number), 36)::uuid) as l
$$;

select ff_tap.freeze_time(1000);
select ff_tap.leased_execution(
    ff_tap.id(n), p_lease_expires_at_ms => case when n = 5 then 1400 else 1500 end,
    p_lease_id => md5('lease' || n::text)::uuid, p_attempt_id => md5('attempt' || n::text)::uuid)
from generate_series(1, 5) as n;
select ff_tap.leased_execution(ff_tap.id(6), p_lease_expires_at_ms => 9000);
select ff_tap.freeze_time(1499);
select is(ff_tap.expired(), '{5}', 'a lease is listed once it has run out');
select ff_tap.freeze_time(1500);
select is(ff_tap.expired(), '{5,1,2,3,4}', 'at that instant, longest expired first, then by key');
select is(
    (select to_jsonb(l) from flowfabric.ff_list_expired_leases(p_limit => 1) as l),
    jsonb_build_object(
        'execution_id', ff_tap.id(5), 'lease_id', md5('lease5')::uuid, 'lease_epoch', 1,
        'attempt_id', md5('attempt5')::uuid, 'attempt_index', 0, 'worker_id', 'worker',
        'worker_instance_id', 'worker-1', 'lease_expires_at_ms', 1400, 'ownership_state', 'leased', 'has_more', true,
        'next_after_expires_at_ms', 1400, 'next_after_partition_key', 86,
        'next_after_execution_id', right(ff_tap.id(5), 36), 'takeover_at_ms', 1400),
    'with the lease, who held it and when it may be taken over');
select is(ff_tap.expired(p_as_of_ms => 1450), '{5}', 'as of an earlier time');
select is(ff_tap.expired(p_as_of_ms => 9000), '{5,1,2,3,4,6}', 'or of a later one');
select is(ff_tap.expired(p_as_of_ms => -1), '{}', 'or of none at all');

select is(ff_tap.expired(p_limit => 3), '{5,1,2}', 'the first page');
select is(ff_tap.expired(null, null, 3, 1500, 2), '{3,4}', 'equal expiries go on over the border of a page');
select is(ff_tap.expired(null, null, 3, 1400, 5), '{1,2,3}', 'and so do different ones');
select is(ff_tap.expired(p_limit => 0), '{}', 'a page of 0 is empty');

select flowfabric.ff_scan_expired_leases(2);
select is(ff_tap.expired(), '{5,1,2,3,4}', 'what a scanner has marked stays in its place');
select is(
    (select array_agg(l.ownership_state::text) from flowfabric.ff_list_expired_leases(p_limit => 3) as l),
    '{lease_expired_reclaimable,lease_expired_reclaimable,leased}', 'and is told apart');
select is(ff_tap.expired(null, null, 2, 1400, 5), '{1,2}', 'pages hold both kinds');
update flowfabric.ff_exec_core as e set lease_reclaim_count = 1 where e.execution_id = right(ff_tap.id(4), 36)::uuid;
select is(
    (select l.takeover_at_ms
     from flowfabric.ff_list_expired_leases() as l where l.execution_id = ff_tap.id(4)),
    1500 + flowfabric._ff_takeover_backoff_ms(right(ff_tap.id(4), 36)::uuid, 1, 2),
    'after a second loss in a row the takeover waits, before a scanner has marked it');
select flowfabric.ff_mark_lease_expired_if_due(ff_tap.id(4));
select is(
    (select l.takeover_at_ms
     from flowfabric.ff_list_expired_leases() as l where l.execution_id = ff_tap.id(4)),
    (ff_tap.core(ff_tap.id(4))).delay_until_ms, 'and just as long after');
select flowfabric.ff_revoke_lease(ff_tap.id(2));
select ff_tap.freeze_time(1000);
select flowfabric.ff_renew_lease(ff_tap.id(3), md5('lease3')::uuid, 1, md5('attempt3')::uuid, 5000);
select ff_tap.freeze_time(1500);
select is(ff_tap.expired(), '{5,1,4}', 'what was revoked or renewed is not expired');
update flowfabric.ff_exec_core as e set namespace = 'tenant' where e.execution_id in (
    right(ff_tap.id(1), 36)::uuid, right(ff_tap.id(4), 36)::uuid);
select is(ff_tap.expired(p_namespace => 'tenant'), '{1,4}', 'a namespace sees its own');

select is(
    ff_tap.error_of($$ select flowfabric.ff_list_expired_leases(p_namespace => '') $$) ->> 'reason', 'empty',
    'an empty namespace does not mean all of them');
select is(
    ff_tap.error_of($$ select flowfabric.ff_list_expired_leases(p_after_expires_at_ms => 5) $$) ->> 'field',
    'after_partition_key', 'a cursor is whole or none');
select throws_ok(
    $$ select flowfabric.ff_list_expired_leases(p_limit => null) $$, 'ZV001', 'invalid_input', 'a page has a size');

select * from finish();
rollback;
