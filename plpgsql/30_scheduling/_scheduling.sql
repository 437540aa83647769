-- What the scheduling operations share: the words of admission, and texts of bounded size.

create or replace function flowfabric._ff_admission_eligibility(p_blocking_reason text)
returns flowfabric.ff_eligibility_state
language sql immutable parallel safe
as $$
    select case p_blocking_reason
        when 'waiting_for_budget' then 'blocked_by_budget'::flowfabric.ff_eligibility_state
        when 'waiting_for_quota' then 'blocked_by_quota'
        when 'waiting_for_capable_worker' then 'blocked_by_route'
        when 'paused_by_operator' then 'blocked_by_operator'
        when 'paused_by_policy' then 'blocked_by_lane_state'
    end
$$;
comment on function flowfabric._ff_admission_eligibility(text) is
'Internal: the eligibility that a blocking reason of admission leads to; NULL for any other text.';

-- Cut at a character: the byte after the cut must not be one that continues the character before it.
create or replace function flowfabric._ff_truncate_bytes(p_text text, p_max_bytes integer)
returns text
language plpgsql immutable parallel safe
as $$
declare
    v_bytes bytea;
    v_length integer := p_max_bytes;
begin
    if p_text is null or octet_length(p_text) <= p_max_bytes then
        return p_text;
    end if;
    -- At most as many characters as bytes are wanted, so the rest of a huge text is not converted.
    v_bytes := convert_to(left(p_text, p_max_bytes), 'UTF8');
    if length(v_bytes) <= p_max_bytes then
        return left(p_text, p_max_bytes);
    end if;
    while get_byte(v_bytes, v_length) & 192 = 128 loop
        v_length := v_length - 1;
    end loop;
    return convert_from(substring(v_bytes from 1 for v_length), 'UTF8');
end;
$$;
comment on function flowfabric._ff_truncate_bytes(text, integer) is
'Internal: as much of a text as fits into so many bytes, without cutting a character.';
