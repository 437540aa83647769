"""Many stored executions of this engine, without the hours that it would take to run them.

One execution of each kind is really run. Its rows, in whatever tables and columns the engine left them, are
then copied with new ids and earlier times, so that a change of the schema needs no change here.
"""

from __future__ import annotations

import psycopg
from psycopg import sql
from psycopg.rows import TupleRow

Connection = psycopg.Connection[TupleRow]

SAMPLE = 500

# Every table with rows of the prototype, and how each of its columns is copied. Events number themselves.
COPY_COLUMNS = """
    select c.relname, a.attname, case
        when a.attname = 'partition_key' then 's.partition_key'
        when a.attname = 'execution_id' then 's.execution_id'
        when a.attname ~ '(^|_)attempt_id$'
            then format('case when p.%I is not null then s.attempt_id end', a.attname)
        when a.attname ~ '(^|_)lease_id$'
            then format('case when p.%I is not null then s.lease_id end', a.attname)
        when a.attname ~ '(_at|_after)_ms$' then format('p.%I - s.age_ms', a.attname)
        else format('p.%I', a.attname) end
    from pg_catalog.pg_class as c
    join pg_catalog.pg_attribute as a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
    where c.relnamespace = 'flowfabric'::regnamespace and c.relkind = 'r' and a.attgenerated = ''
        and a.attname not in ('event_id', 'xact_id')
        and exists (
            select from pg_catalog.pg_attribute as k where k.attrelid = c.oid and k.attname = 'execution_id')
    order by c.relname = 'ff_exec_core' desc, c.relname, a.attnum"""
# `age_ms` runs down to 0 with n, so that the last copy is as young as the prototype.
IDS = """
    create temporary table seeded on commit drop as
    select
        (n %% 256)::smallint as partition_key, gen_random_uuid() as execution_id,
        gen_random_uuid() as attempt_id, gen_random_uuid() as lease_id, %(count)s::bigint - n as age_ms
    from generate_series(1, %(count)s) as n"""
COPY = """
    insert into flowfabric.{table} ({columns})
    select {values}
    from flowfabric.{table} as p cross join seeded as s
    where p.partition_key = %s and p.execution_id = %s"""


def copy_execution(connection: Connection, execution_id: str, count: int) -> None:
    """Store copies of an execution.

    Raises:
        RuntimeError: the engine's own check finds fault with them.
    """
    first = min(count, SAMPLE)
    _copy(connection, execution_id, first)
    findings = connection.execute("select * from flowfabric.ff_check_invariants()").fetchall()
    if findings:
        raise RuntimeError(f"copied executions are not as the engine leaves them: {findings[:3]}")
    if count > first:
        _copy(connection, execution_id, count - first)


def _copy(connection: Connection, execution_id: str, count: int) -> None:
    tables: dict[str, list[tuple[str, str]]] = {}
    for table, column, value in connection.execute(COPY_COLUMNS).fetchall():
        tables.setdefault(table, []).append((column, value))
    partition, identity = execution_id.removeprefix("{fp:").split("}:")
    with connection.transaction():
        connection.execute(IDS, {"count": count})
        for table, columns in tables.items():
            statement = sql.SQL(COPY).format(
                table=sql.Identifier(table),
                columns=sql.SQL(", ").join(sql.Identifier(name) for name, _ in columns),
                values=sql.SQL(", ").join(sql.SQL(value) for _, value in columns),
            )
            connection.execute(statement, [int(partition), identity])
