-- Listing lanes: all of them, a page at a time.
begin;
\ir ../helpers.sql
select plan(12);

create function ff_tap.lanes(p_after text default null, p_limit integer default 100)
returns text[]
language sql volatile
as $$
    select coalesce(array_agg(l.lane_id), '{}') from flowfabric.ff_list_lanes(p_after, p_limit) as l
$$;

delete from flowfabric.ff_lane_registry;
select is(ff_tap.lanes(), '{}', 'an empty registry lists nothing');
select ff_tap.freeze_time(1000);
select ff_tap.execution(p_lane_id => 'used');
select flowfabric.ff_register_lane('Zoo', 'boot'), flowfabric.ff_register_lane('a'), flowfabric.ff_register_lane('b');
select ff_tap.freeze_time(2000);
select flowfabric.ff_set_lane_state('a', 'paused', 'why');
select flowfabric.ff_register_lane('~');
select is(ff_tap.lanes(), '{Zoo,a,b,used,~}', 'lanes in byte order, registered or used alike');
select is(ff_tap.lanes(p_limit => 2), '{Zoo,a}', 'the first page');
select is(ff_tap.lanes('a', 2), '{b,used}', 'the second');
select is(ff_tap.lanes('used', 2), '{~}', 'the last');
select is(ff_tap.lanes('~', 2), '{}', 'and nothing behind it');
select is(ff_tap.lanes('aa'), '{b,used,~}', 'the cursor need not exist');
select is(
    (select array_agg(l.has_more) from flowfabric.ff_list_lanes('a', 2) as l)
    || (select array_agg(l.has_more) from flowfabric.ff_list_lanes('used', 2) as l), '{t,t,f}',
    'every row tells whether there is more');
select is(ff_tap.lanes(p_limit => 0), '{}', 'a page of 0 is empty');
select is(
    (select to_jsonb(l) from flowfabric.ff_list_lanes('Zoo', 1) as l),
    '{"lane_id": "a", "lane_state": "paused", "registered_at_ms": 1000, "registered_by": "operator",
      "state_changed_at_ms": 2000, "state_reason": "why", "has_more": true}', 'with state and registration');
select is(
    (select l.registered_by from flowfabric.ff_list_lanes('b', 1) as l), 'create_execution',
    'a lane that was used says so');
select throws_ok(
    $$ select flowfabric.ff_list_lanes(p_limit => -1) $$, 'ZV001', 'invalid_input', 'a page is not negative');

select * from finish();
rollback;
