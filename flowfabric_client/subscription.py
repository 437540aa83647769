"""What `events` and `tail_stream` return: something to iterate over, once, that can be closed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

import psycopg

from flowfabric_client._call import Call
from flowfabric_client._event_source import EventSource
from flowfabric_client._following import Delivery, Following, Source, Wait
from flowfabric_client._listening import AsyncListener, Listener, ListenOptions
from flowfabric_client._steps import Answer
from flowfabric_client.errors import FlowFabricError

if TYPE_CHECKING:
    from flowfabric_client._session import AsyncSession, Session

T = TypeVar("T")


class _Position(Generic[T]):
    _source: Source[T]

    @property
    def position(self) -> str | None:
        """Where somebody else can go on: behind the last item that was handed out.

        The cursor of an event, or the entry id of a frame; None if nothing was handed out.
        """
        return self._source.position

    def _acknowledgement(self) -> Call[Any] | None:
        if not isinstance(self._source, EventSource) or self._source.consumer is None:
            raise RuntimeError("only events that are read for a named consumer can be acknowledged")
        self._source.acknowledge()
        return self._source.settle()


class Subscription(_Position[T]):
    """Items as they come, for one loop.

    Ends with its source, at its timeout, when the loop is left, or by `close`.
    """

    def __init__(
        self,
        session: Session,
        source: Source[T],
        *,
        listen: ListenOptions | None,
        poll_interval_s: float,
        timeout_s: float | None,
    ) -> None:
        self._session = session
        self._source = source
        self._stop = threading.Event()
        self._is_finished = False
        # Held while somebody works on the steps, so that closing from another thread leaves the end to him.
        self._working = threading.Lock()
        self._listener = Listener(listen, source.is_woken_by, self._stop)
        self._following = Following(
            source, session._send, lambda: self._listener.is_listening, poll_interval_s, timeout_s
        )
        self._steps = self._following.steps()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Iterator[T]:
        try:
            while (delivery := self._next()) is not None:
                yield delivery.item
        finally:
            self.close()

    def acknowledge(self) -> None:
        """Store that everything handed out so far is dealt with."""
        call = self._acknowledgement()
        if call is not None:
            self._session._run(call)
            self._source.was_settled(call)

    def close(self) -> None:
        """End the loop, from any thread; what was acknowledged is stored."""
        self._stop.set()
        if self._working.acquire(blocking=False):
            try:
                self._finish()
            finally:
                self._working.release()

    def _next(self) -> Delivery[T] | None:
        with self._working:
            try:
                delivery = self._work()
            except BaseException:
                self._finish()
                raise
            if delivery is None:
                self._finish()
            return delivery

    def _work(self) -> Delivery[T] | None:
        """Carry out steps until there is something to deliver; None at the end."""
        if self._stop.is_set():
            return None
        self._listener.open()
        try:
            step = next(self._steps)
            while not isinstance(step, Delivery):
                if self._stop.is_set():
                    return None
                answer = (
                    Answer(self._listener.wait(step.seconds))
                    if isinstance(step, Wait)
                    else self._session._answer(step)
                )
                step = answer.resume(self._steps)
        except StopIteration:
            return None
        return step

    def _finish(self) -> None:
        if self._is_finished:
            return
        self._is_finished = True
        self._stop.set()
        self._listener.close()
        self._steps.close()
        # Nothing depends on these: without them items are repeated, or nobody hears a notification.
        with suppress(FlowFabricError, psycopg.Error, RuntimeError):
            for call in self._following.farewell():
                self._session._run(call)


class AsyncSubscription(_Position[T]):
    """Items as they come, for one `async for`; see `Subscription`."""

    def __init__(
        self,
        session: AsyncSession,
        source: Source[T],
        *,
        listener: AsyncListener,
        poll_interval_s: float,
        timeout_s: float | None,
    ) -> None:
        self._session = session
        self._source = source
        self._is_stopped = self._is_finished = False
        self._is_working = False
        self._listener = listener
        self._woken: asyncio.Event | None = None
        self._following = Following(
            source, session._send, lambda: listener.is_listening, poll_interval_s, timeout_s
        )
        self._steps = self._following.steps()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def __aiter__(self) -> AsyncIterator[T]:
        try:
            while (delivery := await self._next()) is not None:
                yield delivery.item
        finally:
            await self.close()

    async def acknowledge(self) -> None:
        """Store that everything handed out so far is dealt with."""
        call = self._acknowledgement()
        if call is not None:
            await self._session._run(call)
            self._source.was_settled(call)

    async def close(self) -> None:
        """End the loop, from any task; what was acknowledged is stored."""
        self._is_stopped = True
        if self._woken is not None:
            self._woken.set()
        if not self._is_working:
            await self._finish()

    async def _next(self) -> Delivery[T] | None:
        self._is_working = True
        try:
            delivery = await self._work()
            if delivery is None:
                await self._finish()
        except BaseException:
            await self._finish()
            raise
        finally:
            self._is_working = False
        return delivery

    async def _work(self) -> Delivery[T] | None:
        if self._is_stopped:
            return None
        if self._woken is None:
            self._woken = self._listener.join(self._source.is_woken_by)
        try:
            step = next(self._steps)
            while not isinstance(step, Delivery):
                if self._is_stopped:
                    return None
                answer = (
                    Answer(await _is_set_within(self._woken, step.seconds))
                    if isinstance(step, Wait)
                    else await self._session._answer(step)
                )
                step = answer.resume(self._steps)
        except StopIteration:
            return None
        return step

    async def _finish(self) -> None:
        if self._is_finished:
            return
        self._is_finished = self._is_stopped = True
        if self._woken is not None:
            await self._listener.leave(self._woken)
        self._steps.close()
        with suppress(FlowFabricError, psycopg.Error, RuntimeError):
            for call in self._following.farewell():
                await self._session._run(call)


async def _is_set_within(woken: asyncio.Event, seconds: float) -> bool:
    try:
        await asyncio.wait_for(woken.wait(), seconds)
    except TimeoutError:
        return False
    # What is announced from now on is found by the look that comes next, or makes for another one.
    woken.clear()
    return True
