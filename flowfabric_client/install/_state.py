"""What a database holds of an installation, and whether this client may work on it."""

import re
from contextlib import suppress
from dataclasses import dataclass
from typing import LiteralString

from psycopg import errors as pg

from flowfabric_client._sql import MigrationFile, SqlSources
from flowfabric_client._version import __version__
from flowfabric_client.install._connection import Connection
from flowfabric_client.install._errors import InstallError
from flowfabric_client.install._foreign_code import REVOKE_DEFAULT_PRIVILEGES
from flowfabric_client.install._lock import LOCK_TABLE
from flowfabric_client.install._migrations import ledger_sql, lock_table_sql

_LEDGER = "ff_migration_annotation"
_CONFIG = "ff_partition_config"
_YOYO_TABLES = frozenset({"_yoyo_migration", "_yoyo_log", "_yoyo_version", LOCK_TABLE})

_HALF_INSTALLED = (
    "Schema flowfabric is half-installed ({what}): restore it from a backup, "
    "or drop the schema and everything in it, and migrate again."
)


@dataclass(frozen=True, slots=True)
class InstalledState:
    """The records of an installation; of a database without one, nothing but empty values."""

    schema_owner: str | None
    ledger: frozenset[int]
    yoyo_ids: frozenset[str]
    yoyo_locked: bool
    library_version: str | None
    library_digest: str | None
    test_clock: bool

    @property
    def schema_version(self) -> int:
        """The number of the highest migration; 0 without any."""
        return max(self.ledger, default=0)

    def pending(self, sources: SqlSources) -> list[MigrationFile]:
        """Migrations that were not applied.

        The ledger decides, because a migration writes its row there in its own transaction. yoyo's mark
        follows in another one, which a kill in between prevents.
        """
        return [migration for migration in sources.migrations() if migration.number not in self.ledger]

    def unmarked(self, sources: SqlSources) -> list[MigrationFile]:
        """Migrations that were applied and that yoyo does not know of."""
        return [m for m in sources.migrations() if m.number in self.ledger and m.id not in self.yoyo_ids]


def has_lock_table(conn: Connection) -> bool:
    """Whether the schema has the table that installers lock."""
    return LOCK_TABLE in _tables(conn)


def create_ledger(conn: Connection, *, with_schema: bool) -> None:
    """Create yoyo's tables, and the schema, unless another session creates them meanwhile.

    A schema that exists by now can be that of another role: nothing must be created in it unchecked.
    """
    with suppress(pg.UniqueViolation, pg.DuplicateTable, pg.DuplicateSchema), conn.transaction():
        if with_schema:
            conn.execute("create schema flowfabric")
        script = lock_table_sql() if _tables(conn) & _YOYO_TABLES else ledger_sql()
        conn.execute(script.encode())
        conn.execute(REVOKE_DEFAULT_PRIVILEGES)


def schema_owner(conn: Connection) -> str | None:
    """The role that owns schema flowfabric, if the schema exists."""
    row = conn.execute(
        "select pg_get_userbyid(n.nspowner) from pg_namespace as n where n.nspname = 'flowfabric'"
    ).fetchone()
    return str(row[0]) if row else None


