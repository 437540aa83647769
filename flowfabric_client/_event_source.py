"""Events as something to follow: where to start, what to read next, and what to store of it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict

from flowfabric_client import _calls
from flowfabric_client._call import Call
from flowfabric_client._following import Page, Send, Source
from flowfabric_client._steps import Steps
from flowfabric_client.events import AnyEvent, EventStream, typed

_CHANNELS = {
    "completion": "ff_completion",
    "lease": "ff_lease_event",
    "signal": "ff_signal_event",
    "operator": "ff_operator_event",
    "worker": "ff_worker_event",
}
# A consumer whose filter matches nothing must move on too, or its position would be pruned in the end. Every
# stored position moves the end of the stream itself, so this is not done at every look.
_STORE_IDLE_AFTER_S = 60.0


class EventFilters(TypedDict):
    """Which events of the stream are wanted; None stands for all."""

    namespace: str | None
    tag_key: str | None
    tag_value: str | None
    partition_key: int | None
    event_types: Sequence[str] | None
    execution_id: str | None


@dataclass(slots=True)
class EventSource(Source[AnyEvent]):
    """The events of one stream."""

    stream: EventStream
    start: str
    consumer: str | None
    auto_acknowledge: bool
    page_size: int
    filters: EventFilters
    _cursor: str = ""
    """Where the next look starts."""
    _delivered: str | None = None
    """Behind the last event that was handed out, or behind what was looked at since and not wanted."""
    _acknowledged: str | None = None
    """What may be stored."""
    _is_due: bool = False
    """Whether it should be stored now."""
    _stored_at: float = field(default_factory=time.monotonic)

    @property
    def position(self) -> str | None:
        return self._delivered

    def begin(self, send: Send) -> Steps[None]:
        cursor = (yield from self._stored_cursor(send)) if self.consumer is not None else None
        if cursor is None:
            cursor = self.start
            if cursor in ("start", "tail"):
                (cursor,) = yield from send(_calls.event_position(self.stream, where=cursor))
            # The place of a new consumer is stored at once: its next start must not skip anything.
            self._is_due = True
        self._cursor = self._delivered = self._acknowledged = cursor

    def _stored_cursor(self, send: Send) -> Steps[str | None]:
        lags = yield from send(_calls.event_lag(stream=self.stream))
        consumers = [consumer for lag in lags for consumer in lag.consumers]
        return next((each["cursor"] for each in consumers if each["consumer"] == self.consumer), None)

    def look(self, send: Send) -> Steps[Page[AnyEvent]]:
        *found, position = yield from send(
            _calls.read_events(self.stream, self._cursor, limit=self.page_size, **self.filters)
        )
        self._cursor = position.cursor
        if not found and self._acknowledged == self._delivered:
            self._acknowledged = self._delivered = position.cursor
            self._is_due |= time.monotonic() - self._stored_at >= _STORE_IDLE_AFTER_S
        return Page([typed(row) for row in found], more=position.more)

    def hand_out(self, item: AnyEvent) -> None:
        self._delivered = item.cursor

    def was_handled(self) -> None:
        if self.auto_acknowledge:
            self.acknowledge()

    def acknowledge(self) -> None:
        """Everything that was handed out is dealt with."""
        self._is_due |= self._acknowledged != self._delivered
        self._acknowledged = self._delivered

    def settle(self) -> Call[Any] | None:
        if self.consumer is None or not self._is_due or self._acknowledged is None:
            return None
        return _calls.commit_event_cursor(self.consumer, self.stream, self._acknowledged)

    def was_settled(self, call: Call[Any]) -> None:
        self._is_due = call.params["cursor"] != self._acknowledged
        self._stored_at = time.monotonic()

    def registration(self, waiter_id: str, wait_ms: int) -> Call[Any]:
        return _calls.wait_for_events(waiter_id, streams=[self.stream], wait_ms=wait_ms)

    def is_woken_by(self, channel: str, key: str) -> bool:
        return channel == _CHANNELS[self.stream] and key == "*"
