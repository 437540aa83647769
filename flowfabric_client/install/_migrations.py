"""Applying migrations through yoyo, which keeps its tables in schema flowfabric too."""

import io
import socket
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from datetime import UTC, datetime
from typing import Any

import psycopg
from yoyo.backends.core.postgresql import PostgresqlPsycopgBackend
from yoyo.internalmigrations import schema_versions, v2
from yoyo.migrations import Migration, default_migration_table, get_migration_hash, read_sql_migration

from flowfabric_client._sql import MigrationFile, SqlSources
from flowfabric_client.install._connection import Connection, OnStep, Session
from flowfabric_client.install._errors import StatementFailedError
from flowfabric_client.install._foreign_code import REVOKE_DEFAULT_PRIVILEGES
from flowfabric_client.install._lock import InstallationLock, join_installation
from flowfabric_client.install._script import first_code_offset, line_at, offsets_of

_NOW_UTC = "clock_timestamp() at time zone 'utc'"


def apply_migrations(
    session: Session,
    sources: SqlSources,
    lock: InstallationLock,
    *,
    pending: Sequence[MigrationFile],
    unmarked: Sequence[MigrationFile],
    on_step: OnStep,
) -> None:
    """Bring yoyo's records in step with the ledger, then apply what is pending, one transaction for each."""
    # yoyo resolves `-- depends:` among all migrations that it has been shown.
    known = {
        file.id: Migration(file.id, str(file.path), str(sources.migrations_dir))
        for file in sources.migrations()
    }
    with _Backend(session, default_migration_table) as backend, backend.locked():
        if unmarked:
            on_step(f"recording as applied: {', '.join(file.id for file in unmarked)}")
            backend.mark_migrations([known[file.id] for file in unmarked])
        for file in pending:
            lock.assert_held()
            on_step(f"applying migration {file.id}")
            migration = known[file.id]
            migration.load()
            _, _, statements = read_sql_migration(str(file.path))
            # A rollback file with more statements makes yoyo add steps without a forward statement.
            migration.steps[: len(statements)] = [
                _LocatedStep(step, file, statement, offset)
                for step, statement, offset in zip(
                    migration.steps, statements, offsets_of(statements, file.text), strict=False
                )
            ]
            migration.steps.append(_RevokeDefaultPrivileges())
            # yoyo prints the rows of a SELECT.
            with redirect_stdout(io.StringIO()):
                backend.apply_one(migration)


def ledger_sql() -> str:
    """The statements that create the tables which yoyo keeps, all of them empty but for its own version."""
    recorder = _Recorder()
    recorder.execute(recorder.format_sql(recorder.create_lock_table_sql))
    v2.create_log_table(recorder)
    v2.create_version_table(recorder)
    v2.create_migration_table(recorder)
    version = max(schema_versions)
    recorder.execute(f"insert into {recorder.version_table_quoted} values ({version}, {_NOW_UTC})")
    return recorder.script()


def lock_table_sql() -> str:
    """The statement that creates only the table that installers lock."""
    recorder = _Recorder()
    recorder.execute(recorder.format_sql(recorder.create_lock_table_sql))
    return recorder.script()


def applied_sql(migrations: Sequence[MigrationFile]) -> str:
    """The statements that leave yoyo's tables as they are after it applied these migrations."""
    recorder = _Recorder()
    for migration in migrations:
        key = f"'{get_migration_hash(migration.id)}', '{migration.id}'"
        recorder.execute(
            f"insert into {recorder.migration_table_quoted} (migration_hash, migration_id, applied_at_utc)"
            f" values ({key}, {_NOW_UTC})"
        )
        recorder.execute(
            f"insert into {recorder.log_table_quoted}"
            " (id, migration_hash, migration_id, operation, username, hostname, created_at_utc)"
            f" values (gen_random_uuid(), {key}, 'apply', current_user, 'psql', {_NOW_UTC})"
        )
    return recorder.script()


class _Backend(PostgresqlPsycopgBackend):  # type: ignore[misc]  # yoyo has no type information
    """yoyo's backend on connections of our session."""

    uri: Session

    def connect(self, dburi: Session) -> Connection:
        self.schema = "flowfabric"
        return dburi.connect()

    def init_connection(self, connection: Connection) -> None:
        self.uri.prepare(connection)
        super().init_connection(connection)

    def begin(self) -> None:
        super().begin()
        join_installation(self.connection)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold yoyo's own lock, against people who run yoyo by hand.

        It is a row, which a kill leaves behind. Under the installation lock, a row found here is a leftover.
        """
        self.break_lock()
        with self.lock():
            yield

    def get_log_data(self, migration: Migration = None, operation: str = "apply") -> dict[str, Any]:
        # yoyo's own asks the operating system for the user, whom a container may not know, and the name
        # server for the host, which may not answer.
        return {
            "id": str(uuid.uuid4()),
            "migration_id": migration.id if migration else None,
            "migration_hash": migration.hash if migration else None,
            "username": self.connection.info.user,
            "hostname": socket.gethostname(),
            "created_at_utc": datetime.now(UTC).replace(tzinfo=None),
            "operation": operation,
        }


class _Recorder(PostgresqlPsycopgBackend):  # type: ignore[misc]  # yoyo has no type information
    """Collects the statements by which yoyo creates its tables, so that this package does not repeat them."""

    def __init__(self) -> None:
        self.statements: list[str] = []
        self.migration_table = default_migration_table
        for table in ("lock_table", "log_table", "version_table", "migration_table"):
            setattr(self, f"{table}_quoted", f"flowfabric.{self.quote_identifier(getattr(self, table))}")

    def execute(self, sql: str, params: None = None) -> None:  # noqa: ARG002
        self.statements.append(" ".join(sql.split()))

    def script(self) -> str:
        """What was collected, as the text of a file."""
        return "".join(f"{statement};\n" for statement in self.statements)


class _RevokeDefaultPrivileges:
    """The last step of every migration: no other role may add code to the tables that it created."""

    def apply(self, backend: _Backend, force: bool = False) -> None:  # noqa: ARG002
        backend.connection.execute(REVOKE_DEFAULT_PRIVILEGES)


class _LocatedStep:
    """A step of a yoyo migration whose failure names the line in the migration's file."""

    def __init__(self, step: Any, file: MigrationFile, statement: str, offset: int) -> None:
        self._step = step
        self._file = file
        self._statement = statement
        self._offset = offset

    def apply(self, backend: _Backend, force: bool = False) -> None:
        try:
            self._step.apply(backend, force)
        except psycopg.Error as exc:
            position = exc.diag.statement_position
            within = int(position) - 1 if position is not None else first_code_offset(self._statement)
            raise StatementFailedError(
                self._file, line_at(self._file.text, self._offset + within), exc
            ) from exc
