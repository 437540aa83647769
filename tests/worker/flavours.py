"""A handler, written once as an async function, that runs in the event loop or, as a plain one, in a thread.

In a thread it gets a `SyncContext` whose face is asynchronous: each call is made when it is awaited, and no
await ever waits, so the coroutine runs to its end like a function.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from contextlib import AbstractContextManager
from typing import Any

import psycopg

from flowfabric_client import AsyncClient, Client
from flowfabric_client.worker import SyncContext

AsyncHandler = Callable[..., Coroutine[Any, Any, Any]]


class Flavour:
    """Where handlers run, and which client their context uses there."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.client: type[Client] | type[AsyncClient] = Client if name == "thread" else AsyncClient

    def __call__(self, handler: AsyncHandler) -> Callable[..., Any]:
        """The handler as it is registered."""
        if self.name == "loop":
            return handler

        def in_thread(ctx: SyncContext) -> Any:
            return _run(handler(_Face(ctx)))

        return in_thread


def _run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("the handler waited for something that was not its context's")


class _Face:
    def __init__(self, real: Any) -> None:
        self._real = real

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._real, name)
        if isinstance(value, psycopg.Connection):
            return _Face(value)
        if not callable(value):
            return value

        def call(*arguments: Any, **named: Any) -> Any:
            hand_out = named.get("hand_out")
            if hand_out is not None:
                named["hand_out"] = lambda tx, waitpoint: _run(hand_out(_Face(tx), waitpoint))
            return _Call(
                lambda: value(*(getattr(argument, "_real", argument) for argument in arguments), **named)
            )

        return call


class _Call:
    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._manager: AbstractContextManager[Any] | None = None

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._make()
        yield

    async def __aenter__(self) -> Any:
        manager: AbstractContextManager[Any] = self._make()
        self._manager = manager
        return _Face(manager.__enter__())

    async def __aexit__(self, *exc_info: Any) -> bool | None:
        assert self._manager is not None
        return self._manager.__exit__(*exc_info)
