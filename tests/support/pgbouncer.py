"""A real PgBouncer in transaction mode, in front of the server of a test."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from flowfabric_client.dev.account import hand_over, server_account
from tests.support.concurrency import wait_until

REQUIRED = os.environ.get("FLOWFABRIC_REQUIRE_PLPGSQL_CHECK") == "1"
MISSING = "PgBouncer was not found: install its package (on Debian: sudo apt-get install -y pgbouncer)."
PORT = 6432


class PgBouncer:
    """One pooler in a directory of its own; it serves every database of the server behind it."""

    def __init__(self, directory: Path, server_dsn: str, *, pool_size: int = 2, settings: str = "") -> None:
        self.directory = directory
        self._account = server_account(None)
        self._process: subprocess.Popen[bytes] | None = None
        server = conninfo_to_dict(server_dsn)
        backend = " ".join(
            f"{key}={server[key]}" for key in ("host", "port", "user", "password") if server.get(key)
        )
        self._configuration = directory / "pgbouncer.ini"
        self._configuration.write_text(
            "[databases]\n"
            f"* = {backend}\n"
            "[pgbouncer]\n"
            f"unix_socket_dir = {directory}\n"
            "listen_addr =\n"
            f"listen_port = {PORT}\n"
            "auth_type = any\n"
            "pool_mode = transaction\n"
            f"default_pool_size = {pool_size}\n"
            f"pidfile = {directory}/pid\n"
            f"logfile = {directory}/log\n"
            f"{settings}"
        )
        for path in (directory, self._configuration):
            hand_over(self._account, path)

    @staticmethod
    def is_installed() -> bool:
        return _program() is not None

    def dsn(self, direct: str) -> str:
        """The connection string of a database by way of the pooler."""
        return make_conninfo(
            "", host=str(self.directory), port=PORT, user="app", dbname=conninfo_to_dict(direct)["dbname"]
        )

    def start(self) -> None:
        """Start it and wait until it listens."""
        program, account = _program(), self._account
        assert program is not None, MISSING
        self._process = subprocess.Popen(
            [program, "--quiet", self._configuration],
            user=None if account is None else account.uid,
            group=None if account is None else account.gid,
            extra_groups=None if account is None else [],
            cwd="/",
        )
        socket = self.directory / f".s.PGSQL.{PORT}"
        wait_until(lambda: socket.exists() or not self.is_running, "PgBouncer listened")
        assert self.is_running, (self.directory / "log").read_text()

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def stop(self) -> None:
        """End it at once, with every connection."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(20)
            self._process = None


def _program() -> str | None:
    # Debian puts it where only root's PATH leads.
    return shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")


@contextmanager
def started_pgbouncer(server_dsn: str) -> Iterator[PgBouncer]:
    """A PgBouncer for a while; without its program the test is skipped or, in CI, fails."""
    if not PgBouncer.is_installed():
        if REQUIRED:
            pytest.fail(MISSING, pytrace=False)
        pytest.skip(MISSING)
    with tempfile.TemporaryDirectory(prefix="ff-pgb-") as directory:
        bouncer = PgBouncer(Path(directory), server_dsn)
        bouncer.start()
        try:
            yield bouncer
        finally:
            bouncer.stop()
