"""Programs that own servers, and looking at what becomes of these."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import psycopg
from psycopg.rows import TupleRow

from flowfabric_client.dev import THROW_AWAY_SETTINGS, PostgresServer

REPOSITORY = Path(__file__).resolve().parents[2]
FAST = dict(THROW_AWAY_SETTINGS)
IS_ROOT = os.geteuid() == 0


def query(server: PostgresServer | str, statement: str) -> TupleRow:
    dsn = server if isinstance(server, str) else server.dsn()
    with psycopg.connect(dsn, autocommit=True) as connection:
        row = connection.execute(statement.encode()).fetchone()
    assert row is not None
    return row


def server_pid(data_dir: Path | str | None) -> int:
    assert data_dir is not None
    return int((Path(data_dir) / "pgdata" / "postmaster.pid").read_text().splitlines()[0])


def is_running(pid: int) -> bool:
    # A process that nobody has waited for is as dead as any other.
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return bool(state.stdout.strip()) and not state.stdout.startswith("Z")


def eventually(condition: Callable[[], bool], *, within: float = 15.0) -> bool:
    deadline = time.monotonic() + within
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def python(*arguments: str, unprivileged: bool = False) -> subprocess.Popen[str]:
    """A Python process that can import this repository, in a process group of its own."""
    environment: Mapping[str, str] = {
        **os.environ,
        "PYTHONPATH": str(REPOSITORY),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    # The interpreter may be closed to all other users (below root's home), so root does not become one of
    # them: in a namespace of its own it keeps its access to files, and has neither the number nor the power.
    wrapper = ["unshare", "--user", "--map-user=1000", "--map-group=1000"] if unprivileged and IS_ROOT else []
    return subprocess.Popen(
        [*wrapper, sys.executable, *arguments],
        env=environment,
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def first_line(process: subprocess.Popen[str]) -> str:
    """What the process printed first; its errors if it printed nothing."""
    assert process.stdout is not None
    assert process.stderr is not None
    line = process.stdout.readline()
    assert line, process.stderr.read()
    return line
