"""Installing and upgrading: everything that changes a database, in the order in which it does."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import LiteralString

from psycopg import errors as pg
from psycopg import sql

from flowfabric_client._sql import SqlSources
from flowfabric_client._version import __version__
from flowfabric_client.install._connection import (
    Connection,
    OnStep,
    Session,
    one_row,
    open_session,
)
from flowfabric_client.install._errors import InstallError, as_install_errors
from flowfabric_client.install._functions import LoadResult, load_functions
from flowfabric_client.install._lock import InstallationLock, installation_lock
from flowfabric_client.install._migrations import apply_migrations
from flowfabric_client.install._roles import RoleGaps, fill_role_gaps, find_role_gaps, refuse_unless_fillable
from flowfabric_client.install._safety import refuse_unsafe_schema
from flowfabric_client.install._state import (
    InstalledState,
    create_ledger,
    has_lock_table,
    read_state,
    refuse_other_release,
    schema_owner,
)

DEFAULT_LOCK_TIMEOUT_MS = 5000


@dataclass(frozen=True, slots=True)
class MigrateReport:
    """What a run of `migrate` did; `changed` is false if there was nothing to do."""

    changed: bool
    version: str
    previous_version: str | None
    schema_version: int
    digest: str
    test_clock: bool
    owner: str
    applied: tuple[str, ...] = ()
    files_loaded: int = 0
    dropped: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Plan:
    """What a database lacks, compared with the sources."""

    state: InstalledState
    sources: SqlSources
    gaps: RoleGaps
    owner: str
    test_clock: bool
    force: bool

    @property
    def nothing_to_do(self) -> bool:
        state = self.state
        return not (
            self.force
            or self.gaps
            or state.pending(self.sources)
            or state.unmarked(self.sources)
            or state.yoyo_locked
            or state.test_clock != self.test_clock
            or state.library_version != __version__
            or state.library_digest != self.sources.digest(with_test_clock=self.test_clock)
        )

    def report(self, *, applied: tuple[str, ...] = (), loaded: LoadResult | None = None) -> MigrateReport:
        return MigrateReport(
            changed=loaded is not None,
            version=__version__,
            previous_version=self.state.library_version,
            schema_version=max(migration.number for migration in self.sources.migrations()),
            digest=self.sources.digest(with_test_clock=self.test_clock),
            test_clock=self.test_clock,
            owner=self.owner,
            applied=applied,
            files_loaded=loaded.files if loaded else 0,
            dropped=loaded.dropped if loaded else (),
        )


def migrate(
    dsn: str,
    *,
    with_test_clock: bool | None = None,
    owner: str | None = None,
    lock_timeout_ms: int = DEFAULT_LOCK_TIMEOUT_MS,
    force: bool = False,
    on_step: Callable[[str], None] | None = None,
    sources: SqlSources | None = None,
) -> MigrateReport:
    """Install the engine in a database, or bring an installation up to this client.

    A run that finds everything in place writes nothing. A run that is killed leaves whole steps, and the next
    one continues from there.

    Args:
        dsn: A libpq connection string or URI; empty for what libpq's environment says. It must reach the
            server directly: a pooler in transaction mode would lose the lock and the settings of the session.
        with_test_clock: Whether the installation has the test clock; `None` keeps what it has.
        owner: The role that owns everything; by default the owner of the schema, or the connected role if
            there is no schema yet. Another role than the connected one must be one that no other login can
            act as.
        lock_timeout_ms: How long a statement may wait for a lock of another session.
        force: Load the functions even if nothing changed.
        on_step: Is told what happens next, as a short phrase.
        sources: The SQL to install; by default that of this package.

    Raises:
        UnsafeSchemaError: Another role could let code of its own run with the rights of this connection.
        InstallError: In one sentence, why it was refused or what failed.
    """
    say = on_step or _say_nothing
    with as_install_errors():
        sources = sources or SqlSources.shipped()
        sources.migrations()
        session, conn = open_session(dsn, lock_timeout_ms=lock_timeout_ms)
        with closing(conn):
            version = conn.info.parameter_status("server_version")
            say(f"connected to database {conn.info.dbname} on PostgreSQL {version}")
            acting_as = _choose_owner(conn, owner)
            gaps = find_role_gaps(conn)
            if gaps:
                refuse_unless_fillable(conn, gaps, sources)
            session = replace(session, act_as=acting_as)
            session.prepare(conn)
            with _locked(conn, session, say) as lock:
                refuse_unsafe_schema(conn)
                state = read_state(conn)
                refuse_other_release(state, sources)
                plan = _Plan(
                    state=state,
                    sources=sources,
                    gaps=gaps,
                    owner=acting_as,
                    test_clock=state.test_clock if with_test_clock is None else with_test_clock,
                    force=force,
                )
                if plan.nothing_to_do:
                    return plan.report()
                _refuse_what_cannot_succeed(conn, state)
                return _execute(conn, session, plan, lock, say)


@contextmanager
def _locked(conn: Connection, session: Session, say: OnStep) -> Iterator[InstallationLock]:
    """Hold the installation lock, after creating the table that it is a lock of if there is none.

    A standby has no such locks; there is nothing to protect either, because no installer can work on it.
    """
    if one_row(conn, "select pg_is_in_recovery()")[0]:
        yield InstallationLock(conn)
        return
    with ExitStack() as stack:
        lock = None
        while lock is None:
            refuse_unsafe_schema(conn)
            if not has_lock_table(conn):
                state = read_state(conn)
                _refuse_what_cannot_succeed(conn, state)
                say("creating schema flowfabric" if state.schema_owner is None else "creating yoyo's tables")
                create_ledger(conn, with_schema=state.schema_owner is None)
            # The schema, and with it the table, can be dropped while this waits.
            with suppress(pg.UndefinedTable, pg.InvalidSchemaName):
                lock = stack.enter_context(installation_lock(session, say))
        say("installation lock taken")
        yield lock


def _execute(
    conn: Connection, session: Session, plan: _Plan, lock: InstallationLock, say: OnStep
) -> MigrateReport:
    if plan.gaps:
        say(f"roles: {plan.gaps}")
        # As the connected role: the owner of the engine need not be able to create roles.
        conn.execute("reset role")
        fill_role_gaps(conn, plan.sources)
        session.prepare(conn)
    pending = plan.state.pending(plan.sources)
    unmarked = plan.state.unmarked(plan.sources)
    if pending or unmarked or plan.state.yoyo_locked:
        apply_migrations(session, plan.sources, lock, pending=pending, unmarked=unmarked, on_step=say)
    applied = tuple(migration.id for migration in pending)
    try:
        with as_install_errors():
            loaded = load_functions(conn, plan.sources, lock, with_test_clock=plan.test_clock, on_step=say)
    except InstallError as exc:
        if not applied:
            raise
        raise InstallError(
            f"{exc} (The migrations {', '.join(applied)} are applied, but the functions are those of before: "
            "run `flowfabric migrate` again when this is corrected.)"
        ) from exc
    return plan.report(applied=applied, loaded=loaded)


def _choose_owner(conn: Connection, wanted: str | None) -> str:
    """The role to act as: everything in the schema has one owner, with whose rights its functions run."""
    connected_as = str(one_row(conn, "select current_user::text")[0])
    current = schema_owner(conn)
    if current is not None and wanted not in (None, current):
        raise InstallError(
            f"Schema flowfabric belongs to {current}, not to {wanted}: change its owner first."
        )
    acting_as = wanted or current or connected_as
    if acting_as == connected_as:
        return acting_as
    if not one_row(conn, "select count(*) from pg_roles as r where r.rolname = %s", [acting_as])[0]:
        raise InstallError(f"Role {acting_as} does not exist: create it, and grant it to {connected_as}.")
    # PostgreSQL 16 made the right to become a role a part of its own of a membership.
    right = "set" if conn.info.server_version >= 160_000 else "member"
    if not one_row(conn, "select pg_has_role(current_user, %s::name, %s)", [acting_as, right])[0]:
        raise InstallError(
            f"Role {connected_as} may not act as {acting_as}, the owner of schema flowfabric: "
            f"connect as {acting_as} or as a member of it."
        )
    return acting_as


def _refuse_what_cannot_succeed(conn: Connection, state: InstalledState) -> None:
    """Raise for everything that would otherwise end the run in its middle."""
    is_standby, is_read_only, may_create_schema, database, user = one_row(conn, _POSSIBILITIES)
    if is_standby:
        raise InstallError("This server is a standby, which cannot be written to: connect to the primary.")
    if is_read_only:
        raise InstallError(
            "This connection is read-only (default_transaction_read_only): connect without that setting."
        )
    if state.schema_owner is None and not may_create_schema:
        statement = sql.SQL("grant create on database {} to {};\n").format(
            sql.Identifier(database), sql.Identifier(user)
        )
        raise InstallError(
            f"Role {user} may not create a schema in database {database}: its owner must allow it.",
            sql=statement.as_string(conn),
        )


def _say_nothing(step: str) -> None:
    """For callers who do not want to know."""


_POSSIBILITIES: LiteralString = """
    select
        pg_is_in_recovery(),
        current_setting('transaction_read_only')::boolean,
        has_database_privilege(current_database(), 'create'),
        current_database()::text,
        current_user::text"""
