-- Waiting for work: who is recorded as waiting, and until when.
begin;
\ir ../helpers.sql
select plan(23);

create function ff_tap.waiters()
returns text
language sql stable
as $$
    select coalesce(string_agg(concat_ws('/', w.channel, w.key, w.waiter_id, w.until_ms), ' '
        order by w.waiter_id, w.key), 'none')
    from flowfabric.ff_waiter as w
$$;

create function ff_tap.refusal(p_arguments text)
returns text
language sql volatile
as $$
    select concat_ws(' ', e ->> 'code', e ->> 'field', e ->> 'reason')
    from ff_tap.error_of('select flowfabric.ff_wait_for_work(' || p_arguments || ')') as e
$$;

select ff_tap.freeze_time(1000);
prepare wait (text[], text, bigint) as select w.* from flowfabric.ff_wait_for_work($1, $2, $3) as w;
select results_eq(
    $$ execute wait('{b,a}', 'w-1', 2000) $$, $$ values (3000::bigint, true) $$,
    'a worker learns until when it is known');
select is(ff_tap.waiters(), 'ff_eligible/a/w-1/3000 ff_eligible/b/w-1/3000', 'it is recorded for each of its lanes');
select ff_tap.freeze_time(1500);
select results_eq($$ execute wait('{b,c}', 'w-1', 100) $$, $$ values (1600::bigint, true) $$, 'another call');
select is(
    ff_tap.waiters(), 'ff_eligible/b/w-1/1600 ff_eligible/c/w-1/1600',
    'replaces the lanes and the time, even by an earlier');
select is(
    (select w.until_ms from flowfabric.ff_wait_for_work('{c}', 'w-2') as w), 3500::bigint,
    'two seconds are the default');
select is(
    ff_tap.waiters(), 'ff_eligible/b/w-1/1600 ff_eligible/c/w-1/1600 ff_eligible/c/w-2/3500',
    'workers are recorded side by side');
insert into flowfabric.ff_waiter values ('ff_completion', '*', 'w-1', 9000);
select results_eq($$ execute wait('{x}', 'w-1', 0) $$, $$ values (null::bigint, true) $$, '0 stops the wait');
select is(
    ff_tap.waiters(), 'ff_completion/*/w-1/9000 ff_eligible/c/w-2/3500',
    'in all lanes of this worker, and on this channel only');
select results_eq($$ execute wait('{x}', 'w-1', 0) $$, $$ values (null::bigint, true) $$, 'a second time does no harm');
select results_eq(
    $$ execute wait('{c}', 'w-2', 60000) $$, $$ values (61500::bigint, true) $$, 'a minute is the longest');

select flowfabric.ff_set_setting('notify_eligible', 0);
select results_eq(
    $$ execute wait('{a}', 'w-1', 100) $$, $$ values (1600::bigint, false) $$,
    'switched off, it says that polling is all');
select flowfabric.ff_set_setting('notify_eligible', 2);
select results_eq(
    $$ execute wait('{a}', 'w-1', 100) $$, $$ values (1600::bigint, true) $$, 'by the tick, notifications come');

select is(ff_tap.refusal($$ null, 'w' $$), 'invalid_input lanes null', 'lanes are required');
select is(ff_tap.refusal($$ '{}', 'w' $$), 'invalid_input lanes empty', 'one at least');
select is(ff_tap.refusal($$ '{a,a}', 'w' $$), 'invalid_input lanes duplicate', 'each once');
select is(
    ff_tap.refusal($$ array(select 'l' || n from generate_series(1, 33) as n), 'w' $$),
    'invalid_input lanes too_many_items', '32 at most');
select is(ff_tap.refusal($$ array[E'a\n'], 'w' $$), 'invalid_input lanes not_printable_ascii', 'with clean names');
select is(ff_tap.refusal($$ '{a}', '' $$), 'invalid_input waiter_id empty', 'who waits has a name');
select is(ff_tap.refusal($$ '{a}', null $$), 'invalid_input waiter_id null', 'always');
select is(ff_tap.refusal($$ '{a}', 'w', -1 $$), 'invalid_input wait_ms out_of_range', 'a wait is not negative');
select is(ff_tap.refusal($$ '{a}', 'w', 60001 $$), 'invalid_input wait_ms out_of_range', 'nor longer than a minute');
select is(ff_tap.refusal($$ '{a}', 'w', null $$), 'invalid_input wait_ms null', 'nor unknown');
select lives_ok($$ select flowfabric.ff_wait_for_work('{nobody}', 'w') $$, 'an unknown lane may get work yet');

select * from finish();
rollback;
