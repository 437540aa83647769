-- ff_get_quota_policy: the limits of a quota policy and how much of them is in use.
--
-- Fence:  none.
-- Locks:  nothing.
-- Writes: nothing.
-- Raises: invalid_input.
-- Retry:  safe.
create or replace function flowfabric.ff_get_quota_policy(p_quota_policy_id text)
returns setof flowfabric.ff_quota_status
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off -- these two: 10_execution/_moves.sql
set jit = off
as $$
declare
    c_fn constant text := 'ff_get_quota_policy';
begin
    if not flowfabric._ff_is_name(p_quota_policy_id) then
        perform flowfabric._ff_raise_invalid_name(p_quota_policy_id, 'quota_policy_id', c_fn);
    end if;
    return query
    select
        q.quota_policy_id, q.requests_per_window_seconds, q.max_requests_per_window, q.active_concurrency_cap,
        q.jitter_ms, m.entries_in_window, m.active_concurrency,
        q.max_requests_per_window = 0 and q.active_concurrency_cap = 0, q.created_at_ms
    from flowfabric.ff_quota_policy as q
    cross join lateral flowfabric._ff_measure_quota(q.quota_policy_id, flowfabric.ff_now_ms()) as m
    where q.quota_policy_id = p_quota_policy_id;
end;
$$;

comment on function flowfabric.ff_get_quota_policy(text) is
'The limits of a quota policy, the starts in its window and the slots in use; no row for an unknown id.';

grant execute on function flowfabric.ff_get_quota_policy(text)
to flowfabric_producer, flowfabric_reader, flowfabric_operator;
