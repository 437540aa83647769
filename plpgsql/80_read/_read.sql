-- What the readers share. A read takes no lock, writes nothing and is one statement, so one answer is one snapshot.

create or replace function flowfabric._ff_page_size(p_limit integer, p_cap integer, p_fn text)
returns integer
language plpgsql stable
as $$
begin
    if p_limit is null or p_limit < 0 then
        perform flowfabric._ff_raise_invalid(
            p_fn, 'limit', case when p_limit is null then 'null' else 'out_of_range' end, p_limit::text);
    end if;
    return least(p_limit, p_cap);
end;
$$;
comment on function flowfabric._ff_page_size(integer, integer, text) is
'Internal: the rows of one page; negative is invalid_input, above the cap is the cap.';
