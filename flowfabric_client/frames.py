"""Frames: what attempts write to their output stream, as something to follow.

for frame in client.tail_stream(execution_id):
    print(frame.payload)
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal

from flowfabric_client import _calls, rows
from flowfabric_client._call import Call
from flowfabric_client._following import Page, Send, Source
from flowfabric_client._steps import Steps
from flowfabric_client.errors import ExecutionNotFoundError

Visibility = Literal["all", "exclude_best_effort"]


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame of an attempt's output stream."""

    attempt_index: int
    entry_id: str
    """The position after it within the attempt, for `tail_stream(after=...)`."""
    frame_type: str
    frame_ts_ms: int
    payload: bytes
    encoding: str
    source: str
    mode: str
    correlation_id: str | None
    summary_version: int | None
    ttl_ms: int | None


_ENTRY_FIELDS = tuple(field.name for field in fields(Frame) if field.name != "attempt_index")


@dataclass(slots=True)
class FrameSource(Source[Frame]):
    """The frames of an execution: of one attempt, or of that one and those after it."""

    execution_id: str
    first_attempt: int | None
    """The attempt to begin with; None stands for the current one."""
    later_attempts: bool
    after: str | None
    visibility: Visibility
    page_size: int
    _attempt: int = 0
    _position: str | None = None
    _is_over: bool = False
    """The attempt has ended: what another look does not find will never come."""

    @property
    def position(self) -> str | None:
        return self._position

    def begin(self, send: Send) -> Steps[None]:
        info = yield from self._info(send)
        if info is None:
            raise ExecutionNotFoundError(details={"execution_id": self.execution_id})
        current = info.current_attempt_index or 0
        self._attempt = current if self.first_attempt is None else self.first_attempt

    def look(self, send: Send) -> Steps[Page[Frame]]:
        was_over = self._is_over
        entries = yield from send(
            _calls.read_attempt_stream(
                self.execution_id,
                self._attempt,
                after=self.after,
                count_limit=self.page_size,
                visibility=self.visibility,
            )
        )
        frames = [self._frame(entry) for entry in entries if entry.entry_id is not None]
        if frames:
            self.after = frames[-1].entry_id
            return Page(frames, more=len(frames) == self.page_size)
        info = yield from self._info(send)
        if entries[0].closed_at_ms is None and not was_over:
            # An attempt that never wrote has no stream to be closed: its execution tells when it is over. It
            # may have written between the two reads, so there is another look before that is believed.
            self._is_over = info is None or _is_over(info, self._attempt)
            return Page([], more=self._is_over)
        return self._turn_to_the_next_attempt(info)

    def _turn_to_the_next_attempt(self, info: rows.ExecutionInfo | None) -> Page[Frame]:
        is_last = info is None or (
            info.lifecycle_phase == "terminal" and info.total_attempt_count <= self._attempt + 1
        )
        if is_last or not self.later_attempts:
            return Page([], is_last=True)
        self._attempt += 1
        self.after = None
        self._is_over = False
        return Page([], more=True)

    def _info(self, send: Send) -> Steps[rows.ExecutionInfo | None]:
        found: list[rows.ExecutionInfo] = yield from send(_calls.read_execution_info(self.execution_id))
        return found[0] if found else None

    def _frame(self, entry: rows.StreamEntry) -> Frame:
        return Frame(attempt_index=self._attempt, **{name: getattr(entry, name) for name in _ENTRY_FIELDS})

    def hand_out(self, item: Frame) -> None:
        self._position = item.entry_id

    def registration(self, waiter_id: str, wait_ms: int) -> Call[Any]:
        return _calls.wait_for_events(
            waiter_id, execution_id=self.execution_id, attempt_index=self._attempt, wait_ms=wait_ms
        )

    def is_woken_by(self, channel: str, key: str) -> bool:
        uuid = self.execution_id.rpartition(":")[2].lower()
        return channel == "ff_stream" and key == f"{uuid}_{self._attempt}"


def _is_over(info: rows.ExecutionInfo, attempt_index: int) -> bool:
    return info.lifecycle_phase == "terminal" or info.total_attempt_count > attempt_index + 1
