"""Two sessions at once, without sleeping: a race test waits for what the server itself reports."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

from tests.support.cluster import Connection

T = TypeVar("T")

#: Far above what any of it takes on a slow machine; reached only when a test has failed.
DEADLINE_S = 20.0
_POLL_S = 0.005


class Background(Generic[T]):
    """A call that runs in a thread of its own."""

    def __init__(self, call: Callable[[], T]) -> None:
        self._future: Future[T] = Future()
        # A daemon: a call that hangs must fail its test, not keep the test process alive.
        threading.Thread(target=self._run, args=(call,), daemon=True).start()

    def _run(self, call: Callable[[], T]) -> None:
        try:
            self._future.set_result(call())
        except BaseException as error:  # handed over to whoever asks for the result
            self._future.set_exception(error)

    @property
    def is_done(self) -> bool:
        """Whether the call has returned or raised."""
        return self._future.done()

    def result(self, deadline_s: float = DEADLINE_S) -> T:
        """Wait for the call to end; return what it returned or raise what it raised."""
        try:
            return self._future.result(deadline_s)
        except TimeoutError:
            if self._future.done():
                raise
            raise AssertionError(f"the background call did not end within {deadline_s} s") from None


def in_background(call: Callable[[], T]) -> Background[T]:
    """Start a call that is expected to wait for something that the test does next."""
    return Background(call)


def wait_until(condition: Callable[[], bool], what: str, deadline_s: float = DEADLINE_S) -> None:
    """Wait until a condition holds; `what` completes the sentence "it did not happen that …"."""
    give_up_at = time.monotonic() + deadline_s
    while not condition():
        if time.monotonic() > give_up_at:
            raise AssertionError(f"within {deadline_s} s it did not happen that {what}")
        time.sleep(_POLL_S)


def wait_until_blocked(
    observer: Connection, waiter: Connection | int, *, by: Connection | int | None = None
) -> None:
    """Wait until one session waits for a lock that another one holds.

    `observer` is a third session in autocommit mode; `waiter` and `by` are connections or their backend pids.
    """
    waiter_pid = _pid(waiter)
    holder_pid = None if by is None else _pid(by)

    def is_blocked() -> bool:
        row = observer.execute("select pg_blocking_pids(%s)", [waiter_pid]).fetchone()
        assert row is not None
        return holder_pid in row[0] if holder_pid is not None else bool(row[0])

    holder = "another session" if holder_pid is None else f"session {holder_pid}"
    wait_until(is_blocked, f"session {waiter_pid} waited for a lock of {holder}")


def _pid(session: Connection | int) -> int:
    return session if isinstance(session, int) else session.info.backend_pid
