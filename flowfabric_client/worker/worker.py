"""The worker: handlers by kind, and a loop that runs what the database has for them."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import signal
import socket
import threading
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any, TypeVar

from flowfabric_client.worker.events import EventCallback
from flowfabric_client.worker.handlers import Handler
from flowfabric_client.worker.runtime import Options, Runtime

_LOGGER = logging.getLogger("flowfabric.worker")

Function = TypeVar("Function", bound=Callable[..., Any])


class Worker:
    """Runs executions: claims them, calls their handlers, reports what became of them.

        worker = Worker("postgresql://...", lanes=["mail"])

        @worker.handler("send_mail")
        async def send_mail(ctx: Context, payload: dict[str, Any]) -> None:
            ...

        worker.run_forever()

    docs/worker.md says how each end of a handler is reported.
    """

    def __init__(
        self,
        dsn: str = "",
        *,
        lanes: Sequence[str] = ("default",),
        capabilities: Sequence[str] = (),
        concurrency: int = 8,
        lease_ttl_ms: int = 30_000,
        name: str = "worker",
        instance_id: str | None = None,
        namespace: str | None = None,
        poll_interval_ms: int = 1_000,
        listen: bool = True,
        listen_dsn: str | None = None,
        run_ticks: bool = True,
        max_connections: int = 4,
        prepare_statements: bool | None = None,
    ) -> None:
        """Configure a worker; nothing is connected before it runs.

        Args:
            dsn: Connection string or URI; "" leaves everything to libpq's environment.
            lanes: Where to look for work: 1 to 32 distinct lanes.
            capabilities: What this process can do; it gets only what it covers.
            concurrency: How many handlers run at once, in threads and in the event loop together.
            lease_ttl_ms: How long an execution stays this worker's without a word from it. Leases are renewed
                at a third of that.
            name: What workers of this sort have in common.
            instance_id: What tells this process from every other; made up unless given. Two processes must
                never share one.
            namespace: Only take executions of this namespace; None takes those of all.
            poll_interval_ms: How often an idle worker looks although nobody has called it; while it listens,
                twice a minute at least.
            listen: Be called by NOTIFY, on a connection of its own; False polls only.
            listen_dsn: Where to listen, if `dsn` leads to a pooler that cannot.
            run_ticks: Also run the engine's background scanners when they are due.
            max_connections: Connections for claims, reports and scanners. Renewals have one more, and
                outcomes whose rows other sessions hold another. Handlers have others, made when they are
                needed: one for each that uses its context, a second for one that does so in a transaction.
            prepare_statements: Whether to prepare statements that are used often. By default they are, unless
                a pooler such as PgBouncer stands before the server; True for a pooler that can bear it, which
                PgBouncer can since 1.21 with `max_prepared_statements`.

        Raises:
            ValueError: a value is out of range.
        """
        if isinstance(lanes, str) or isinstance(capabilities, str):
            raise TypeError("lanes and capabilities are sequences of names, not one text")
        if not 1 <= len(lanes) <= 32 or len(set(lanes)) != len(lanes):
            raise ValueError("lanes must be 1 to 32 distinct names")
        for field, value, highest in (
            ("concurrency", concurrency, 1000),
            ("lease_ttl_ms", lease_ttl_ms, 86_400_000),
            ("poll_interval_ms", poll_interval_ms, 60_000),
            ("max_connections", max_connections, 1000),
        ):
            if not 1 <= value <= highest:
                raise ValueError(f"{field} must be between 1 and {highest}, not {value}")
        self._options = Options(
            dsn=dsn,
            lanes=tuple(lanes),
            capabilities=tuple(capabilities),
            concurrency=concurrency,
            lease_ttl_ms=lease_ttl_ms,
            worker_id=name,
            instance_id=instance_id or f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}",
            namespace=namespace,
            poll_interval_s=poll_interval_ms / 1000,
            listen=listen,
            listen_dsn=dsn if listen_dsn is None else listen_dsn,
            run_ticks=run_ticks,
            max_connections=max_connections,
            prepare_statements=prepare_statements,
        )
        self._handlers: dict[str, Handler] = {}
        self._callbacks: list[EventCallback] = []
        self._lock = threading.Lock()
        self._running: tuple[asyncio.AbstractEventLoop, Runtime] | None = None
        self._stop_requested = False

    @property
    def instance_id(self) -> str:
        """What tells this process from every other, as in `ff_list_workers`."""
        return self._options.instance_id

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds that have a handler."""
        return tuple(self._handlers)

    def handler(self, kind: str, *, timeout_s: float | None = None) -> Callable[[Function], Function]:
        """Register the decorated function for a kind: `(ctx)` or `(ctx, payload)`, async or not.

        Args:
            kind: The `execution_kind` of `create_execution`.
            timeout_s: After so long the attempt fails with category `timeout`.

        Raises:
            ValueError: the kind has a handler already, or the timeout is not positive.
            TypeError: the function's parameters are not those of a handler.
        """

        def register(function: Function) -> Function:
            if kind in self._handlers:
                raise ValueError(f"kind {kind!r} has a handler already")
            self._handlers[kind] = Handler.of(function, timeout_s)
            return function

        return register

    def on_event(self, callback: EventCallback) -> EventCallback:
        """Call back with every event of `flowfabric_client.worker.events`; usable as a decorator."""
        self._callbacks.append(callback)
        return callback

    async def run(self) -> None:
        """Work until `stop()`; then finish what is running and return.

        Raises:
            FlowFabricError: the database refuses this worker for good: wrong arguments, missing rights, no
                FlowFabric in it.
        """
        runtime = Runtime(self._options, dict(self._handlers), tuple(self._callbacks))
        with self._lock:
            if self._running is not None:
                raise RuntimeError("this worker is running already")
            self._running = asyncio.get_running_loop(), runtime
            if self._stop_requested:
                runtime.drain()
        try:
            await runtime.run()
        finally:
            with self._lock:
                self._running = None
                self._stop_requested = False

    def stop(self) -> None:
        """Drain: claim nothing more, finish what is running. From any thread, or before `run`."""
        with self._lock:
            self._stop_requested = True
            if self._running is not None:
                loop, runtime = self._running
                loop.call_soon_threadsafe(runtime.drain)

    def run_forever(self) -> None:
        """Run as a process of its own: SIGTERM or SIGINT drains, a second one ends the process at once.

        A process that ends at once leaves its executions to others, which take them over when the leases have
        run out. Its exit status is 128 plus the signal's number.
        """
        signals_seen = 0

        def on_signal(number: int, _frame: FrameType | None) -> None:
            nonlocal signals_seen
            signals_seen += 1
            if signals_seen > 1:
                # Threads cannot be stopped, and an orderly exit would wait for them.
                os._exit(128 + number)
            # Not here: the code that the signal interrupted may hold the lock that `stop` takes.
            threading.Thread(target=self.stop, name="flowfabric-stop", daemon=True).start()

        before = {number: signal.signal(number, on_signal) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            _LOGGER.info("worker %s serves %s", self.instance_id, ", ".join(self._options.lanes))
            asyncio.run(self.run())
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
