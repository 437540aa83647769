"""Our end of the supervisor: what it is told to run, what it reports, and the pipe that keeps it running."""

from __future__ import annotations

import dataclasses
import json
import os
import selectors
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from flowfabric_client.dev import _supervisor
from flowfabric_client.dev.errors import DevServerError

_STOP_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One server. `initdb`, if there is a data directory to make, makes it in `staging`."""

    account: tuple[int, int] | None
    environment: Mapping[str, str]
    initdb: list[str] | None
    postgres: list[str]
    staging: str
    pgdata: str
    remove: list[str]


class SupervisedProcess:
    def __init__(self, plan: Plan, *, log: Path, lock: int) -> None:
        """Start the supervisor, which keeps the descriptor `lock` open for as long as it runs."""
        self._owner = os.getpid()
        log_descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and program
                [sys.executable, "-I", "-S", _supervisor.__file__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log_descriptor,
                # A report that waits in a buffer of ours would be invisible to select.
                bufsize=0,
                cwd="/",
                start_new_session=True,
                pass_fds=[lock],
            )
        finally:
            os.close(log_descriptor)
        self._lifeline = cast("IO[bytes]", self._process.stdin)
        self._reports = cast("IO[bytes]", self._process.stdout)
        orders = json.dumps({**dataclasses.asdict(plan), "owner": self._owner})
        self._lifeline.write(orders.encode() + b"\n")

    def report(self, timeout: float | None = None) -> list[str] | None:
        """The words of the next report: empty if the supervisor is gone, None if the time is up."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._reports, selectors.EVENT_READ)
            reported = selector.select(timeout)
        return self._reports.readline().decode().split() if reported else None

    def end(self) -> None:
        # A forked child has a copy of this object, but the server is not its own.
        if os.getpid() != self._owner or self._lifeline.closed:
            return
        # A word, because the pipe does not end while a forked child has a copy of it.
        with suppress(BrokenPipeError):
            self._lifeline.write(b"stop\n")
        self._lifeline.close()
        try:
            self._process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired as error:
            raise DevServerError(f"The server under process {self._process.pid} does not stop.") from error
        self._reports.close()
