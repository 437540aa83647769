-- The moves of a quota. Admissions under one policy are serialised by the lock of its row; nothing else takes it.

-- Needs no lock on the policy: a release only lowers the count, and admissions are serialised by the policy's lock,
-- so the cap is never exceeded. With p_admitted_until_ms a later admission keeps its slot: whoever gives up an old one
-- must not take away what somebody has been admitted for since.
create or replace function flowfabric._ff_release_quota_slot(
    p_partition_key smallint,
    p_execution_id uuid,
    p_admitted_until_ms bigint default null
)
returns void
language plpgsql volatile
as $$
begin
    update flowfabric.ff_quota_admitted as q
    set slot_held = false
    where q.partition_key = p_partition_key and q.execution_id = p_execution_id and q.slot_held
        and (p_admitted_until_ms is null or q.admitted_at_ms <= p_admitted_until_ms);
end;
$$;
comment on function flowfabric._ff_release_quota_slot(smallint, uuid, bigint) is
'Internal: gives back the concurrency slots of an execution that stopped being active, or was never claimed.';

-- Steps 2 to 6 of spec 40 section 6.2. The caller holds the lock of the policy's row and has read the clock after it.
-- Every count is a statement of its own after that lock, so it sees whatever an earlier admission has committed. What
-- is dated later than now was written before the clock went back: it does not count, or it would for as long as that
-- was.
create or replace function flowfabric._ff_admit_under_quota(
    p_partition_key smallint,
    p_execution_id uuid,
    p_quota_policy_id text,
    p_jitter_ms bigint,
    p_now_ms bigint
)
returns flowfabric.ff_admission_decision
language plpgsql volatile
as $$
declare
    v_window_ms bigint;
    v_rate bigint;
    v_cap bigint;
    v_jitter_ms bigint;
    v_is_paid boolean;
    v_is_held boolean;
    v_entries bigint;
    v_oldest_ms bigint;
begin
    select
        q.requests_per_window_seconds * 1000, q.max_requests_per_window, q.active_concurrency_cap,
        coalesce(p_jitter_ms, q.jitter_ms)
    into v_window_ms, v_rate, v_cap, v_jitter_ms
    from flowfabric.ff_quota_policy as q
    where q.quota_policy_id = p_quota_policy_id;
    -- Creation refuses unknown policies; one that is gone since limits nothing.
    if not found then
        return row('admitted', null)::flowfabric.ff_admission_decision;
    end if;
    select a.expires_at_ms > p_now_ms and a.admitted_at_ms <= p_now_ms, a.slot_held into v_is_paid, v_is_held
    from flowfabric.ff_quota_admitted as a
    where a.quota_policy_id = p_quota_policy_id
        and a.partition_key = p_partition_key and a.execution_id = p_execution_id;
    v_is_paid := coalesce(v_is_paid, false);

    -- A start that is paid for needs no second token, only a slot, and that only if it does not hold one.
    if not v_is_paid then
        delete from flowfabric.ff_quota_window as w
        where w.quota_policy_id = p_quota_policy_id
            and (w.admitted_at_ms <= p_now_ms - v_window_ms or w.admitted_at_ms > p_now_ms);
        if v_rate > 0 then
            select count(*), min(w.admitted_at_ms) into v_entries, v_oldest_ms
            from flowfabric.ff_quota_window as w
            where w.quota_policy_id = p_quota_policy_id
                and w.admitted_at_ms > p_now_ms - v_window_ms and w.admitted_at_ms <= p_now_ms;
            if v_entries >= v_rate then
                return row(
                    'rate_exceeded',
                    greatest(v_oldest_ms + v_window_ms - p_now_ms, 0)
                    + least(floor(random() * (v_jitter_ms + 1))::bigint, v_jitter_ms)
                )::flowfabric.ff_admission_decision;
            end if;
        end if;
    end if;
    if v_cap > 0 and not (v_is_paid and v_is_held) and v_cap <= (
        select count(*)
        from flowfabric.ff_quota_admitted as a
        where a.quota_policy_id = p_quota_policy_id and a.slot_held
            and (a.partition_key, a.execution_id) <> (p_partition_key, p_execution_id))
    then
        return row('concurrency_exceeded', null)::flowfabric.ff_admission_decision;
    end if;

    if not v_is_paid then
        insert into flowfabric.ff_quota_window as w (quota_policy_id, partition_key, execution_id, admitted_at_ms)
        values (p_quota_policy_id, p_partition_key, p_execution_id, p_now_ms)
        on conflict (quota_policy_id, partition_key, execution_id) do update
        set admitted_at_ms = excluded.admitted_at_ms;
    end if;
    -- The time is that of this admission even if the slot was held all along: a grant that expired unused before must
    -- not take the slot away from the grant that follows (ff_sweep_expired_grants).
    insert into flowfabric.ff_quota_admitted as a (
        quota_policy_id, partition_key, execution_id, admitted_at_ms, expires_at_ms, slot_held)
    values (p_quota_policy_id, p_partition_key, p_execution_id, p_now_ms, p_now_ms + v_window_ms, true)
    on conflict (quota_policy_id, partition_key, execution_id) do update
    set admitted_at_ms = excluded.admitted_at_ms,
        expires_at_ms = case when v_is_paid then a.expires_at_ms else excluded.expires_at_ms end,
        slot_held = true;
    return row(case when v_is_paid then 'already_admitted' else 'admitted' end, null)
    ::flowfabric.ff_admission_decision;
