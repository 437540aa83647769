"""The private server of a run: one database per measurement, and what the server says that it did."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psycopg
from psycopg import sql

from flowfabric_client.dev import PostgresServer, start_server

# Durability is PostgreSQL's default, written out because everything here depends on it. The rest keeps
# checkpoints out of the measurements, gives a cache of today's size, and leaves room for the peers' pools.
SETTINGS = {
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "shared_buffers": "512MB",
    "max_wal_size": "8GB",
    "checkpoint_timeout": "1h",
    "max_connections": "200",
    "autovacuum": "on",
}


@dataclass(frozen=True)
class Counters:
    """Bytes of WAL written by the server, and CPU seconds of the connections to one database."""

    wal_bytes: int
    cpu_seconds: float | None

    def since(self, before: Counters) -> Counters:
        """What has been added."""
        cpu = None
        if self.cpu_seconds is not None and before.cpu_seconds is not None:
            cpu = self.cpu_seconds - before.cpu_seconds
        return Counters(self.wal_bytes - before.wal_bytes, cpu)


@dataclass(frozen=True)
class Activity:
    """Transactions committed in a database, and row versions that updates and deletes left dead there."""

    commits: int
    dead_rows: int


class BenchServer:
    """A server whose databases are clones of a template per system: no measurement sees another's rows."""

    def __init__(self, *, flushed: bool = True) -> None:
        settings = SETTINGS if flushed else {**SETTINGS, "synchronous_commit": "off"}
        self._server: PostgresServer = start_server(keep=False, settings=settings)
        self.version = self._server.version
        self.provider = self._server.provider
        self._admin = psycopg.connect(self._server.dsn(), autocommit=True)
        self._clones = 0
        self._templates: list[str] = []
        # Elsewhere its processes are not ours to look at, and their numbers mean others here.
        self._is_local = self.provider in ("local", "wheel")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # The server of the environment outlives the run.
        for template in self._templates:
            self._execute("drop database if exists {} with (force)", template)
        self._admin.close()
        self._server.stop()

    def settings(self) -> dict[str, str]:
        """The settings of SETTINGS as the server has them: one named by the environment keeps its own."""
        rows = self._admin.execute(
            "select name, current_setting(name) from pg_settings where name = any(%s) order by name",
            [list(SETTINGS)],
        )
        return dict(rows.fetchall())

    def dsn(self, database: str) -> str:
        """How to connect to a database."""
        return self._server.dsn(database)

    def create_template(self, name: str) -> str:
        """An empty database that others are cloned from; the connection string."""
        self._execute("create database {}", name)
        self._templates.append(name)
        return self.dsn(name)

    @contextmanager
    def clone(self, template: str) -> Iterator[str]:
        """A copy of a template for the time of the block."""
        self._clones += 1
        name = f"{template}_{self._clones}"
        self._wait_until_unused(template)
        self._execute("create database {} template {}", name, template)
        try:
            yield name
        finally:
            self._execute("drop database {} with (force)", name)

    def checkpoint(self) -> None:
        """Write everything out, so that no measurement pays for the one before."""
        self._admin.execute("checkpoint")

    def counters(self, database: str) -> Counters:
        """What the server and the connections to a database have used until now."""
        wal = self._one("select (pg_current_wal_insert_lsn() - '0/0')::bigint")
        if not self._is_local:
            return Counters(wal, None)
        pids = self._admin.execute("select pid from pg_stat_activity where datname = %s", [database])
        try:
            cpu = sum(_cpu_seconds(pid) for (pid,) in pids.fetchall())
        except OSError:
            return Counters(wal, None)
        return Counters(wal, cpu)

    def activity(self, database: str) -> Activity:
        """What has happened in a database, once every client has left and has reported its statistics."""
        self._wait_until_unused(database)
        with psycopg.connect(self.dsn(database), autocommit=True) as connection:
            row = connection.execute(
                """select d.xact_commit, (
                    select coalesce(sum(t.n_tup_upd + t.n_tup_del), 0) from pg_stat_user_tables as t)
                from pg_stat_database as d where d.datname = current_database()"""
            ).fetchone()
        if row is None:
            raise LookupError(f"the server has no statistics of {database}")
        return Activity(int(row[0]), int(row[1]))

    def _wait_until_unused(self, database: str) -> None:
        deadline = time.monotonic() + 30
        while self._one(
            "select count(*) from pg_stat_activity where datname = %s and backend_type = 'client backend'",
            [database],
        ):
            if time.monotonic() > deadline:
                raise TimeoutError(f"somebody stays connected to database {database}")
            time.sleep(0.02)

    def _execute(self, statement: str, *names: str) -> None:
        self._admin.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))

    def _one(self, query: str, arguments: list[Any] | None = None) -> int:
        row = self._admin.execute(query, arguments).fetchone()
        return int(row[0]) if row else 0


def _cpu_seconds(pid: int) -> float:
    """CPU time of a server process.

    Raises:
        OSError: it has gone by now, so that its time would be missing, or this system does not tell.
    """
    try:
        # Nanoseconds, where the kernel counts them; ticks of 10 ms otherwise.
        return int(Path(f"/proc/{pid}/schedstat").read_text(encoding="ascii").split()[0]) / 1e9
    except FileNotFoundError:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
