-- ff_create_quota_policy: define how many executions may start per window and be active at once.
--
-- Fence:  none.
-- Locks:  nothing but the new row.
-- Writes: ff_quota_policy; ff_operator_event if it is new.
-- Raises: invalid_input, invalid_quota_spec.
-- Retry:  safe; an existing policy stays as it is, whatever the repeat asks for.
--
-- A limit of 0 is no limit. A policy is immutable: executions are admitted by the numbers they were created under.
create or replace function flowfabric.ff_create_quota_policy(
    p_quota_policy_id text,
    p_window_seconds bigint,
    p_max_requests_per_window bigint,
    p_max_concurrent bigint,
    p_jitter_ms bigint default 0
)
returns flowfabric.ff_quota_creation
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    c_fn constant text := 'ff_create_quota_policy';
    v_wrong record;
    v_now_ms bigint := flowfabric.ff_now_ms();
begin
    if not flowfabric._ff_is_name(p_quota_policy_id) then
        perform flowfabric._ff_raise_invalid_name(p_quota_policy_id, 'quota_policy_id', c_fn);
    end if;
    -- Numbers end where a client may no longer hold them exactly (2^53), times where a sum with the clock would.
    select
        n.field,
        case when n.value is null then 'null' when n.value < 0 then 'negative' else 'out_of_range' end as reason
    into v_wrong
    from (values
        (1, 'window_seconds', p_window_seconds, flowfabric._ff_longest_ms() / 1000),
        (2, 'max_requests_per_window', p_max_requests_per_window, 9007199254740991),
        (3, 'max_concurrent', p_max_concurrent, 9007199254740991),
        (4, 'jitter_ms', p_jitter_ms, flowfabric._ff_longest_ms())
    ) as n (position, field, value, greatest_value)
    where (n.value between 0 and n.greatest_value) is not true
    order by n.position
    limit 1;
    if found then
        perform flowfabric._ff_raise(
            'invalid_quota_spec', c_fn, jsonb_build_object('field', v_wrong.field, 'reason', v_wrong.reason));
    end if;
    if p_max_requests_per_window > 0 and p_window_seconds < 1 then
        perform flowfabric._ff_raise(
            'invalid_quota_spec', c_fn,
            jsonb_build_object('field', 'window_seconds', 'reason', 'rate_needs_window'));
    end if;

    insert into flowfabric.ff_quota_policy (
        quota_policy_id, requests_per_window_seconds, max_requests_per_window, active_concurrency_cap, jitter_ms,
        created_at_ms, updated_at_ms)
    values (
        p_quota_policy_id, p_window_seconds, p_max_requests_per_window, p_max_concurrent, p_jitter_ms, v_now_ms,
        v_now_ms)
    on conflict (quota_policy_id) do nothing;
    if not found then
        return row('already_satisfied', p_quota_policy_id)::flowfabric.ff_quota_creation;
    end if;
    perform flowfabric._ff_emit_operator(
        0::smallint, null, null, null, null, 'quota_created',
        jsonb_build_object(
            'quota_policy_id', p_quota_policy_id, 'window_seconds', p_window_seconds,
            'max_requests_per_window', p_max_requests_per_window, 'max_concurrent', p_max_concurrent,
            'jitter_ms', p_jitter_ms),
        v_now_ms);
    return row('created', p_quota_policy_id)::flowfabric.ff_quota_creation;
end;
$$;

comment on function flowfabric.ff_create_quota_policy(text, bigint, bigint, bigint, bigint) is
'Defines a quota policy: starts per sliding window, active executions at once, or both; 0 is no limit.';

grant execute on function flowfabric.ff_create_quota_policy(text, bigint, bigint, bigint, bigint)
to flowfabric_operator;
