-- Who has looked for long and finds nothing has walked over what vacuum could not remove, and would do so again.

-- Twenty times as long as the look took: so it takes a twentieth of one session. It has a limit, because a look can
-- take long for another reason.
create or replace function flowfabric._ff_rest_ms(p_started_at_ms bigint, p_longest_ms bigint)
returns bigint
language plpgsql volatile
as $$
begin
    return least(20 * greatest(flowfabric.ff_now_ms() - p_started_at_ms, 0), p_longest_ms);
end;
$$;
comment on function flowfabric._ff_rest_ms(bigint, bigint) is
'Internal: for how long to leave alone what a look that began then has just gone through.';
