-- Listing the signing keys that verify tokens right now.
begin;
\ir helpers.sql
select plan(7);

select ff_tap.freeze_time(1000);
prepare listing as select k.kid collate "default", k.status, k.expires_at_ms, k.installed_at_ms
from flowfabric.ff_list_waitpoint_hmac_kids() as k;
select is_empty('execute listing', 'without a key there are none');
select ff_tap.signing_key('a');
select results_eq(
    'execute listing', $$values ('a', 'current', null::bigint, 1000::bigint)$$, 'the first key is the current one');
select ff_tap.signing_key('b', 900);
select ff_tap.signing_key('c', 300);
select results_eq(
    'execute listing',
    $$values
        ('c', 'current', null::bigint, 1000::bigint), ('b', 'verifying', 1300, 1000), ('a', 'verifying', 1900, 1000)$$,
    'the current one first, then those that verify, by their end');
select ff_tap.freeze_time(1300);
select is((select count(*) from flowfabric.ff_list_waitpoint_hmac_kids()), 3::bigint, 'the last millisecond counts');
select ff_tap.freeze_time(1301);
select results_eq(
    'execute listing', $$values ('c', 'current', null::bigint, 1000::bigint), ('a', 'verifying', 1900, 1000)$$,
    'a key whose grace is over is not listed, cleaned up or not');
select is((select count(*) from flowfabric.ff_waitpoint_hmac), 3::bigint, 'listing removes nothing');
select is(
    (select array_agg(a.attname::text order by a.attnum) from pg_attribute as a
     where a.attrelid = 'flowfabric.ff_kid_listing'::regclass), '{kid,status,expires_at_ms,installed_at_ms}'::text[],
    'there is no place for a secret in the answer');

select * from finish();
rollback;
