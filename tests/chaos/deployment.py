"""A server of our own, ways to it that can break, and worker processes that know nothing of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from urllib.parse import quote

import psycopg

from flowfabric_client.dev import PostgresServer, ProviderName, start_server
from flowfabric_client.install import migrate
from flowfabric_client.testing.server import CHOICE_VARIABLE, ServerChoice, server_choice
from tests.chaos.proxy import CuttingProxy
from tests.chaos.work import WORKER_ROLE, prepare
from tests.support.cluster import REPOSITORY
from tests.support.concurrency import wait_until
from tests.support.pgbouncer import PORT, PgBouncer

#: A commit that was answered must survive an immediate stop, so commits wait until the WAL is written. That
#: the operating system survives is taken for granted.
SETTINGS = {
    "fsync": "off",
    "log_min_messages": "fatal",
    "shared_buffers": "256MB",
}


@dataclass
class WorkerProcess:
    """A worker and the way it goes to the database."""

    name: str
    environment: dict[str, str]
    log: Path
    process: subprocess.Popen[bytes]

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None


class Deployment:
    """Everything that runs; faults are done to it."""

    def __init__(self, directory: Path, start: Callable[[], PostgresServer], dice: Random) -> None:
        self.directory = directory
        self.dice = dice
        self._start_server = start
        self._server = start()
        self.dsn = self._server.dsn()
        self._socket_dir = Path(psycopg.conninfo.conninfo_to_dict(self.dsn)["host"])  # type: ignore[arg-type]
        self.proxy = CuttingProxy(_subdirectory(directory, "proxy"), self._socket_dir, dice)
        self.bouncer = PgBouncer(
            _subdirectory(directory, "pgbouncer"),
            psycopg.conninfo.make_conninfo("", host=str(self._socket_dir), port=5432, user=WORKER_ROLE),
            pool_size=20,
            settings="max_client_conn = 500\nserver_login_retry = 1\nquery_wait_timeout = 30\n"
            "ignore_startup_parameters = extra_float_digits,options\n",
        )
        self.workers: list[WorkerProcess] = []

    # Workers

    def start_workers(self, ways: list[str], **settings: int) -> None:
        """Start a worker for each way: `direct`, `pgbouncer`, `proxy`, or `clock` with a wrong one."""
        if "pgbouncer" in ways:
            self.bouncer.start()
        configuration = {f"CHAOS_{name.upper()}": str(value) for name, value in settings.items()}
        for number, way in enumerate(ways):
            self._start(f"{number}-{way}", {**self._environment(way), **configuration})
        wait_until(lambda: self._registered() >= len(ways), "all workers were there", 60)

    def replace(self, worker: WorkerProcess) -> None:
        """Start another worker in the place of one that was killed."""
        self.workers.remove(worker)
        self._start(worker.name, worker.environment)

    def _environment(self, way: str) -> dict[str, str]:
        direct = _url(self._socket_dir, 5432)
        environment = {"CHAOS_LISTEN_DSN": direct}
        match way:
            case "direct":
                return environment | {"FLOWFABRIC_DSN": direct}
            case "clock":
                error_s = self.dice.choice((-1, 1)) * self.dice.uniform(3_600, 86_400)
                return environment | {"FLOWFABRIC_DSN": direct, "CHAOS_CLOCK_ERROR_S": str(error_s)}
            case "proxy":
                through = _url(self.proxy.directory, 5432)
                return environment | {"FLOWFABRIC_DSN": through, "CHAOS_LISTEN_DSN": through}
            case "pgbouncer":
                return environment | {
                    "FLOWFABRIC_DSN": _url(self.bouncer.directory, PORT),
                    "CHAOS_PREPARE": "no",
                }
        raise ValueError(way)

    def _start(self, name: str, environment: dict[str, str]) -> None:
        log = self.directory / f"worker-{name}.log"
        with log.open("ab") as stderr:
            process = subprocess.Popen(
                [sys.executable, "-m", "flowfabric_client", "worker", "tests.chaos.app:worker"],
                cwd=REPOSITORY,
                env={**os.environ, **environment},
                stderr=stderr,
            )
        self.workers.append(WorkerProcess(name, environment, log, process))

    def _registered(self) -> int:
        with psycopg.connect(self.dsn, autocommit=True) as db:
            return db.execute("select from flowfabric.ff_list_workers()").rowcount

    # The server

    def stop_server(self, *, immediately: bool) -> None:
        """Stop it as `pg_ctl stop -m fast` does, or as `-m immediate`, which is a crash to it."""
        if immediately:
            os.kill(self.postmaster_pid, signal.SIGQUIT)
            self._server.wait()
        self._server.stop()

    def start_server(self) -> None:
        """Start it again where it was; a worker must not notice a difference."""
        self._server = self._start_server()
        assert self._server.dsn() == self.dsn

    @property
    def server_version(self) -> int:
        return self._server.version

    @property
    def postmaster_pid(self) -> int:
        return int((self._data_dir / "pgdata" / "postmaster.pid").read_text().split()[0])

    @property
    def _data_dir(self) -> Path:
        assert self._server.data_dir is not None
        return self._server.data_dir

    def close(self) -> None:
        """End everything, the worker processes first."""
        for worker in self.workers:
            worker.process.kill()
            worker.process.wait()
        if self.bouncer.is_running:
            self.bouncer.stop()
        self.proxy.close()
        self._server.stop()


@contextmanager
def deployment(dice: Random, *, max_connections: int = 150) -> Iterator[Deployment]:
    """A server with FlowFabric as in production, and nothing running on it yet."""
    choice = server_choice(os.environ.get(CHOICE_VARIABLE, ""))
    with tempfile.TemporaryDirectory(prefix="ff-chaos-") as name:
        directory = Path(name)
        # The server may run as another user than we.
        directory.chmod(0o755)
        start = partial(_start_server, directory / "server", choice, max_connections)
        running = Deployment(directory, start, dice)
        try:
            migrate(running.dsn)
            with psycopg.connect(running.dsn, autocommit=True) as db:
                prepare(db)
            yield running
        finally:
            running.close()


def _start_server(data_dir: Path, choice: ServerChoice, max_connections: int) -> PostgresServer:
    # A container's data would not survive its restart.
    provider: ProviderName = "wheel" if choice.get("provider") == "wheel" else "local"
    return start_server(
        provider=provider,
        version=choice.get("version"),
        data_dir=data_dir,
        keep=True,
        settings={**SETTINGS, "max_connections": str(max_connections)},
    )


def _subdirectory(directory: Path, name: str) -> Path:
    path = directory / name
    path.mkdir()
    return path


def _url(socket_dir: Path, port: int) -> str:
    return f"postgresql://{WORKER_ROLE}@/postgres?host={quote(str(socket_dir), safe='')}&port={port}"
