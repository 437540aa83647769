-- The flags that upstream's tooling compares: all of them, by their names.
begin;
\ir ../helpers.sql
select plan(6);

select bag_eq(
    'select c.capability from flowfabric.ff_capabilities() as c',
    $$select trim(n.name) from unnest(string_to_array(
        'cancel_execution, change_priority, replay_execution, revoke_lease, read_execution_state, read_execution_info, '
        'get_execution_result, budget_admin, quota_admin, rotate_waitpoint_hmac_secret_all, seed_waitpoint_hmac_secret, '
        'list_pending_waitpoints, cancel_flow_header, cancel_flow_wait_timeout, cancel_flow_wait_indefinite, '
        'ack_cancel_member, claim_for_worker, issue_reclaim_grant, prepare, subscribe_lease_history, '
        'subscribe_completion, subscribe_signal_delivery, subscribe_instance_tags, stream_durable_summary, '
        'stream_best_effort_live, register_worker, heartbeat_worker, mark_worker_dead, list_expired_leases, '
        'list_workers, release_admission, read_quota_policy_limits, block_execution_for_admission, '
        'read_budget_usage_and_limits, gap_free_events, global_lane_order, tick_in_database, batch_calls, '
        'budget_reservations, submit_flow, waiter_gated_wakeups', ',')) as n (name)$$,
    'the 34 flags of upstream and 7 of this project are there');
select results_eq(
    'select c.capability from flowfabric.ff_capabilities() as c where not c.supported',
    $$values ('subscribe_instance_tags')$$, 'all are supported but one');
select is_empty(
    $$select c.capability from flowfabric.ff_capabilities() as c
      where c.capability = 'subscribe_instance_tags' and c.note is null$$, 'and that one says what to do instead');
select is_empty(
    $$select c.note from flowfabric.ff_capabilities() as c
      cross join regexp_matches(c.note, 'ff_[a-z_]+', 'g') as m
      where not exists (
          select from pg_proc as p where p.pronamespace = 'flowfabric'::regnamespace and p.proname = m[1])$$,
    'the functions that notes name exist');
select lives_ok(
    $$select ff_tap.as_role('flowfabric_producer', 'select flowfabric.ff_capabilities()')$$, 'a producer may ask');
select throws_ok(
    $$select ff_tap.as_role('flowfabric_signaller', 'select flowfabric.ff_capabilities()')$$, '42501', null,
    'a signaller may not');
select * from finish();
rollback;