end;
$$;
comment on function flowfabric._ff_admit_under_quota(smallint, uuid, text, bigint, bigint) is
'Internal: admits an execution under a locked quota policy and records it, or says which limit is in the way.';

create or replace function flowfabric._ff_quota_denial_detail(p_quota_policy_id text, p_outcome text)
returns text
language sql stable
as $$
    select case p_outcome
        when 'rate_exceeded' then format(
            'quota %s: rate limit %s per %ss window', q.quota_policy_id, q.max_requests_per_window,
            q.requests_per_window_seconds)
        when 'concurrency_exceeded' then format(
            'quota %s: concurrency cap %s', q.quota_policy_id, q.active_concurrency_cap)
    end
    from flowfabric.ff_quota_policy as q
    where q.quota_policy_id = p_quota_policy_id
$$;
comment on function flowfabric._ff_quota_denial_detail(text, text) is
'Internal: the blocking detail for an execution that a quota policy denied.';

-- NULL for a limit that the policy does not have; no row, read as NULL, for a policy that does not exist. Without
-- `offset 0` each count would be made wherever it is used.
create or replace function flowfabric._ff_measure_quota(p_quota_policy_id text, p_now_ms bigint)
returns flowfabric.ff_quota_load
language sql stable
as $$
    select row(
        n.entries, n.slots,
        case when n.max_requests_per_window > 0 then greatest(n.max_requests_per_window - n.entries, 0) end,
        case when n.active_concurrency_cap > 0 then greatest(n.active_concurrency_cap - n.slots, 0) end
    )::flowfabric.ff_quota_load
    from (
        select
            q.max_requests_per_window, q.active_concurrency_cap,
            (
                select count(*)
                from flowfabric.ff_quota_window as w
                where w.quota_policy_id = q.quota_policy_id
                    and w.admitted_at_ms > p_now_ms - q.requests_per_window_seconds * 1000
                    and w.admitted_at_ms <= p_now_ms
            ) as entries,
            (
                select count(*)
                from flowfabric.ff_quota_admitted as a
                where a.quota_policy_id = q.quota_policy_id and a.slot_held
            ) as slots
        from flowfabric.ff_quota_policy as q
        where q.quota_policy_id = p_quota_policy_id
        offset 0
    ) as n
$$;
comment on function flowfabric._ff_measure_quota(text, bigint) is
'Internal: the starts in the window of a quota policy, its held slots, and what is left of both.';

-- What the start of an execution needs of its quota: a slot if there is a cap, a token if there is a rate and none is
-- paid for yet.
create or replace function flowfabric._ff_has_quota_room(p_exec flowfabric.ff_exec_core, p_now_ms bigint)
returns boolean
language sql stable
as $$
    select coalesce(bool_and(
        m.slots_left is distinct from 0
        and (
            m.tokens_left is distinct from 0
            or exists (
                select from flowfabric.ff_quota_admitted as a
                where a.quota_policy_id = p_exec.quota_policy_id
                    and a.partition_key = p_exec.partition_key and a.execution_id = p_exec.execution_id
                    and a.expires_at_ms > p_now_ms and a.admitted_at_ms <= p_now_ms))), true)
    from flowfabric._ff_measure_quota(p_exec.quota_policy_id, p_now_ms) as m
$$;
comment on function flowfabric._ff_has_quota_room(flowfabric.ff_exec_core, bigint) is
'Internal: whether the quota policy of an execution has room for it; true without a policy.';
