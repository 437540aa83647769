"""After a fork: the child leaves the connections of its parent alone and opens its own.

Parent and child would otherwise write to the same socket, and each would read answers to the other's calls.
Closing is no better: it tells the server to end the session that the parent still uses. The driver does
neither when it collects a connection of another process, so forgetting one is safe.
"""

from __future__ import annotations

import os
from collections.abc import Coroutine
from typing import Any, Protocol, TypeVar
from weakref import WeakSet

import psycopg
from psycopg.abc import PQGen

RV = TypeVar("RV")


class _Forgetful(Protocol):
    def _forget(self) -> None:
        """Become as new, without a use of what belongs to the parent or of a lock that it may hold."""


_holders: WeakSet[Any] = WeakSet()
_abandoned: list[object] = []


def forget_after_fork(holder: _Forgetful) -> None:
    """Call `holder._forget()` in every child of this process before anything else runs there."""
    _holders.add(holder)


def abandon(thing: object) -> None:
    """Keep something of the parent unused until this process ends: its finalizer would wait for threads."""
    _abandoned.append(thing)


def _forget_all() -> None:
    for holder in list(_holders):
        holder._forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)


class _Owned:
    """Which process opened a connection."""

    _owner_pid: int

    @property
    def is_of_parent(self) -> bool:
        """Whether this process got the connection by a fork."""
        return self._owner_pid != os.getpid()

    def _refuse_if_of_parent(self) -> None:
        if self._owner_pid != os.getpid():
            raise psycopg.OperationalError(
                f"process {self._owner_pid} opened this connection before it forked process {os.getpid()}:"
                " begin the transaction in the process that uses it."
            )


class OwnedConnection(_Owned, psycopg.Connection[Any]):
    """A connection that refuses to work in a child of the process that opened it."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        """Like any connection."""
        self._owner_pid = os.getpid()
        super().__init__(*arguments, **options)

    def wait(self, gen: PQGen[RV], *arguments: Any, **options: Any) -> RV:
        """Talk to the server; everything that a connection does goes through here."""
        self._refuse_if_of_parent()
        return super().wait(gen, *arguments, **options)

    def close(self) -> None:
        """Close the connection, but not that of another process."""
        if self.is_of_parent:
            self._closed = True
        else:
            super().close()


class OwnedAsyncConnection(_Owned, psycopg.AsyncConnection[Any]):
    """The same for the event loop."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        """Like any connection."""
        self._owner_pid = os.getpid()
        super().__init__(*arguments, **options)

    def wait(self, gen: PQGen[RV], *arguments: Any, **options: Any) -> Coroutine[Any, Any, RV]:
        """Talk to the server; everything that a connection does goes through here."""
        self._refuse_if_of_parent()
        return super().wait(gen, *arguments, **options)

    async def close(self) -> None:
        """Close the connection, but not that of another process."""
        if self.is_of_parent:
            self._closed = True
        else:
            await super().close()
