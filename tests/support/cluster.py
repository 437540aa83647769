"""The private Postgres server of a test process, and the databases that tests get from it.

Every pytest process (each xdist worker is one) starts a server of its own. Databases would not be apart
enough: all databases of a server share its transaction ids, and an event becomes readable only when no
older transaction is running *anywhere on the server*. Two test processes on one server would see each
other there, as well as in roles and in `pg_stat_activity`.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TypedDict

import psycopg
from psycopg import sql
from psycopg.rows import TupleRow

from flowfabric_client import install
from flowfabric_client.dev import PROVIDERS, THROW_AWAY_SETTINGS, PostgresServer, ProviderName, start_server

Connection = psycopg.Connection[TupleRow]

REPOSITORY = Path(__file__).resolve().parents[2]

MEMORY_FILES = Path("/dev/shm")
#: For one server: WAL up to the default max_wal_size of 1 GB, and the databases of one test at a time.
MEMORY_NEEDED = 2 * 1024**3

#: The data live as long as the test process, so nothing is spent on surviving a crash. Autovacuum stays on,
#: as in production, but it sleeps: a vacuum worker inside a template would delay every clone of it.
SERVER_SETTINGS = {
    **THROW_AWAY_SETTINGS,
    "max_connections": "200",
    "autovacuum_naptime": "1d",
    "checkpoint_timeout": "1h",
    # Tests provoke thousands of errors on purpose; they are asserted, not read in the log.
    "log_min_messages": "fatal",
    "log_min_error_statement": "panic",
}


class HarnessError(Exception):
    """The test environment lacks something; the message says what to do about it."""


class ServerChoice(TypedDict, total=False):
    """The arguments of `start_server` that say which server to run."""

    provider: ProviderName
    version: int


def server_choice(text: str) -> ServerChoice:
    """Read FLOWFABRIC_TEST_PG: a provider such as `local`, or one with a major version such as `wheel:18`."""
    if not text:
        return {}
    provider, has_version, version = text.partition(":")
    if provider not in PROVIDERS or (has_version and not version.isdecimal()):
        raise HarnessError(f"FLOWFABRIC_TEST_PG={text}: write it like wheel:18, local:15 or local.")
    choice: ServerChoice = {"provider": provider}
    if has_version:
        choice["version"] = int(version)
    return choice


@contextmanager
def temporary_files_in_memory() -> Iterator[None]:
    """Let `start_server` make its throw-away data directory in memory, where there is room for one.

    A database with FlowFabric is some 570 small files: cloning it takes 24 ms in memory, 300 to 500 on ext4.
    """
    usual = tempfile.tempdir
    if MEMORY_FILES.is_dir() and shutil.disk_usage(MEMORY_FILES).free >= MEMORY_NEEDED:
        tempfile.tempdir = str(MEMORY_FILES)
    try:
        yield
    finally:
        tempfile.tempdir = usual


class Cluster:
    """One running server. What it makes has unique names, so a server of the user's own can serve too."""

    def __init__(self, server: PostgresServer) -> None:
        self.server = server
        self._prefix = f"ff_test_{secrets.token_hex(4)}"
        self._databases = 0
        self._roles: list[str] = []

    @classmethod
    def start(cls) -> Cluster:
        """Start the server that the environment asks for."""
        choice = server_choice(os.environ.get("FLOWFABRIC_TEST_PG", ""))
        with temporary_files_in_memory():
            return cls(start_server(**choice, keep=False, settings=SERVER_SETTINGS))

    @property
    def version(self) -> int:
        """The server's major version."""
        return self.server.version

    @property
    def bin_dir(self) -> Path | None:
        """Where the server's own programs are, if it runs from local binaries."""
        return self.server.bin_dir

    def dsn(self, dbname: str = "postgres") -> str:
        """A connection string for one database, as superuser."""
        return self.server.dsn(dbname)

    def create_database(self, template: str = "template1") -> str:
        """Make a database and return its name."""
        self._databases += 1
        name = f"{self._prefix}_{self._databases}"
        # Copying files is a little quicker here than writing the copy to the WAL (24 against 28 ms), because
        # its checkpoints cost no fsync. PostgreSQL 14 has no choice: it always copies files.
        strategy = sql.SQL(" strategy file_copy" if self.version >= 15 else "")
        self._admin.execute(
            sql.SQL("create database {} template {}").format(sql.Identifier(name), sql.Identifier(template))
            + strategy
        )
        return name

    def drop_database(self, name: str) -> None:
        """Drop a database, whoever is still connected to it."""
        self._admin.execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name)))

    @contextmanager
    def database(self, template: str = "template1") -> Iterator[str]:
        """A database for the time of one test, as its connection string."""
        name = self.create_database(template)
        try:
            yield self.dsn(name)
        finally:
            self.drop_database(name)

    @cached_property
    def template(self) -> str:
        """A database in which FlowFabric is installed with the test clock."""
        return self._installed_template(with_test_clock=True)

    @cached_property
    def production_template(self) -> str:
        """A database in which FlowFabric is installed as in production."""
        return self._installed_template(with_test_clock=False)

    @cached_property
    def pgtap_template(self) -> str:
        """The template with pgTAP beside it, in schema `pgtap`."""
        name = self.create_database(self.template)
        with psycopg.connect(self.dsn(name), autocommit=True) as connection:
            install_pgtap(connection)
        return name

    def create_login_role(self, *memberships: str) -> tuple[str, str]:
        """Make a login role that is a member of the given roles; return its name and password."""
        name = f"{self._prefix}_role_{len(self._roles)}"
        password = secrets.token_hex(8)
        self._admin.execute(
            sql.SQL("create role {} login password {} in role {}").format(
                sql.Identifier(name),
                sql.Literal(password),
                sql.SQL(", ").join(map(sql.Identifier, memberships)),
            )
        )
        self._roles.append(name)
        return name, password

    def stop(self) -> None:
        """Take away everything that was made here, then stop the server if it was started here."""
        names = self._admin.execute(
            "select datname from pg_database where starts_with(datname, %s)", [self._prefix]
        )
        for (name,) in names.fetchall():
            self.drop_database(name)
        for name in self._roles:
            self._admin.execute(sql.SQL("drop role {}").format(sql.Identifier(name)))
        self._admin.close()
        self.server.stop()

    @cached_property
    def _admin(self) -> Connection:
        return psycopg.connect(self.dsn(), autocommit=True)

    def _installed_template(self, *, with_test_clock: bool) -> str:
        name = self.create_database()
        install.migrate(self.dsn(name), with_test_clock=with_test_clock)
        return name


def install_pgtap(connection: Connection) -> None:
    """Put pgTAP into schema `pgtap`: the server's extension if it has one, else a copy as plain SQL."""
    connection.execute("create schema pgtap")
    if connection.execute("select from pg_available_extensions where name = 'pgtap'").rowcount:
        connection.execute("create extension pgtap schema pgtap")
        return
    fetched = subprocess.run([REPOSITORY / "tools/fetch-pgtap"], capture_output=True, text=True, check=False)
    if fetched.returncode != 0:
        raise HarnessError(fetched.stderr.strip())
    source = Path(fetched.stdout.strip()).read_text(encoding="utf-8")
    with connection.transaction():
        connection.execute("set local search_path = pgtap, pg_catalog")
        connection.execute(source.encode())
