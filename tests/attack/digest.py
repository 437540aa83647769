"""Everything that the engine has stored, as one value that changes with any write."""

from __future__ import annotations

from psycopg import sql

from tests.support.cluster import Connection

_TABLES = """
    select c.relname from pg_class as c
    where c.relnamespace = 'flowfabric'::regnamespace and c.relkind = 'r'
    order by c.relname
"""
# With the row's version (xmin): a row that was rewritten with the same values was written all the same.
_TABLE = """
    select {name}, count(*), coalesce(sum(hashtextextended(t.xmin::text || t::text, 0)), 0)::text
    from flowfabric.{table} as t
"""


def stored_digest(connection: Connection) -> dict[str, tuple[int, str]]:
    """Number and hash of the rows of every table, by table."""
    tables = [name for (name,) in connection.execute(_TABLES).fetchall()]
    query = sql.SQL(" union all ").join(
        sql.SQL(_TABLE).format(name=sql.Literal(name), table=sql.Identifier(name)) for name in tables
    )
    return {name: (count, digest) for name, count, digest in connection.execute(query).fetchall()}
