-- Instants for people: exact where clients can read them, and never an error.
begin;
\ir ../helpers.sql
select plan(8);

select is(flowfabric.ff_timestamp(0), '1970-01-01 00:00:00+00'::timestamptz, 'the first instant');
select is(
    flowfabric.ff_timestamp(1700000000123), '2023-11-14 22:13:20.123+00'::timestamptz, 'milliseconds are exact');
select is(
    flowfabric.ff_timestamp(253402214400000), '9999-12-31 00:00:00+00'::timestamptz, 'the last one that is shown');
select is(
    flowfabric.ff_timestamp(253402214400001), '9999-12-31 00:00:00+00'::timestamptz, 'what comes later is shown as it');
select is(flowfabric.ff_timestamp(9223372036854775807), '9999-12-31 00:00:00+00'::timestamptz, 'up to the last number');
select is(flowfabric.ff_timestamp(-1), '1970-01-01 00:00:00+00'::timestamptz, 'what comes earlier is shown as the first');
select is(
    flowfabric.ff_timestamp(-9223372036854775808), '1970-01-01 00:00:00+00'::timestamptz, 'down to the first number');
select is(flowfabric.ff_timestamp(null), null, 'no instant is none');

select * from finish();
rollback;
