-- Waiting for events: who is recorded as waiting for what, until when. That they are woken is shown in tests/event.
begin;
\ir helpers.sql
select plan(40);

prepare wait (text[], text, integer, bigint) as
select w.* from flowfabric.ff_wait_for_events('me', $1, $2, $3, $4) as w;
create function ff_tap.waiters()
returns text[]
language sql stable
as $$
    select coalesce(
        array_agg(
            concat_ws(' ', w.channel, w.key, w.waiter_id, w.until_ms) order by w.channel, w.key, w.waiter_id), '{}')
    from flowfabric.ff_waiter as w
$$;

select ff_tap.freeze_time(1000);
select results_eq(
    $$ select w.* from flowfabric.ff_wait_for_events('me', '{completion}') as w $$,
    $$ values (6000::bigint, array['ff_completion'], true) $$, 'a waiter is woken for 5 seconds');
select is(ff_tap.waiters(), array['ff_completion * me 6000'], 'which is recorded');
select ff_tap.freeze_time(2000);
select results_eq(
    $$ execute wait('{worker,lease,dispatch,lease,signal,operator}', null, null, 100) $$,
    $$ values (2100::bigint,
               array['ff_dispatch', 'ff_lease_event', 'ff_operator_event', 'ff_signal_event', 'ff_worker_event'], true) $$,
    'each stream has a channel to listen on');
select is(
    ff_tap.waiters(),
    array['ff_completion * me 6000', 'ff_dispatch * me 2100', 'ff_lease_event * me 2100', 'ff_operator_event * me 2100',
          'ff_signal_event * me 2100', 'ff_worker_event * me 2100'],
    'what was recorded before stays');
select results_eq(
    $$ execute wait('{lease}', null, null, 600000) $$, $$ values (602000::bigint, array['ff_lease_event'], true) $$,
    'the same call again refreshes');
select is(ff_tap.waiters() @> array['ff_lease_event * me 602000'], true, 'the time of its own row');
select results_eq(
    format($$ execute wait('{}', %L, 3, 5000) $$, ff_tap.id(10)),
    $$ values (7000::bigint, array['ff_stream'], true) $$, 'a tailer waits for one attempt, which need not exist');
select is(
    ff_tap.waiters() @> array['ff_stream 00000000-0000-4000-8000-000000000010_3 me 7000'], true,
    'under the id of its execution and the index');
select results_eq(
    format($$ execute wait('{completion}', %L, 0, 5000) $$, ff_tap.id(10)),
    $$ values (7000::bigint, array['ff_completion', 'ff_stream'], true) $$, 'one call can be for both');
select flowfabric.ff_wait_for_events('you', '{lease}');
select results_eq(
    $$ execute wait('{lease,signal}', null, null, 0) $$,
    $$ values (null::bigint, array['ff_lease_event', 'ff_signal_event'], true) $$, '0 withdraws');
select is(
    (select array_agg(distinct w.waiter_id::text) from flowfabric.ff_waiter as w
     where w.channel in ('ff_lease_event', 'ff_signal_event')), array['you'], 'what was named, and nobody else');
select is(
    (select count(*) from flowfabric.ff_waiter as w where w.waiter_id = 'me'), 6::bigint, 'and nothing else');
select results_eq(
    format($$ execute wait('{}', %L, 0, 0) $$, ff_tap.id(10)),
    $$ values (null::bigint, array['ff_stream'], true) $$, 'a tailer withdraws likewise');
select is(
    (select array_agg(w.key::text) from flowfabric.ff_waiter as w where w.channel = 'ff_stream'),
    array['00000000-0000-4000-8000-000000000010_3'], 'from one attempt');
select results_eq(
    $$ execute wait('{lease}', null, null, 0) $$, $$ values (null::bigint, array['ff_lease_event'], true) $$,
    'withdrawing twice is no error');

-- Whether notifications come at all
select flowfabric.ff_set_setting('notify_lease', 0);
select flowfabric.ff_set_setting('notify_completion', 2);
select results_eq(
    $$ select w.notify from flowfabric.ff_wait_for_events('me', '{lease}') as w $$, 'values (false)',
    'a channel that is switched off must be polled');
