"""A PgBouncer in transaction mode, in a directory of its own."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

import psycopg

from tests.support.concurrency import wait_until

PORT = 6432


class PgBouncer:
    """Runs Debian's pgbouncer, or whichever is on the PATH, in front of the socket in a directory."""

    def __init__(self, directory: Path, upstream: Path, users: Sequence[str]) -> None:
        self.directory = directory
        self._configuration = directory / "pgbouncer.ini"
        self._configuration.write_text(
            f"[databases]\n* = host={upstream} port=5432\n"
            "[pgbouncer]\npool_mode = transaction\nlisten_addr =\n"
            f"auth_type = trust\nauth_file = {directory}/users\n"
            f"listen_port = {PORT}\nunix_socket_dir = {directory}\nlogfile = {directory}/pgbouncer.log\n"
            "default_pool_size = 20\nmax_client_conn = 500\nserver_login_retry = 1\nquery_wait_timeout = 30\n"
            "ignore_startup_parameters = extra_float_digits,options\n"
        )
        (directory / "users").write_text("".join(f'"{user}" ""\n' for user in users))
        self._user = users[0]
        self._process: subprocess.Popen[bytes] | None = None

    @staticmethod
    def is_installed() -> bool:
        return _program() is not None

    def start(self) -> None:
        """Start it and wait until it answers."""
        program = _program()
        assert program is not None
        account = []
        if os.geteuid() == 0:
            # It refuses root.
            account = ["-u", "postgres"]
            entry = pwd.getpwnam("postgres")
            for path in (self.directory, *self.directory.iterdir()):
                os.chown(path, entry.pw_uid, entry.pw_gid)
        self._process = subprocess.Popen(
            [program, "-q", *account, str(self._configuration)], stderr=subprocess.DEVNULL
        )
        wait_until(self._answers, "PgBouncer answered")

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def stop(self) -> None:
        """End it at once, with all connections of its clients."""
        assert self._process is not None
        # SIGTERM is its immediate shutdown; SIGINT would wait for the clients.
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(20)

    def _answers(self) -> bool:
        try:
            psycopg.connect(host=str(self.directory), port=PORT, dbname="postgres", user=self._user).close()
        except psycopg.OperationalError:
            return False
        return True


def _program() -> str | None:
    # Debian puts it where only root's PATH looks.
    return shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
