"""LISTEN: being woken instead of asking. It only saves time: whoever follows something also polls.

A thread that follows something has nothing better to do than to listen itself, on a connection of its own. In
an event loop any number of followers share one.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg import sql

from flowfabric_client._backoff import Backoff
from flowfabric_client._conninfo import require_connection_string
from flowfabric_client._fork import OwnedAsyncConnection, OwnedConnection, abandon, forget_after_fork
from flowfabric_client._pools import connect_arguments, is_pooled, is_pooled_async

_LOGGER = logging.getLogger("flowfabric.client")

_CHANNELS = (
    "ff_completion",
    "ff_lease_event",
    "ff_operator_event",
    "ff_signal_event",
    "ff_stream",
    "ff_worker_event",
)
_LISTEN = sql.SQL("; ").join(sql.SQL("listen {}").format(sql.Identifier(channel)) for channel in _CHANNELS)
_FIRST_RETRY_S = 0.2
_LONGEST_RETRY_S = 60.0
# How soon a thread that listens notices that it shall stop.
_SLICE_S = 0.2

IsWokenBy = Callable[[str, str], bool]


@dataclass(frozen=True, slots=True)
class ListenOptions:
    """Where to listen."""

    dsn: str = field(repr=False)
    connect_timeout_s: float

    def __post_init__(self) -> None:
        require_connection_string(self.dsn)

    @property
    def connect_arguments(self) -> dict[str, Any]:
        return connect_arguments(self.dsn, self.connect_timeout_s)


def _warn_of_pooler() -> None:
    _LOGGER.info(
        "a pooler stands before the database, which does not pass notifications on: polling only."
        " listen_dsn names a direct connection."
    )


def _warn(error: psycopg.Error) -> None:
    _LOGGER.warning("not listening for the moment, polling instead: %s", error)


class Listener:
    """The connection on which one thread listens; without a place to listen at it is a mere pause."""

    def __init__(self, options: ListenOptions | None, is_woken_by: IsWokenBy, stop: threading.Event) -> None:
        self._options = options
        self._is_woken_by = is_woken_by
        self._stop = stop
        self._connection: psycopg.Connection[Any] | None = None
        self._backoff = Backoff(_FIRST_RETRY_S, _LONGEST_RETRY_S)
        self._next_try_at = float("-inf")

    @property
    def is_listening(self) -> bool:
        """Whether notifications arrive."""
        return self._connection is not None

    def open(self) -> None:
        """Listen, if that is possible now."""
        if self._options is None or self._connection is not None or time.monotonic() < self._next_try_at:
            return
        try:
            connection = OwnedConnection.connect(self._options.dsn, **self._options.connect_arguments)
        except psycopg.Error as error:
            self._failed(error)
            return
        try:
            if is_pooled(connection):
                _warn_of_pooler()
                self._options = None
            else:
                connection.execute(_LISTEN)
                self._connection = connection
                self._backoff.reset()
        except psycopg.Error as error:
            self._failed(error)
        finally:
            if self._connection is None:
                connection.close()

    def wait(self, seconds: float) -> bool:
        """Wait to be woken; whether that happened, or may have happened unheard."""
        if self._connection is None:
            self.open()
            # What was announced while nobody listened is not announced again.
            return self.is_listening or self._stop.wait(seconds)
        give_up_at = time.monotonic() + seconds
        try:
            while not self._stop.is_set() and (remaining_s := give_up_at - time.monotonic()) > 0:
                for heard in self._connection.notifies(timeout=min(_SLICE_S, remaining_s), stop_after=1):
                    if self._is_woken_by(heard.channel, heard.payload):
                        return True
        except psycopg.Error as error:
            self.close()
            self._failed(error)
        return False

    def close(self) -> None:
        """Listen no more."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _failed(self, error: psycopg.Error) -> None:
        self._next_try_at = time.monotonic() + self._backoff.pause_s()
        _warn(error)


class AsyncListener:
    """The connection on which everybody listens who follows something with one client."""

    def __init__(self, options: ListenOptions | None) -> None:
        self._options = options
        self._followers: dict[asyncio.Event, IsWokenBy] = {}
        self._task: asyncio.Task[None] | None = None
        self.is_listening = False
        forget_after_fork(self)

    def _forget(self) -> None:
        """Have no followers yet, in a child of the process that had some."""
        abandon((self._task, self._followers))
        self._task, self._followers = None, {}
        self.is_listening = False

    def join(self, is_woken_by: IsWokenBy) -> asyncio.Event:
        """An event that is set when something was announced to this follower."""
        woken = asyncio.Event()
        self._followers[woken] = is_woken_by
        if self._options is not None and self._task is None:
            self._task = asyncio.create_task(self._listen(self._options))
        return woken

    async def leave(self, woken: asyncio.Event) -> None:
        """Follow no more; nobody listens when the last one has left."""
        self._followers.pop(woken, None)
        if not self._followers:
            await self.close()

    async def close(self) -> None:
        """Listen no more."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def _listen(self, options: ListenOptions) -> None:
        backoff = Backoff(_FIRST_RETRY_S, _LONGEST_RETRY_S)
        while True:
            try:
                connection = await OwnedAsyncConnection.connect(options.dsn, **options.connect_arguments)
                async with connection:
                    if await is_pooled_async(connection):
                        _warn_of_pooler()
                        return
                    await connection.execute(_LISTEN)
                    self.is_listening = True
                    backoff.reset()
                    # What was announced while nobody listened is not announced again.
                    for woken in self._followers:
                        woken.set()
                    await self._pass_on(connection)
            except psycopg.Error as error:
                _warn(error)
            finally:
                self.is_listening = False
            await asyncio.sleep(backoff.pause_s())

    async def _pass_on(self, connection: psycopg.AsyncConnection[Any]) -> None:
        async for heard in connection.notifies():
            for woken, is_woken_by in self._followers.items():
                if is_woken_by(heard.channel, heard.payload):
                    woken.set()
