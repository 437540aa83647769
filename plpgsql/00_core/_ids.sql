-- Ids: wire form {fp:N}:<uuid> outside, (partition_key, execution_id) inside.

-- CRC-16/XMODEM, four bits at a time: the table holds the polynomial 0x1021 applied to each nibble.
create or replace function flowfabric._ff_crc16(p_bytes bytea)
returns integer
language plpgsql immutable strict parallel safe
as $$
declare
    c_table constant integer[] := array[
        0, 4129, 8258, 12387, 16516, 20645, 24774, 28903, 33032, 37161, 41290, 45419, 49548, 53677, 57806, 61935];
    v_crc integer := 0;
    v_byte integer;
begin
    for i in 0 .. length(p_bytes) - 1 loop
        v_byte := get_byte(p_bytes, i);
        v_crc := ((v_crc << 4) & 65535) # c_table[1 + ((v_crc >> 12) # (v_byte >> 4))];
        v_crc := ((v_crc << 4) & 65535) # c_table[1 + ((v_crc >> 12) # (v_byte & 15))];
    end loop;
    return v_crc;
end;
$$;
comment on function flowfabric._ff_crc16(bytea) is
'Internal: CRC-16/XMODEM, the hash that places flows and lanes on partitions.';

-- The casts accept more than a wire id (signs, spaces, leading zeros, hyphens in other places), so they count only if
-- the key formats back to the text that it came from, in which the uuid may have capitals. A block that catches what
-- the casts refuse costs less than looking for that before: preparing an expression takes longer than running it.
create or replace function flowfabric._ff_parse_execution_id(p_execution_id text, p_fn text)
returns flowfabric.ff_execution_key
language plpgsql stable
as $$
declare
    v_partition_key smallint;
    v_execution_id uuid;
begin
    begin
        v_partition_key := substr(p_execution_id, 5, length(p_execution_id) - 42)::smallint;
        v_execution_id := right(p_execution_id, 36)::uuid;
        if v_partition_key >= 0 and starts_with(p_execution_id, '{fp:')
            and lower(p_execution_id collate "C")
            = flowfabric.ff_format_execution_id(v_partition_key, v_execution_id)
        then
            return row(v_partition_key, v_execution_id)::flowfabric.ff_execution_key;
        end if;
    exception when data_exception then
        null; -- The text is beyond the casts.
    end;
    perform flowfabric._ff_raise_with_hint(
        'invalid_input', p_fn,
        jsonb_build_object('field', 'execution_id', 'value', left(p_execution_id, 200), 'reason', case
            when p_execution_id is null then 'null'
            when p_execution_id !~ '^[{]fp:[^}]*[}]:' then 'missing_tag'
            when p_execution_id !~ '^[{]fp:(0|[1-9][0-9]{0,4})[}]:'
                or substring(p_execution_id from '^[{]fp:([0-9]{1,5})[}]:')::integer > 32767 then 'bad_partition'
            else 'bad_uuid'
        end),
        case
            when p_execution_id ~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then format(
                'The partition is missing: an execution id is {fp:N}:<uuid>. Find it with'
                ' `flowfabric executions show %s`, or: select execution_id from flowfabric.ff_find_execution(%L);',
                p_execution_id, p_execution_id)
            else 'Pass the whole id as create or claim returned it: {fp:N}:<uuid>, with the partition N.'
        end);
    return null; -- not reached
end;
$$;
comment on function flowfabric._ff_parse_execution_id(text, text) is
'Internal: the key behind a wire id; raises invalid_input in the name of p_fn.';
