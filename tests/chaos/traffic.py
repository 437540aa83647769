"""Producers and consumers that live through faults, as the programs of an application would."""

from __future__ import annotations

import threading
import time
from collections import deque
from random import Random

import psycopg

from flowfabric_client import Client
from tests.chaos.accounting import unfinished
from tests.chaos.work import Work, consume, submit

_LOOK_AGAIN_S = 0.1


class Producer:
    """Keeps a backlog in front of the workers, so that they are always busy."""

    def __init__(self, dsn: str, dice: Random, *, backlog: int, total: int | None = None) -> None:
        self.work = Work()
        self.failure: Exception | None = None
        self._dsn = dsn
        self._dice = dice
        self._backlog = backlog
        self.total = total
        self._may_work = threading.Event()
        self._is_idle = threading.Event()
        self._is_idle.set()
        threading.Thread(target=self._run, name="producer", daemon=True).start()

    @property
    def is_done(self) -> bool:
        """Whether everything has been submitted."""
        return self.total is not None and len(self.work) >= self.total

    def resume(self) -> None:
        """Begin, or go on."""
        self._is_idle.clear()
        self._may_work.set()

    def pause(self) -> None:
        """Submit nothing more, and return when that is so."""
        self._may_work.clear()
        self._is_idle.wait()

    def _run(self) -> None:
        try:
            with Client(self._dsn) as client:
                while not self.is_done:
                    if not self._may_work.is_set():
                        self._is_idle.set()
                    self._may_work.wait()
                    if self._waiting() < self._backlog:
                        left = self._backlog if self.total is None else self.total - len(self.work)
                        self.work.add(submit(client, min(self._backlog, left), self._dice))
                    else:
                        time.sleep(_LOOK_AGAIN_S)
        except Exception as error:  # for whoever looks at `failure`: a thread cannot raise to anybody
            self.failure = error
        finally:
            self._is_idle.set()

    def _waiting(self) -> int:
        try:
            with psycopg.connect(self._dsn, autocommit=True) as db:
                return unfinished(db)
        except psycopg.OperationalError:
            return self._backlog


class Consumer:
    """Reads completions all the time; what it has read is the measure of throughput."""

    def __init__(self, dsn: str) -> None:
        self.count = 0
        self._dsn = dsn
        self._counts: deque[tuple[float, int]] = deque(maxlen=10_000)
        self._must_stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="consumer", daemon=True)
        self._thread.start()

    def rate(self, seconds: float) -> float:
        """Completions per second in the last so many seconds."""
        since = time.monotonic() - seconds
        return sum(count for at, count in list(self._counts) if at >= since) / seconds

    def stop(self) -> None:
        self._must_stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._must_stop.is_set():
            try:
                with psycopg.connect(self._dsn, autocommit=True) as db:
                    while not self._must_stop.is_set():
                        new = consume(db)
                        self.count += new
                        self._counts.append((time.monotonic(), new))
                        if not new:
                            time.sleep(_LOOK_AGAIN_S)
            except psycopg.OperationalError:
                # Also when a commit's answer was lost: the position tells whether it was made.
                time.sleep(_LOOK_AGAIN_S)
