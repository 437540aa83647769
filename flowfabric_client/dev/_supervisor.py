"""Runs one Postgres server for exactly as long as the process that started this one, the owner, lives.

A program of its own: `supervision.py` starts it with `-I -S`, in a session of its own so that a Ctrl-C in
the terminal does not reach it, and holds the other end of its standard input. Whatever ends the owner, even
SIGKILL, ends the input, and this program then stops the server and removes what was to be thrown away.

Standard input: one line of JSON, the plan; anything more, or its end, means stop. Standard output:
`ready <pid>` when the server accepts connections, `ended` when there is none, or none any more. Standard
error: the log.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

# Fast shutdown, immediate shutdown, and the last resort, each with the seconds it is given.
_SHUTDOWN = ((signal.SIGINT, 30.0), (signal.SIGQUIT, 5.0), (signal.SIGKILL, 5.0))

_PR_SET_PDEATHSIG = 1
_PIDFILE_STATUS_LINE = 7


class Supervisor:
    def __init__(self, plan: dict[str, Any]) -> None:
        self._plan = plan
        self._pid = os.getpid()
        self._libc = ctypes.CDLL(None) if sys.platform == "linux" else None

    def run(self) -> None:
        """Leaves by SystemExit when the owner is gone or a signal says so."""
        try:
            if self._initialise():
                self._serve()
            print("ended", flush=True)
            while True:
                self._pause(1.0)
        finally:
            _ignore_stop_signals()
            for path in [self._plan["staging"], *self._plan["remove"]]:
                _remove(Path(path))

    def _initialise(self) -> bool:
        """Make the data directory beside its final name, so that what has that name is whole."""
        if self._plan["initdb"] is None:
            return True
        initdb = self._spawn(self._plan["initdb"])
        try:
            while initdb.poll() is None:
                self._pause(0.01)
        finally:
            if initdb.poll() is None:
                os.killpg(initdb.pid, signal.SIGKILL)
                initdb.wait()
        if initdb.returncode == 0:
            Path(self._plan["staging"]).rename(self._plan["pgdata"])
        return initdb.returncode == 0

    def _serve(self) -> None:
        server = self._spawn(self._plan["postgres"])
        try:
            while not self._is_ready(server.pid):
                if server.poll() is not None:
                    return
                self._pause(0.01)
            print("ready", server.pid, flush=True)
            while server.poll() is None:
                self._pause(0.5)
        finally:
            _shut_down(server)

    def _spawn(self, argv: list[str]) -> subprocess.Popen[bytes]:
        identity: dict[str, Any] = {}
        if self._plan["account"] is not None:
            uid, gid = self._plan["account"]
            identity = {"user": uid, "group": gid, "extra_groups": []}
        return subprocess.Popen(  # noqa: S603 - the plan is our own
            argv,
            cwd="/",
            env=self._plan["environment"],
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr,
            start_new_session=True,
            preexec_fn=self._end_with_supervisor,  # noqa: PLW1509 - this process has no threads
            **identity,
        )

    def _end_with_supervisor(self) -> None:
        # Runs after the change of user, which would undo it. Elsewhere than on Linux a SIGKILL of the
        # supervisor itself leaves the server running; the next start on its data directory says so.
        if self._libc is not None:
            self._libc.prctl(_PR_SET_PDEATHSIG, signal.SIGINT)
            if os.getppid() != self._pid:
                os._exit(1)

    def _is_ready(self, pid: int) -> bool:
        try:
            lines = (Path(self._plan["pgdata"]) / "postmaster.pid").read_text().splitlines()
        except OSError:
            return False
        if len(lines) <= _PIDFILE_STATUS_LINE or lines[0] != str(pid):
            return False
        return lines[_PIDFILE_STATUS_LINE].strip() == "ready"

    def _pause(self, seconds: float) -> None:
        """Sleep, but not longer than the owner lives."""
        # A process that the owner forked holds a copy of the pipe and hides its end, but not the owner's.
        told_to_stop, _, _ = select.select([sys.stdin], [], [], seconds)
        if told_to_stop or os.getppid() != self._plan["owner"]:
            sys.exit(0)


def _shut_down(server: subprocess.Popen[bytes]) -> None:
    _ignore_stop_signals()
    for signum, patience in _SHUTDOWN:
        if server.poll() is not None:
            return
        server.send_signal(signum)
        try:
            server.wait(patience)
        except subprocess.TimeoutExpired:
            continue


def _remove(directory: Path) -> None:
    # A process of a killed initdb may still write a last file while the directory is emptied.
    for _ in range(10):
        shutil.rmtree(directory, ignore_errors=True)
        if not directory.exists():
            return
        time.sleep(0.05)


def _ignore_stop_signals() -> None:
    for signum in _STOP_SIGNALS:
        signal.signal(signum, signal.SIG_IGN)


def _leave(signum: int, frame: object) -> None:  # noqa: ARG001 - the signature of a handler
    sys.exit(0)


if __name__ == "__main__":
    for stop_signal in _STOP_SIGNALS:
        signal.signal(stop_signal, _leave)
    # Unbuffered: what a buffer had swallowed after the first line would be invisible to select.
    with open(sys.stdin.fileno(), "rb", buffering=0, closefd=False) as orders:
        first_line = orders.readline()
    Supervisor(json.loads(first_line)).run()
