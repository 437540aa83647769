-- ff_v_quota: quota policies for people. See ff_v_execution for what holds for all views.
create or replace view flowfabric.ff_v_quota
with (security_barrier = true)
as
select -- noqa: ST06
    q.quota_policy_id as policy,
    nullif(q.max_requests_per_window, 0) as per_window,
    least(greatest(q.requests_per_window_seconds, 0), 31536000000) * interval '1 second' as "window",
    w.used_in_window,
    nullif(q.active_concurrency_cap, 0) as cap,
    a.held
from flowfabric.ff_quota_policy as q
cross join lateral (
    select count(*) as used_in_window
    from flowfabric.ff_quota_window as x
    where
        x.quota_policy_id = q.quota_policy_id
        and x.admitted_at_ms > flowfabric.ff_now_ms() - q.requests_per_window_seconds * 1000
        and x.admitted_at_ms <= flowfabric.ff_now_ms()
) as w
cross join lateral (
    select count(*) as held
    from flowfabric.ff_quota_admitted as y
    where y.quota_policy_id = q.quota_policy_id and y.slot_held
) as a;

comment on view flowfabric.ff_v_quota is
'Quota policies: their limits and what is used of them.';
comment on column flowfabric.ff_v_quota.policy is 'The policy.';
comment on column flowfabric.ff_v_quota.per_window is 'Starts allowed inside the window; NULL for no rate limit.';
comment on column flowfabric.ff_v_quota."window" is 'Length of the sliding window.';
comment on column flowfabric.ff_v_quota.used_in_window is 'Starts inside the window.';
comment on column flowfabric.ff_v_quota.cap is 'Executions that may be active at once; NULL for no cap.';
comment on column flowfabric.ff_v_quota.held is 'Slots in use.';

grant select on flowfabric.ff_v_quota to flowfabric_reader, flowfabric_operator;
