"""Following: looking again and again for what is new, without asking more often than is worth it.

The protocol is the same for events and for frames, and is stated here once for both clients, as a generator
of steps (see `_steps`). The position is kept here and not in a connection: a lost connection loses nothing.
"""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from uuid import uuid4

from flowfabric_client._backoff import Backoff, passes
from flowfabric_client._call import Call
from flowfabric_client._steps import Steps
from flowfabric_client.errors import FlowFabricError, ReadOnlyServerError, StreamDisconnectedError

_LOGGER = logging.getLogger("flowfabric.client")

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
Send = Callable[[Call[Any]], Steps[list[Any]]]

_SHORTEST_PAUSE_S = 0.05
_FIRST_RECONNECT_S = 0.2
_LONGEST_RECONNECT_S = 5.0
_LONGEST_REGISTRATION_MS = 600_000


@dataclass(frozen=True, slots=True)
class Page(Generic[T_co]):
    """What one look has found."""

    items: Sequence[T_co]
    more: bool = False
    """Look again at once."""
    is_last: bool = False
    """Nothing can come after these."""


@dataclass(frozen=True, slots=True)
class Delivery(Generic[T_co]):
    """A step: hand out an item; the generator goes on when the next one is asked for."""

    item: T_co


@dataclass(frozen=True, slots=True)
class Wait:
    """A step: wait to be woken, at most so many seconds; the answer is whether that happened."""

    seconds: float


FollowSteps = Generator[Call[Any] | float | Wait | Delivery[T], Any, None]


class Source(ABC, Generic[T]):
    """Where the items come from, and how far one has come."""

    @abstractmethod
    def begin(self, send: Send) -> Steps[None]:
        """Find the place to start from."""

    @abstractmethod
    def look(self, send: Send) -> Steps[Page[T]]:
        """Read what comes next, and move on behind it."""

    @abstractmethod
    def registration(self, waiter_id: str, wait_ms: int) -> Call[Any]:
        """The call that asks for a notification, or with 0 takes that back."""

    @abstractmethod
    def is_woken_by(self, channel: str, key: str) -> bool:
        """Whether a notification is about this source."""

    @property
    @abstractmethod
    def position(self) -> str | None:
        """Where somebody else could go on."""

    @abstractmethod
    def hand_out(self, item: T) -> None:
        """Take note that the consumer gets an item."""

    def was_handled(self) -> None:
        """Take note that the consumer has asked for the item after the one it got."""

    def settle(self) -> Call[Any] | None:
        """The call that stores how far the consumer has come, if there is something to store."""
        return None

    def was_settled(self, call: Call[Any]) -> None:
        """Take note that such a call has succeeded."""


def check_pace(poll_interval_s: float, timeout_s: float | None) -> None:
    """Refuse what would look without a pause, or never."""
    if not poll_interval_s > 0:
        raise ValueError(f"poll_interval_s must be positive, and is {poll_interval_s}")
    if timeout_s is not None and not timeout_s >= 0:
        raise ValueError(f"timeout_s must be positive or 0, and is {timeout_s}")


@dataclass(slots=True)
class Following(Generic[T]):
    """One consumer that follows one source."""

    source: Source[T]
    send: Send
    is_listening: Callable[[], bool]
    """Whether somebody would hear a notification."""
    poll_interval_s: float
    timeout_s: float | None
    _waiter_id: str = field(default_factory=lambda: f"follower-{uuid4().hex}")
    _registered: Call[Any] | None = None
    _registered_at: float = float("-inf")
    _has_settled: bool = False

    def __post_init__(self) -> None:
        check_pace(self.poll_interval_s, self.timeout_s)

    def steps(self) -> FollowSteps[T]:
        """Deliver until the source has ended, or until nothing came for `timeout_s`."""
        backoff = Backoff(_FIRST_RECONNECT_S, _LONGEST_RECONNECT_S)
        # An error here is the caller's: nothing was followed yet, and most likely something is misconfigured.
        yield from self.source.begin(self.send)
        newest_at = time.monotonic()
        in_touch = idle = False
        pause_s = _SHORTEST_PAUSE_S
        while True:
            try:
                yield from self._settle()
                if idle:
                    yield from self._register()
                page = yield from self.source.look(self.send)
            except FlowFabricError as error:
                if not in_touch or not passes(error) or self._never_could_write(error):
                    raise
                if self._remaining_s(newest_at) <= 0:
                    raise StreamDisconnectedError(
                        f"the database went away and did not come back in time: {error}",
                        cursor=self.source.position,
                    ) from error
                reconnect_s = min(backoff.pause_s(), self._remaining_s(newest_at))
                _LOGGER.warning("following is interrupted, next try in %.1f s: %s", reconnect_s, error)
                yield Wait(reconnect_s)
                continue
            in_touch = True
            backoff.reset()
            for item in page.items:
                self.source.hand_out(item)
                yield Delivery(item)
                self.source.was_handled()
            if page.is_last:
                break
            if page.items or page.more:
                if page.items:
                    newest_at = time.monotonic()
                idle = False
                pause_s = _SHORTEST_PAUSE_S
                continue
            if self._remaining_s(newest_at) <= 0:
                break
            if not idle:
                # Register, then look once more: what was committed in between announced itself to nobody.
                idle = True
                if self.is_listening():
                    continue
            # What still slips through had looked for waiters before and commits after; and what is announced
            # can be readable a moment later, when an older transaction has ended. The poll finds both.
            woken = yield Wait(min(pause_s, self._remaining_s(newest_at)))
            pause_s = _SHORTEST_PAUSE_S if woken else min(2 * pause_s, self.poll_interval_s)
        yield from self._settle()

    def farewell(self) -> list[Call[Any]]:
        """The calls to make when the consumer stops; nothing depends on them."""
        calls = [self.source.settle()]
        if self._registered is not None:
            calls.append(self.source.registration(self._waiter_id, wait_ms=0))
        return [call for call in calls if call is not None]

    def _remaining_s(self, newest_at: float) -> float:
        if self.timeout_s is None:
            return float("inf")
        return self.timeout_s - (time.monotonic() - newest_at)

    def _settle(self) -> Steps[None]:
        call = self.source.settle()
        if call is not None:
            yield from self.send(call)
            self.source.was_settled(call)
            self._has_settled = True

    def _never_could_write(self, error: FlowFabricError) -> bool:
        """Whether this is a standby by design, and not a primary that lost its place a moment ago."""
        return isinstance(error, ReadOnlyServerError) and not self._has_settled

    def _register(self) -> Steps[None]:
        wait_ms = min(_LONGEST_REGISTRATION_MS, 1_000 + round(2_000 * self.poll_interval_s))
        registration = self.source.registration(self._waiter_id, wait_ms)
        now = time.monotonic()
        is_fresh = now - self._registered_at < self.poll_interval_s / 2
        if not self.is_listening() or (is_fresh and registration == self._registered):
            return
        yield from self.send(registration)
        self._registered, self._registered_at = registration, now
