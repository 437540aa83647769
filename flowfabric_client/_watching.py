"""What the clients can do besides calling functions: follow events, tail a stream, wait, read whole lists."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, Literal, TypedDict, Unpack, overload
from uuid import UUID

import psycopg
from psycopg.pq import TransactionStatus

from flowfabric_client import _calls, rows
from flowfabric_client._event_source import EventSource
from flowfabric_client._listening import AsyncListener
from flowfabric_client._session import AsyncSession, Session
from flowfabric_client.ended import Ended, waiting
from flowfabric_client.events import (
    CompletionEvent,
    EventStream,
    LeaseEvent,
    OperatorEvent,
    SignalEvent,
    WorkerEvent,
)
from flowfabric_client.frames import Frame, FrameSource, Visibility
from flowfabric_client.subscription import AsyncSubscription, Subscription

POLL_INTERVAL_S = 1.0


class ReadingOptions(TypedDict, total=False):
    """Which events to read, from where, and who remembers how far one has come."""

    start: str
    """`tail` (now, the default), `start` (whatever is left), or the cursor of an event. A consumer that has
    a stored position goes on from there."""
    consumer: str | None
    """A name under which the database keeps the position."""
    auto_acknowledge: bool
    """Count an event as dealt with when the next one is asked for; otherwise only `acknowledge()` does."""
    namespace: str | None
    tag_key: str | None
    tag_value: str | None
    partition_key: int | None
    event_types: Sequence[str] | None
    execution_id: str | None
    page_size: int
    """How many events are read at once, and at most repeated after a crash."""


class EventOptions(ReadingOptions, total=False):
    """All options of `events`."""

    poll_interval_s: float
    timeout_s: float | None
    listen: bool


class ListingOptions(TypedDict, total=False):
    """Which executions to list."""

    partition_key: int | None
    namespace: str | None
    lane_id: str | None
    public_state: str | None
    lifecycle_phase: str | None
    flow_id: UUID | None
    tag_key: str | None
    tag_value: str | None


def _event_source(
    stream: EventStream,
    *,
    start: str = "tail",
    consumer: str | None = None,
    auto_acknowledge: bool = True,
    namespace: str | None = None,
    tag_key: str | None = None,
    tag_value: str | None = None,
    partition_key: int | None = None,
    event_types: Sequence[str] | None = None,
    execution_id: str | None = None,
    page_size: int = 256,
) -> EventSource:
    return EventSource(
        stream,
        start,
        consumer,
        auto_acknowledge,
        page_size,
        {
            "namespace": namespace,
            "tag_key": tag_key,
            "tag_value": tag_value,
            "partition_key": partition_key,
            "event_types": event_types,
            "execution_id": execution_id,
        },
    )


def _frame_source(
    execution_id: str,
    attempt_index: int | None,
    after: str | None,
    later_attempts: bool,
    visibility: Visibility,
    page_size: int,
) -> FrameSource:
    if after is not None and attempt_index is None:
        raise ValueError("after is a position within one attempt: give its attempt_index too")
    return FrameSource(execution_id, attempt_index, later_attempts, after, visibility, page_size)


def _require_no_transaction(
    connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any] | None,
) -> None:
    # A transaction that waits holds back the events of the whole server, its own included.
    if connection is not None and (
        not connection.autocommit or connection.info.transaction_status != TransactionStatus.IDLE
    ):
        raise RuntimeError(
            "waiting inside a transaction would keep what it waits for from happening: use a client on a"
            " pool, or on a connection in autocommit mode"
        )


class WatchingSession(Session):
    """A session that can also watch."""

    @overload
    def events(
        self, stream: Literal["completion"], **options: Unpack[EventOptions]
    ) -> Subscription[CompletionEvent]: ...

    @overload
    def events(
        self, stream: Literal["lease"], **options: Unpack[EventOptions]
    ) -> Subscription[LeaseEvent]: ...

    @overload
    def events(
        self, stream: Literal["signal"], **options: Unpack[EventOptions]
    ) -> Subscription[SignalEvent]: ...

    @overload
    def events(
        self, stream: Literal["operator"], **options: Unpack[EventOptions]
    ) -> Subscription[OperatorEvent]: ...

    @overload
    def events(
        self, stream: Literal["worker"], **options: Unpack[EventOptions]
    ) -> Subscription[WorkerEvent]: ...

    def events(
        self,
        stream: EventStream,
        *,
        poll_interval_s: float = POLL_INTERVAL_S,
        timeout_s: float | None = None,
        listen: bool = True,
        **reading: Unpack[ReadingOptions],
    ) -> Subscription[Any]:
        """Follow the events of a stream, each at least once, over reconnects and restarts.

        Args:
            stream: `completion`, `lease`, `signal`, `operator` or `worker`.
            poll_interval_s: How often to look where no notification comes.
            timeout_s: End when no event came for so long; 0 reads what is there and ends.
            listen: Whether to ask for notifications, on a connection of its own.
            **reading: See `ReadingOptions`.

        Raises:
            EventCursorExpiredError: what comes next was pruned before it was read.
            StreamDisconnectedError: the timeout came while the database was away.
        """
        _require_no_transaction(self._connection)
        return Subscription(
            self,
            _event_source(stream, **reading),
            listen=self._listen if listen else None,
            poll_interval_s=poll_interval_s,
            timeout_s=timeout_s,
        )

    def tail_stream(
        self,
        execution_id: str,
        *,
        attempt_index: int | None = None,
        after: str | None = None,
        later_attempts: bool = True,
        visibility: Visibility = "all",
        page_size: int = 1000,
        poll_interval_s: float = POLL_INTERVAL_S,
        timeout_s: float | None = None,
        listen: bool = True,
    ) -> Subscription[Frame]:
        """Follow the output of an execution until it has ended, over reconnects and restarts.

        Args:
            execution_id: Whose output.
            attempt_index: The attempt to begin with; the current one if not given.
            after: Begin behind this entry of that attempt.
            later_attempts: Go on with the attempts after it; otherwise end with it.
            visibility: `exclude_best_effort` leaves frames out that may be dropped early.
            page_size: How many frames are read at once.
            poll_interval_s: How often to look where no notification comes.
            timeout_s: End when no frame came for so long; 0 reads what is there and ends.
            listen: Whether to ask for notifications, on a connection of its own.

        Raises:
            ExecutionNotFoundError: there is no such execution.
            StreamDisconnectedError: the timeout came while the database was away.
        """
        _require_no_transaction(self._connection)
        return Subscription(
            self,
            _frame_source(execution_id, attempt_index, after, later_attempts, visibility, page_size),
            listen=self._listen if listen else None,
            poll_interval_s=poll_interval_s,
            timeout_s=timeout_s,
        )

    def wait(
        self, execution_id: str, *, timeout_s: float | None = None, poll_interval_s: float = 0.5
    ) -> Ended:
        """Wait until an execution has ended, over reconnects and restarts.

        Args:
            execution_id: Which one.
            timeout_s: How long to wait at most.
            poll_interval_s: The longest time between two looks.

        Raises:
            ExecutionNotFoundError: there is no such execution.
            TimeoutError: it has not ended within `timeout_s`.
        """
        _require_no_transaction(self._connection)
        return self._carry_out(
            waiting(self._send, execution_id, timeout_s=timeout_s, poll_interval_s=poll_interval_s)
        )

    def iter_executions(
        self, *, after: str | None = None, page_size: int = 1000, **filters: Unpack[ListingOptions]
    ) -> Iterator[rows.ExecutionListing]:
        """List executions page by page to the end; each page is a call of its own.

        Rows without an execution id, which only say where a search continues, are left out.

        Args:
            after: Start after this execution, or after `next_after` of a page.
            page_size: Rows per page.
            **filters: See `ListingOptions`.
        """
        following = after
        while page := self._all(_calls.list_executions(after=following, limit=page_size, **filters)):
            yield from (row for row in page if row.execution_id is not None)
            following = page[-1].next_after
            if following is None:
                return


class AsyncWatchingSession(AsyncSession):
    """A session that can also watch; see `WatchingSession` for the arguments."""

    @overload
    def events(
        self, stream: Literal["completion"], **options: Unpack[EventOptions]
    ) -> AsyncSubscription[CompletionEvent]: ...

    @overload
    def events(
        self, stream: Literal["lease"], **options: Unpack[EventOptions]
    ) -> AsyncSubscription[LeaseEvent]: ...

    @overload
    def events(
        self, stream: Literal["signal"], **options: Unpack[EventOptions]
    ) -> AsyncSubscription[SignalEvent]: ...

    @overload
    def events(
        self, stream: Literal["operator"], **options: Unpack[EventOptions]
    ) -> AsyncSubscription[OperatorEvent]: ...

    @overload
    def events(
        self, stream: Literal["worker"], **options: Unpack[EventOptions]
    ) -> AsyncSubscription[WorkerEvent]: ...

    def events(
        self,
        stream: EventStream,
        *,
        poll_interval_s: float = POLL_INTERVAL_S,
        timeout_s: float | None = None,
        listen: bool = True,
        **reading: Unpack[ReadingOptions],
    ) -> AsyncSubscription[Any]:
        """Follow the events of a stream, each at least once, over reconnects and restarts."""
        _require_no_transaction(self._connection)
        return AsyncSubscription(
            self,
            _event_source(stream, **reading),
            listener=self._listener if listen else AsyncListener(None),
            poll_interval_s=poll_interval_s,
            timeout_s=timeout_s,
        )

    def tail_stream(
        self,
        execution_id: str,
        *,
        attempt_index: int | None = None,
        after: str | None = None,
        later_attempts: bool = True,
        visibility: Visibility = "all",
        page_size: int = 1000,
        poll_interval_s: float = POLL_INTERVAL_S,
        timeout_s: float | None = None,
        listen: bool = True,
    ) -> AsyncSubscription[Frame]:
        """Follow the output of an execution until it has ended, over reconnects and restarts."""
        _require_no_transaction(self._connection)
        return AsyncSubscription(
            self,
            _frame_source(execution_id, attempt_index, after, later_attempts, visibility, page_size),
            listener=self._listener if listen else AsyncListener(None),
            poll_interval_s=poll_interval_s,
            timeout_s=timeout_s,
        )

    async def wait(
        self, execution_id: str, *, timeout_s: float | None = None, poll_interval_s: float = 0.5
    ) -> Ended:
        """Wait until an execution has ended, over reconnects and restarts."""
        _require_no_transaction(self._connection)
        return await self._carry_out(
            waiting(self._send, execution_id, timeout_s=timeout_s, poll_interval_s=poll_interval_s)
        )

    async def iter_executions(
        self, *, after: str | None = None, page_size: int = 1000, **filters: Unpack[ListingOptions]
    ) -> AsyncIterator[rows.ExecutionListing]:
        """List executions page by page to the end; each page is a call of its own."""
        following = after
        while page := await self._all(_calls.list_executions(after=following, limit=page_size, **filters)):
            for row in page:
                if row.execution_id is not None:
                    yield row
            following = page[-1].next_after
            if following is None:
                return