select results_eq(
    $$ select w.notify from flowfabric.ff_wait_for_events('me', '{completion}') as w $$, 'values (true)',
    'one that is left to the tick need not');
select results_eq(
    $$ select w.notify from flowfabric.ff_wait_for_events('me', '{completion,lease}') as w $$, 'values (false)',
    'of several the weakest counts');

-- Names
select lives_ok(
    format('select flowfabric.ff_wait_for_events(%L, %L)', repeat('x', 256), '{lease}'), 'a name has up to 256 bytes');
select is(
    ff_tap.error_of(format('select flowfabric.ff_wait_for_events(%L, %L)', c.name, '{x}')) - array['fn', 'value'],
    jsonb_build_object('code', 'invalid_input', 'field', 'waiter_id', 'reason', c.reason), c.description)
from (values
    (null, 'null', 'a waiter has a name'), ('', 'empty', 'which is not empty'), (repeat('x', 257), 'too_long', 'nor longer'),
    ('a b', 'space_or_control', 'and has no space'), (E'a\x01', 'space_or_control', 'nor a control character')
) as c (name, reason, description);

-- Refusals
select ff_tap.waiters() as waiters_before \gset
select is(
    ff_tap.error_of(c.call) - array['fn'],
    jsonb_strip_nulls(
        jsonb_build_object('code', 'invalid_input', 'field', c.field, 'reason', c.reason, 'value', c.value)),
    c.description)
from (values
    ($$ execute wait('{lease,leases}', null, null, 1) $$, 'streams', 'unknown', 'leases', 'an unknown stream is refused'),
    ($$ execute wait('{null}', null, null, 1) $$, 'streams', 'null', null, 'NULL is no stream'),
    ($$ execute wait('{ff_stream}', null, null, 1) $$, 'streams', 'unknown', 'ff_stream', 'nor is a channel'),
    ($$ execute wait('{lease}', null, 0, 1) $$, 'execution_id', 'null', null, 'a tailer names its execution'),
    (format($$ execute wait('{lease}', %L, null, 1) $$, ff_tap.id(1)), 'attempt_index', 'null', null, 'and its attempt'),
    ($$ execute wait('{lease}', 'x', 0, 1) $$, 'execution_id', 'missing_tag', 'x', 'whose id is well formed'),
    (format($$ execute wait('{lease}', %L, -1, 1) $$, ff_tap.id(1)), 'attempt_index', 'out_of_range', '-1',
     'and whose index is not negative'),
    ($$ execute wait('{lease}', null, null, -1) $$, 'wait_ms', 'out_of_range', '-1', 'a time is not negative'),
    ($$ execute wait('{lease}', null, null, 600001) $$, 'wait_ms', 'out_of_range', '600001', 'nor above 10 minutes'),
    ($$ execute wait('{lease}', null, null, null) $$, 'wait_ms', 'null', null, 'and is required'),
    ($$ execute wait('{}', null, null, 1) $$, 'streams', 'nothing_to_wait_for', null, 'there must be something to wait for'),
    ($$ execute wait(null, '', null, 1) $$, 'streams', 'nothing_to_wait_for', null, 'NULL and nothing are nothing')
) as c (call, field, reason, value, description);
select is(ff_tap.waiters(), :'waiters_before', 'a refusal records nobody');
select is(
    (select array_agg(c.setting order by c.setting) from flowfabric._ff_channels() as c
     where not exists (select from flowfabric.ff_list_settings() as s where s.name = c.setting)), null,
    'every channel has a setting that exists');
select is(
    (select count(*) from flowfabric.ff_list_settings() as s where s.name like 'notify%'),
    (select count(*) from flowfabric._ff_channels()), 'and every such setting a channel');
select throws_ok(
    $$ do $do$
    begin
        perform set_config('transaction_read_only', 'on', true);
        perform flowfabric.ff_wait_for_events('someone', array['lease']);
    end;
    $do$ $$,
    'ZU005', 'read_only_server', 'a session that cannot write is told so');

select * from finish();
rollback;
