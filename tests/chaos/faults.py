"""What goes wrong, each as a class of its own."""

from __future__ import annotations

import os
import signal
import time
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import ClassVar

import psycopg

from tests.chaos.deployment import Deployment, WorkerProcess
from tests.chaos.work import LEASE_TTL_MS, WORKER_ROLE
from tests.support.concurrency import wait_until

LONGER_THAN_A_LEASE_S = LEASE_TTL_MS / 1000 + 0.5


class Fault(ABC):
    """One kind of trouble."""

    letter: ClassVar[str]
    what: ClassVar[str]

    @abstractmethod
    def inflict(self, on: Deployment) -> None:
        """Let it happen; when this returns, its cause is gone."""


class KilledWorkers(Fault):
    """Workers die with everything that they hold; whoever runs them starts others."""

    letter = "a"
    what = "workers are killed with SIGKILL"

    def inflict(self, on: Deployment) -> None:
        for worker in on.dice.sample(on.workers, k=2):
            os.kill(worker.pid, signal.SIGKILL)
            worker.process.wait()
            on.replace(worker)


class TerminatedBackends(Fault):
    letter = "b"
    what = "all backends are terminated"

    def inflict(self, on: Deployment) -> None:
        with psycopg.connect(on.dsn, autocommit=True) as admin:
            admin.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where backend_type = 'client backend' and pid <> pg_backend_pid()"
            )


class FastRestart(Fault):
    letter = "c"
    what = "the server is restarted (fast)"

    def inflict(self, on: Deployment) -> None:
        on.stop_server(immediately=False)
        on.start_server()


class CrashRestart(Fault):
    """The server is away for so long that every lease runs out."""

    letter = "C"
    what = "the server stops immediately and recovers"

    def inflict(self, on: Deployment) -> None:
        on.stop_server(immediately=True)
        time.sleep(LONGER_THAN_A_LEASE_S)
        on.start_server()


class NoConnectionsLeft(Fault):
    """Somebody takes every connection that the server has, those of the workers included."""

    letter = "d"
    what = "all connections of the server are taken"
    held_for_s = 2.0

    def inflict(self, on: Deployment) -> None:
        end_workers = "select pg_terminate_backend(pid) from pg_stat_activity where usename = %s"
        taken: list[psycopg.Connection[tuple[object, ...]]] = []
        try:
            with psycopg.connect(on.dsn, autocommit=True) as admin:
                give_up_at = time.monotonic() + self.held_for_s
                while time.monotonic() < give_up_at:
                    admin.execute(end_workers, [WORKER_ROLE])
                    with suppress(psycopg.OperationalError):
                        while True:
                            taken.append(psycopg.connect(on.dsn))
            assert taken
        finally:
            for connection in taken:
                connection.close()


class BouncerRestart(Fault):
    letter = "e"
    what = "PgBouncer is restarted"

    def inflict(self, on: Deployment) -> None:
        on.bouncer.stop()
        on.bouncer.start()


class WrongClock(Fault):
    """The clock of a worker's machine, wrong from the beginning, is set to another wrong time."""

    letter = "f"
    what = "the clock of a worker's machine jumps"

    def inflict(self, on: Deployment) -> None:
        for worker in _workers_by(on, "clock"):
            os.kill(worker.pid, signal.SIGUSR1)


class CutConnections(Fault):
    """Connections end after a few bytes, so that calls or their answers are lost in the middle."""

    letter = "g"
    what = "connections are cut in the middle of calls"
    cuts = 12
    largest_allowance = 3_000

    def inflict(self, on: Deployment) -> None:
        before = on.proxy.cuts
        on.proxy.cut_after(self.largest_allowance)
        try:
            wait_until(lambda: on.proxy.cuts >= before + self.cuts, "connections were cut", 30)
        finally:
            on.proxy.cut_after(None)


class StalledWorkers(Fault):
    """Workers stand still until their leases have run out, and go on as if nothing had happened."""

    letter = "h"
    what = "workers stall for longer than their leases"

    def inflict(self, on: Deployment) -> None:
        stalled = on.dice.sample(on.workers, k=2)
        for worker in stalled:
            os.kill(worker.pid, signal.SIGSTOP)
        time.sleep(LONGER_THAN_A_LEASE_S)
        for worker in stalled:
            os.kill(worker.pid, signal.SIGCONT)


FAULTS: dict[str, type[Fault]] = {
    fault.letter: fault
    for fault in (
        KilledWorkers,
        TerminatedBackends,
        FastRestart,
        CrashRestart,
        NoConnectionsLeft,
        BouncerRestart,
        WrongClock,
        CutConnections,
        StalledWorkers,
    )
}

#: How the workers of a run reach the database, so that every fault meets somebody.
WAYS = ["direct", "direct", "clock", "proxy", "pgbouncer"]


def _workers_by(on: Deployment, way: str) -> list[WorkerProcess]:
    return [worker for worker in on.workers if worker.name.endswith(f"-{way}")]
