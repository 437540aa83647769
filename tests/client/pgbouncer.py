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
POOL_SIZE = 2


class PgBouncer:
    """One running pooler; it serves every database of the server behind it."""

    def __init__(self, program: str, directory: Path, server_dsn: str) -> None:
        self._program = program
        self._directory = directory
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
            "listen_port = 6432\n"
            "auth_type = any\n"
            "pool_mode = transaction\n"
            f"default_pool_size = {POOL_SIZE}\n"
            f"pidfile = {directory}/pid\n"
            f"logfile = {directory}/log\n"
        )
        for path in (directory, self._configuration):
            hand_over(self._account, path)

    def dsn(self, direct: str) -> str:
        """The connection string of a database by way of the pooler."""
        return make_conninfo(
            "", host=str(self._directory), port=6432, user="app", dbname=conninfo_to_dict(direct)["dbname"]
        )

    def start(self) -> None:
        account = self._account
        self._process = subprocess.Popen(
            [self._program, "--quiet", self._configuration],
            user=None if account is None else account.uid,
            group=None if account is None else account.gid,
            extra_groups=None if account is None else [],
            cwd="/",
        )
        socket = self._directory / ".s.PGSQL.6432"
        wait_until(lambda: socket.exists() or not self.is_running, "PgBouncer listened")
        assert self.is_running, (self._directory / "log").read_text()

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def stop(self) -> None:
        """End it at once, with every connection."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(20)
            self._process = None


@contextmanager
def started_pgbouncer(server_dsn: str) -> Iterator[PgBouncer]:
    """A PgBouncer for a while; without its program the test is skipped or, in CI, fails."""
    # Debian puts it where only root's PATH leads.
    program = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if program is None:
        if REQUIRED:
            pytest.fail(MISSING, pytrace=False)
        pytest.skip(MISSING)
    with tempfile.TemporaryDirectory(prefix="ff-pgb-") as directory:
        bouncer = PgBouncer(program, Path(directory), server_dsn)
        bouncer.start()
        try:
            yield bouncer
        finally:
            bouncer.stop()
