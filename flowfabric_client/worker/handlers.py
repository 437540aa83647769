"""Running a handler: in the event loop or in a thread, and always to an end that is a value."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import Callable, Coroutine, Generator, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

from flowfabric_client.policy import Backoff, Retry
from flowfabric_client.worker.codec import Decoder, encode_result, failure_text, payload_decoder
from flowfabric_client.worker.connections import HandlerConnections
from flowfabric_client.worker.context import Context, SyncContext
from flowfabric_client.worker.job import Failure, Job, Outcome, Success
from flowfabric_client.worker.signals import LeaseLost, PermanentError


@dataclass(frozen=True, slots=True)
class Ended:
    """How a handler ended. An exception is a value here, lest `sys.exit()` in a handler end the worker."""

    value: Any = None
    error: BaseException | None = None

    def outcome(self) -> Outcome:
        """What to report."""
        if self.error is None:
            try:
                return Success(*encode_result(self.value))
            except PermanentError as error:
                return Failure("permanent", failure_text(error))
        if isinstance(self.error, PermanentError):
            return Failure("permanent", failure_text(self.error))
        if isinstance(self.error, Exception):
            return Failure("transient", failure_text(self.error))
        return Failure("transient", failure_text(f"{type(self.error).__name__}: {self.error}"))


@dataclass(frozen=True, slots=True)
class Handler:
    """A registered handler."""

    function: Callable[..., Any]
    decode: Decoder | None
    is_async: bool
    timeout_s: float | None
    retry_policy: Mapping[str, Any] | None
    """Sent with a failure of an execution that has no retry policy of its own."""

    @classmethod
    def of(
        cls,
        function: Callable[..., Any],
        timeout_s: float | None = None,
        retries: int | None = None,
        backoff: Backoff | None = None,
    ) -> Handler:
        """Check a handler when it is registered rather than when its first execution comes."""
        if timeout_s is not None and not timeout_s > 0:
            raise ValueError(f"timeout_s must be greater than 0, not {timeout_s}")
        if retries is None and backoff is not None:
            raise ValueError("a backoff needs retries: how often to try again")
        retry_policy = None
        if retries is not None:
            retry_policy = Retry(retries, backoff=Backoff() if backoff is None else backoff).to_json()
        is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
            getattr(function, "__call__", None)  # noqa: B004 - an object whose __call__ is a coroutine function
        )
        return cls(function, payload_decoder(function), is_async, timeout_s, retry_policy)

    def arguments(self, payload: bytes) -> tuple[Any, ...]:
        """The arguments after the context.

        Raises:
            InvalidPayloadError: the payload is not what the handler asks for.
        """
        return () if self.decode is None else (self.decode(payload),)

    def start(
        self,
        job: Job,
        arguments: tuple[Any, ...],
        connections: HandlerConnections,
        threads: Executor,
        on_end: Callable[[Job, Ended], None],
    ) -> asyncio.Task[None] | None:
        """Run the handler, which calls back in the event loop when it has ended; its task, if it has one."""
        if self.retry_policy is not None and "retry_policy" not in (job.claim.policy or ()):
            job.retry_policy = self.retry_policy
        if self.is_async:
            return asyncio.create_task(self._run(job, Context(job, connections), arguments, on_end))
        loop = asyncio.get_running_loop()

        def call() -> None:
            loop.call_soon_threadsafe(on_end, job, self._call(SyncContext(job, connections), arguments))

        threads.submit(contextvars.copy_context().run, call)
        return None

    async def _run(
        self,
        job: Job,
        context: Context,
        arguments: tuple[Any, ...],
        on_end: Callable[[Job, Ended], None],
    ) -> None:
        try:
            ended = Ended(await _Unwinding(self.function(context, *arguments), job))
        except BaseException as error:
            ended = Ended(error=error)
        on_end(job, ended)

    def _call(self, context: SyncContext, arguments: tuple[Any, ...]) -> Ended:
        try:
            return Ended(self.function(context, *arguments))
        except BaseException as error:
            return Ended(error=error)


class _Unwinding:
    """Awaits a coroutine, which sees `LeaseLost` where its task is cancelled because of that."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any], job: Job) -> None:
        self._coroutine = coroutine
        self._job = job

    def __await__(self) -> Generator[Any, Any, Any]:
        steps = self._coroutine.__await__()
        error: BaseException | None = None
        sent: Any = None
        while True:
            try:
                awaited = steps.send(sent) if error is None else steps.throw(error)
            except StopIteration as end:
                return end.value
            sent = error = None
            try:
                sent = yield awaited
            except asyncio.CancelledError as cancelled:
                code = self._job.lost_code
                error = cancelled if code is None else LeaseLost(self._job.handle.execution_id, code)
            except BaseException as raised:
                error = raised
