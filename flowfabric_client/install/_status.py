"""Whether an installation is what this client expects; reads only."""

from contextlib import closing
from dataclasses import dataclass

from flowfabric_client._sql import SqlSources
from flowfabric_client._version import __version__
from flowfabric_client.install._connection import open_session
from flowfabric_client.install._errors import as_install_errors
from flowfabric_client.install._roles import find_role_gaps
from flowfabric_client.install._safety import refuse_foreign_code
from flowfabric_client.install._state import InstalledState, other_release, read_state

_LOCK_TIMEOUT_MS = 5000


@dataclass(frozen=True, slots=True)
class InstallStatus:
    """An installation beside this client; `problems` says in sentences what is not as it should be."""

    installed: bool
    library_version: str | None
    client_version: str
    schema_version: int
    client_schema_version: int
    pending: tuple[str, ...]
    digest_matches: bool
    test_clock: bool
    owner: str | None
    missing_roles: tuple[str, ...]
    missing_memberships: tuple[str, ...]
    problems: tuple[str, ...]

    @property
    def current(self) -> bool:
        """Whether `migrate` would have nothing to do."""
        return not self.problems


def status(dsn: str, *, sources: SqlSources | None = None) -> InstallStatus:
    """Compare the installation in a database with this client.

    Raises:
        InstallError: If the database cannot be reached or read, or is half-installed.
    """
    with as_install_errors():
        sources = sources or SqlSources.shipped()
        _, conn = open_session(dsn, lock_timeout_ms=_LOCK_TIMEOUT_MS)
        with closing(conn):
            refuse_foreign_code(conn)
            state = read_state(conn)
            gaps = find_role_gaps(conn)
        digest = sources.digest(with_test_clock=state.test_clock)
        problems = _problems(state, sources, digest)
        if gaps:
            problems.append(f"Somebody who may must {gaps}: see `flowfabric sql --roles-only`.")
        return InstallStatus(
            installed=bool(state.ledger),
            library_version=state.library_version,
            client_version=__version__,
            schema_version=state.schema_version,
            client_schema_version=max(migration.number for migration in sources.migrations()),
            pending=tuple(migration.id for migration in state.pending(sources)),
            digest_matches=state.library_digest == digest,
            test_clock=state.test_clock,
            owner=state.schema_owner,
            missing_roles=gaps.missing,
            missing_memberships=gaps.ungranted,
            problems=tuple(problems),
        )


def _problems(state: InstalledState, sources: SqlSources, digest: str) -> list[str]:
    if not state.ledger:
        return ["FlowFabric is not installed in this database: run `flowfabric migrate`."]
    newer = other_release(state, sources)
    if newer is not None:
        return [newer]
    problems = []
    pending = [migration.id for migration in state.pending(sources)]
    if pending:
        problems.append(f"Migrations are pending ({', '.join(pending)}): run `flowfabric migrate`.")
    if state.unmarked(sources) or state.yoyo_locked:
        problems.append("An installation was interrupted: run `flowfabric migrate`.")
    if state.library_version is None:
        problems.append("The functions were never loaded: run `flowfabric migrate`.")
    elif state.library_version != __version__ or state.library_digest != digest:
        problems.append(
            f"The installed functions are those of {state.library_version} and differ from this client's "
            f"({__version__}): run `flowfabric migrate`."
        )
    return problems
