"""The private Postgres of a test process, and the databases that tests get from it.

Every pytest process (each xdist worker is one) starts a server of its own. Databases would not be apart
enough: all databases of a server share its transaction ids, and an event becomes readable only when no
older transaction is running *anywhere on the server*. Two test processes on one server would see each
other there, as well as in roles and in `pg_stat_activity`.
"""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Self, TypedDict

import psycopg
from psycopg import sql
from psycopg.rows import TupleRow

from flowfabric_client import install
from flowfabric_client.client import Client
from flowfabric_client.dev import PROVIDERS, THROW_AWAY_SETTINGS, PostgresServer, ProviderName, start_server

#: Puts what an application needs besides FlowFabric into a template, given its connection string.
Setup = Callable[[str], None]

CHOICE_VARIABLE = "FLOWFABRIC_TEST_PG"

_MEMORY_FILES = Path("/dev/shm")  # noqa: S108 - the server makes a directory of its own in it
#: For one server: WAL up to the default max_wal_size of 1 GB, and the databases of one test at a time.
_MEMORY_NEEDED = 2 * 1024**3

#: The data live as long as the test process, so nothing is spent on surviving a crash. Autovacuum stays on,
#: as in production, but it sleeps: a vacuum worker inside a template would delay every clone of it.
_SERVER_SETTINGS = {
    **THROW_AWAY_SETTINGS,
    "max_connections": "200",
    "autovacuum_naptime": "1d",
    "checkpoint_timeout": "1h",
    # Tests provoke errors on purpose; they are asserted, not read in the log.
    "log_min_messages": "fatal",
    "log_min_error_statement": "panic",
}


class ServerChoiceError(ValueError):
    """FLOWFABRIC_TEST_PG names no server; the message says how to write it."""


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
        raise ServerChoiceError(f"{CHOICE_VARIABLE}={text}: write it like wheel:18, local:15 or local.")
    choice: ServerChoice = {"provider": provider}
    if has_version:
        choice["version"] = int(version)
    return choice


@contextmanager
def _temporary_files_in_memory() -> Iterator[None]:
    """Let `start_server` make its throw-away data directory in memory, where there is room for one.

    A database with FlowFabric is some 570 small files: cloning it takes 24 ms in memory, 300 to 500 on ext4.
    """
    usual = tempfile.tempdir
    if _MEMORY_FILES.is_dir() and shutil.disk_usage(_MEMORY_FILES).free >= _MEMORY_NEEDED:
        tempfile.tempdir = str(_MEMORY_FILES)
    try:
        yield
    finally:
        tempfile.tempdir = usual


class ScratchServer:
    """One running server. What it makes has unique names, so a server of the user's own can serve too."""

    def __init__(self, server: PostgresServer) -> None:
        self.server = server
        self._prefix = f"ff_test_{secrets.token_hex(4)}"
        self._databases = 0
        self._templates: dict[Setup, str] = {}

    @classmethod
    def start(cls) -> Self:
        """Start the server that the environment asks for.

        Raises:
            DevServerError: there is none to be had; the message says what to install.
            ServerChoiceError: FLOWFABRIC_TEST_PG cannot be read.
        """
        choice = server_choice(os.environ.get(CHOICE_VARIABLE, ""))
        with _temporary_files_in_memory():
            return cls(start_server(**choice, keep=False, settings=_SERVER_SETTINGS))

    def dsn(self, dbname: str = "postgres") -> str:
        """A connection string for one database, as superuser."""
        return self.server.dsn(dbname)

    def create_database(self, template: str = "template1") -> str:
        """Make a database and return its name."""
        self._databases += 1
        name = f"{self._prefix}_{self._databases}"
        # Copying files is a little quicker here than writing the copy to the WAL (24 against 28 ms), because
        # its checkpoints cost no fsync. PostgreSQL 14 has no choice: it always copies files.
        strategy = sql.SQL(" strategy file_copy" if self.server.version >= 15 else "")
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

    def application_template(self, setup: Setup | None = None) -> str:
        """A database that an application can use at once, with what its `setup` puts there; made once."""
        if setup is None:
            return self._ready_template
        if setup not in self._templates:
            name = self.create_database(self._ready_template)
            setup(self.dsn(name))
            self._templates[setup] = name
        return self._templates[setup]

    @cached_property
    def _ready_template(self) -> str:
        name = self.installed_database(with_test_clock=True)
        with Client(self.dsn(name)) as client:
            client.initialize(hmac_kid="test")
        return name

    def installed_database(self, *, with_test_clock: bool) -> str:
        """Make a database with FlowFabric in it and return its name."""
        name = self.create_database()
        install.migrate(self.dsn(name), with_test_clock=with_test_clock)
        return name

    def drop_databases(self) -> None:
        """Drop whatever was made here."""
        names = self._admin.execute(
            "select datname from pg_database where starts_with(datname, %s)", [self._prefix]
        )
        for (name,) in names.fetchall():
            self.drop_database(name)

    def stop(self) -> None:
        """Take away everything that was made here, then stop the server if it was started here."""
        self.drop_databases()
        self._admin.close()
        self.server.stop()

    @cached_property
    def _admin(self) -> psycopg.Connection[TupleRow]:
        return psycopg.connect(self.dsn(), autocommit=True)
