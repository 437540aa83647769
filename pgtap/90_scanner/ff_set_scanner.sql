-- What an operator may change of a scanner.
begin;
\ir ../helpers.sql
select plan(21);

create function ff_tap.row_of(p_scanner text)
returns text
language sql stable
as $$
    select concat_ws(' ', s.enabled, s.interval_ms, s.batch_limit, s.next_due_at_ms)
    from flowfabric.ff_scanner as s
    where s.scanner = p_scanner
$$;

create function ff_tap.outcome(
    p_enabled boolean default null,
    p_interval_ms bigint default null,
    p_batch_limit integer default null
)
returns text
language sql volatile
as $$
    select r.outcome from flowfabric.ff_set_scanner('retention', p_enabled, p_interval_ms, p_batch_limit) as r
$$;

select ff_tap.freeze_time(1000000);
select flowfabric.ff_tick(p_scanners => '{retention}');
select is(ff_tap.row_of('retention'), 't 60000 100 1060000', 'the defaults of a scanner hold until somebody changes them');
select is(ff_tap.outcome(), 'unchanged', 'nothing given, nothing changed');
select is(ff_tap.outcome(true, 60000, 100), 'unchanged', 'what is so already is no change');
select is(ff_tap.outcome(p_enabled => false), 'changed', 'a scanner is switched off');
select is(ff_tap.row_of('retention'), 'f 60000 100 1060000', 'and keeps its schedule');
select is(ff_tap.outcome(p_enabled => false), 'unchanged', 'a repeat changes nothing');
select is(ff_tap.outcome(p_batch_limit => 10000), 'changed', 'the limit is changed alone');
select is(ff_tap.outcome(p_enabled => true, p_interval_ms => 1000), 'changed', 'two things are changed at once');
select is(
    ff_tap.row_of('retention'), 't 1000 10000 1001000', 'a shorter interval counts from now, not from the end of the old');
select is(ff_tap.outcome(p_interval_ms => 31536000000), 'changed', 'a year is the longest interval');
select is(ff_tap.row_of('retention'), 't 31536000000 10000 1001000', 'a longer one counts from the next run');

-- The longest interval is short enough for every pause that is a multiple of it.
select lives_ok(
    $$select flowfabric._ff_scanner_item_failed('retention', 'x', 'x', 9007199254740991) from generate_series(1, 4)$$,
    'ten of the longest intervals are a time');
select is(
    (select f.skip_until_ms from flowfabric.ff_scanner_failure as f), 9007514614740991,
    'and the pause of an item that keeps failing is ten intervals');

select is(
    ff_tap.error_of('select ff_tap.outcome(p_interval_ms => 31536000001)') - 'fn',
    '{"code": "invalid_input", "field": "interval_ms", "reason": "out_of_range", "value": "31536000001"}',
    'an interval of more than a year is refused');
select throws_ok(
    'select ff_tap.outcome(p_interval_ms => 0)', 'ZV001', 'invalid_input', 'an interval below 1 ms is refused');
select throws_ok(
    'select ff_tap.outcome(p_interval_ms => 9223372036854775807)', 'ZV001', 'invalid_input',
    'the largest number is refused');
select is(
    ff_tap.error_of('select ff_tap.outcome(p_batch_limit => 0)') - 'fn',
    '{"code": "invalid_input", "field": "batch_limit", "reason": "out_of_range", "value": "0"}',
    'a limit below 1 is refused');
select throws_ok(
    'select ff_tap.outcome(p_batch_limit => 10001)', 'ZV001', 'invalid_input', 'a limit above 10000 is refused');
select is(
    ff_tap.error_of($$select flowfabric.ff_set_scanner('reclaimer', true)$$) - 'fn',
    '{"code": "invalid_input", "field": "scanner", "reason": "unknown", "value": "reclaimer"}',
    'an unknown scanner is refused');
select is(
    ff_tap.error_of('select flowfabric.ff_set_scanner(null)') - 'fn',
    '{"code": "invalid_input", "field": "scanner", "reason": "null"}', 'so is none');
select throws_ok(
    $$select ff_tap.as_role('flowfabric_worker', $q$select flowfabric.ff_set_scanner('retention', false)$q$)$$,
    '42501', null, 'a worker may not change a scanner');
select * from finish();
rollback;