def read_state(conn: Connection) -> InstalledState:
    """Read the records; raise if they contradict each other, or if the schema is somebody else's."""
    owner = schema_owner(conn)
    tables = _tables(conn)
    yoyo_ids = frozenset[str]()
    yoyo_locked = False
    if LOCK_TABLE in tables:
        yoyo_locked = conn.execute("select from flowfabric.yoyo_lock").fetchone() is not None
    if "_yoyo_migration" in tables:
        yoyo_ids = frozenset(
            str(row[0]) for row in conn.execute("select migration_id from flowfabric._yoyo_migration")
        )

    if _LEDGER not in tables:
        if yoyo_ids:
            raise InstallError(
                _HALF_INSTALLED.format(what=f"yoyo lists migrations, but {_LEDGER} is missing")
            )
        if owner is not None and _holds_foreign_objects(conn):
            raise InstallError(
                "Schema flowfabric holds objects that FlowFabric did not put there: "
                "rename or drop that schema, or choose another database."
            )
        return InstalledState(owner, frozenset(), yoyo_ids, yoyo_locked, None, None, False)

    ledger = frozenset(
        int(row[0]) for row in conn.execute("select version from flowfabric.ff_migration_annotation")
    )
    config = conn.execute(_VERSION_RECORD).fetchone() if {_CONFIG, "ff_setting"} <= tables else None
    if not ledger:
        raise InstallError(_HALF_INSTALLED.format(what=f"{_LEDGER} is empty"))
    if config is None:
        raise InstallError(
            _HALF_INSTALLED.format(what=f"{_CONFIG} or ff_setting is missing, or has lost its row")
        )
    unrecorded = sorted(id_ for id_ in yoyo_ids if _number_of(id_) not in ledger)
    if unrecorded:
        raise InstallError(
            _HALF_INSTALLED.format(
                what=f"yoyo lists {', '.join(unrecorded)} as applied, but {_LEDGER} does not"
            )
        )
    version, digest, test_clock = config
    return InstalledState(owner, ledger, yoyo_ids, yoyo_locked, version or None, digest, bool(test_clock))


def refuse_other_release(state: InstalledState, sources: SqlSources) -> None:
    """Raise if a later client made the installation, or one with migrations that this client lacks."""
    problem = other_release(state, sources)
    if problem is not None:
        raise InstallError(problem)


def other_release(state: InstalledState, sources: SqlSources) -> str | None:
    """The sentence that says why this client must not touch the installation, if it must not."""
    migrations = sources.migrations()
    ours = max(migration.number for migration in migrations)
    if state.schema_version > ours or _is_later(state.library_version, __version__):
        return (
            f"The database has FlowFabric {state.library_version or '(unknown version)'} with schema version "
            f"{state.schema_version}, which is newer than this client ({__version__}, schema version "
            f"{ours}): upgrade flowfabric-client."
        )
    unknown = sorted(state.yoyo_ids - {migration.id for migration in migrations})
    if unknown:
        return (
            f"The database has the migration {', '.join(unknown)}, which this client does not know: "
            "it was installed from another line of development."
        )
    return None


def _is_later(installed: str | None, ours: str) -> bool:
    return installed is not None and _version_key(installed) > _version_key(ours)


def _version_key(version: str) -> tuple[tuple[int, ...], bool, str]:
    """Order `0.2.0rc1` before `0.2.0` and `0.9` before `0.10`."""
    match = re.match(r"(\d+(?:\.\d+)*)(.*)", version)
    if match is None:
        return (), False, version
    return tuple(int(part) for part in match[1].split(".")), not match[2], match[2]


def _number_of(yoyo_id: str) -> int | None:
    number = yoyo_id.partition(".")[0]
    return int(number) if number.isdecimal() else None


def _tables(conn: Connection) -> set[str]:
    return {str(row[0]) for row in conn.execute(_TABLES)}


def _holds_foreign_objects(conn: Connection) -> bool:
    return conn.execute(_FOREIGN_OBJECTS, (list(_YOYO_TABLES),)).fetchone() is not None


_TABLES: LiteralString = """
    select c.relname
    from pg_class as c
    join pg_namespace as n on n.oid = c.relnamespace
    where n.nspname = 'flowfabric' and c.relkind = 'r'"""

_VERSION_RECORD: LiteralString = """
    select
        c.ff_version,
        c.library_digest,
        coalesce((select s.value <> 0 from flowfabric.ff_setting as s where s.name = 'test_clock'), false)
    from flowfabric.ff_partition_config as c"""

_FOREIGN_OBJECTS: LiteralString = """
    select
    from pg_namespace as n
    where n.nspname = 'flowfabric'
        and (
            exists (
                select
                from pg_class as c
                where c.relnamespace = n.oid and c.relkind in ('r', 'p', 'v', 'm', 'S', 'f', 'c')
                    and (c.relkind <> 'r' or c.relname <> all (%s)))
            or exists (select from pg_proc as p where p.pronamespace = n.oid)
            or exists (
                select from pg_type as t where t.typnamespace = n.oid and t.typtype in ('e', 'd', 'r')))"""
