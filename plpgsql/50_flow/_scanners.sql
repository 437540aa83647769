-- What the scanners of flows share. Each works on one flow per call: the first in its queue that is free, because the
-- lock of a flow is held to the end of the transaction and a second one could be waited for.

-- A scanner must not wait: a flow that somebody holds is passed over. The caller has a block of its own for each flow,
-- so what was locked for one that fails is free again.
create or replace function flowfabric._ff_try_lock_flow(p_partition_key smallint, p_flow_id uuid)
returns text
language plpgsql volatile
as $$
begin
    perform from flowfabric.ff_flow_core as f
    where f.partition_key = p_partition_key and f.flow_id = p_flow_id
    for no key update skip locked;
    if found then
        return 'locked';
    end if;
    return case
        when exists (
            select from flowfabric.ff_flow_core as f
            where f.partition_key = p_partition_key and f.flow_id = p_flow_id) then 'busy'
        else 'gone'
    end;
end;
$$;
comment on function flowfabric._ff_try_lock_flow(smallint, uuid) is
'Internal: locks a flow without waiting; says locked, busy or gone.';

create or replace function flowfabric._ff_flow_is_paused(p_scanner text, p_flow_id uuid, p_now_ms bigint)
returns boolean
language sql stable
as $$
    select exists (
        select from flowfabric.ff_scanner_failure as s
        where s.scanner = p_scanner and s.item_key = p_flow_id::text and s.skip_until_ms > p_now_ms)
$$;
comment on function flowfabric._ff_flow_is_paused(text, uuid, bigint) is
'Internal: whether a scanner leaves a flow out for a while because it kept failing at it.';
