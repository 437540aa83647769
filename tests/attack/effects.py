"""What a call comes to when nothing disturbs it, so that it can be made again while something does."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from psycopg import sql

from tests.attack.calling import Call, Outcome, perform
from tests.support.cluster import Connection

# Counted by the server for the transaction that asks; what was rolled back to a savepoint counts too.
_WRITTEN = """
    select coalesce(sum(t.n_tup_ins), 0)::bigint, coalesce(sum(t.n_tup_upd), 0)::bigint,
        coalesce(sum(t.n_tup_del), 0)::bigint
    from pg_stat_xact_user_tables as t
    where t.schemaname = 'flowfabric'
"""
_USED_TABLES = """
    select c.relname, bool_or(l.mode in ('RowShareLock', 'RowExclusiveLock'))
    from pg_locks as l
    join pg_class as c on c.oid = l.relation
    where l.pid = pg_backend_pid() and c.relnamespace = 'flowfabric'::regnamespace and c.relkind = 'r'
    group by c.relname
    order by c.relname
"""
# Each table with a column that an update may set; identity columns refuse.
_TABLES = """
    select c.relname, min(a.attname)
    from pg_class as c
    join pg_attribute as a on a.attrelid = c.oid
    where c.relnamespace = 'flowfabric'::regnamespace and c.relkind = 'r'
        and a.attnum > 0 and not a.attisdropped and a.attidentity = '' and a.attgenerated = ''
    group by c.relname
    order by c.relname
"""


@dataclass(frozen=True)
class Effect:
    """What is the same whenever a call is made in the same state."""

    answer: str
    """`accepted`, or the SQLSTATE of the error."""
    items: tuple[str | None, ...] = ()
    """The SQLSTATE of each item of a batch, NULL for one that was accepted."""
    written: tuple[int, int, int] = (0, 0, 0)
    """How many rows were inserted, updated and deleted."""

    @property
    def is_accepted(self) -> bool:
        return self.answer == "accepted"


@dataclass(frozen=True)
class Trial:
    """A call, what it came to undisturbed, and the tables in which it cannot do without a lock."""

    call: Call
    effect: Effect
    tables: tuple[str, ...]


def effect_of(
    connection: Connection, call: Call, *, keep: bool = False, settings: str | None = None
) -> tuple[Outcome, Effect]:
    """Make a call, as `perform` does, and say what came of it."""
    before = _written(connection)
    outcome = perform(connection, call, keep=keep, settings=settings)
    if outcome.error is not None:
        return outcome, Effect(outcome.error.diag.sqlstate or "no connection")
    inserted, updated, deleted = (now - then for now, then in zip(_written(connection), before, strict=True))
    items = tuple(row["sqlstate"] for row in outcome.rows if "item" in row)
    return outcome, Effect("accepted", items, (inserted, updated, deleted))


def tried(connection: Connection, call: Call) -> Trial:
    """Make a call in a transaction of its own, which is taken back."""
    effect = effect_of(connection, call, keep=True)[1]
    used = connection.execute(_USED_TABLES).fetchall()
    connection.rollback()
    # Those that it writes to come late in a call: there something is done already that must be undone.
    tables = [name for name, is_written in used if is_written] or [name for name, _ in used]
    return Trial(call, effect, tuple(tables))


def rewrite_tables(connection: Connection, *, spared: Collection[str]) -> None:
    """Give the rows of all tables but some a new version with the same content.

    Who does not see the new version of a row must not change the row.
    """
    for table, column in connection.execute(_TABLES).fetchall():
        if table in spared:
            continue
        connection.execute(
            sql.SQL("update flowfabric.{table} set {column} = {column}").format(
                table=sql.Identifier(table), column=sql.Identifier(column)
            )
        )


def hold_every_row(connection: Connection) -> None:
    """Lock every row that there is, until the transaction ends."""
    for table, _ in connection.execute(_TABLES).fetchall():
        connection.execute(sql.SQL("select from flowfabric.{} for update").format(sql.Identifier(table)))


def hold_table(connection: Connection, table: str) -> None:
    """Lock a table, until the transaction ends, so that nobody else can even read it."""
    connection.execute(
        sql.SQL("lock table flowfabric.{} in access exclusive mode").format(sql.Identifier(table))
    )


def _written(connection: Connection) -> tuple[int, int, int]:
    row = connection.execute(_WRITTEN).fetchone()
    assert row is not None
    return row[0], row[1], row[2]
