"""What the benchmark asks of a system. An adapter overrides what its system can do, and nothing else."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any

import psycopg
from psycopg.rows import TupleRow

Connection = psycopg.Connection[TupleRow]
OnJob = Callable[[str], None]


class Adapter:
    """One client of one system, in a process of its own.

    Every method is a coroutine, so that systems with a synchronous and with an asynchronous client run under
    the same loop; one that never waits for the event loop costs less than a microsecond more than a call.
    """

    def __init__(self, dsn: str, options: dict[str, str]) -> None:
        self.dsn = dsn
        self.options = options

    @classmethod
    def version(cls) -> str:
        """The version of what is measured."""
        raise NotImplementedError

    def install(self) -> None:
        """Put the system into the empty database."""
        raise NotImplementedError

    async def open(self) -> None:
        """Connect."""

    async def close(self) -> None:
        """Disconnect."""

    async def create(self, count: int) -> None:
        """Make so many jobs, in one call where the system has one for that."""
        raise NotImplementedError

    async def claim(self, count: int) -> Sequence[Any]:
        """Take up to so many jobs."""
        raise NotImplementedError

    async def complete(self, claimed: Sequence[Any]) -> None:
        """Finish the jobs of one claim."""
        raise NotImplementedError

    async def cycle(self) -> None:
        """Run one job from beginning to end, where the system has no calls for the steps."""
        raise NotImplementedError

    async def create_stamped(self) -> None:
        """Make one job whose payload is the text of `stamp()`."""
        raise NotImplementedError

    async def work(self, concurrency: int, on_job: OnJob, stop: asyncio.Event) -> None:
        """Run the system's own worker until `stop`; its handler only calls `on_job` with the payload."""
        raise NotImplementedError

    async def unfinished(self) -> int:
        """How many jobs have not ended."""
        raise NotImplementedError

    async def seed(self, waiting: int, finished: int) -> None:
        """Store so many jobs, as the system itself would have left them."""
        raise NotImplementedError

    async def round_trip(self) -> float:
        """Let a running job wait for an event, send the event, let the job run again; return the seconds."""
        raise NotImplementedError

    async def route(self, sets: int) -> None:
        """From now on jobs need, and claims offer, one of so many sets of capabilities, in turn."""
        raise NotImplementedError

    async def flow(self, shape: str | None) -> dict[str, float]:
        """Run a graph of jobs, or jobs in no graph: how many, and seconds to create and to end them."""
        raise NotImplementedError

    @classmethod
    def can(cls, *methods: str) -> bool:
        """Whether the system does all of these."""
        return all(getattr(cls, name) is not getattr(Adapter, name) for name in methods)


class SqlAdapter(Adapter):
    """A system whose interface is SQL: one psycopg connection with prepared statements."""

    connection: Connection

    async def open(self) -> None:
        self.connection = connect(self.dsn)

    async def close(self) -> None:
        self.connection.close()

    async def create_stamped(self) -> None:
        self.create_with_payload(stamp())

    def create_with_payload(self, payload: str) -> None:
        """Make one job with this payload."""
        raise NotImplementedError

    def number(self, query: str, arguments: Sequence[Any] = ()) -> int:
        """The number that a query returns."""
        row = self.connection.execute(query, arguments).fetchone()
        return int(row[0]) if row else 0


class JobSink:
    """What a job calls, where its handler must be a function of a module and is registered only once."""

    on_job: OnJob | None = None

    def __call__(self, payload: str) -> None:
        if self.on_job is not None:
            self.on_job(payload)


def connect(dsn: str) -> Connection:
    """A connection in autocommit mode that prepares every statement when it is first used."""
    connection = psycopg.connect(dsn, autocommit=True)
    connection.prepare_threshold = 0
    return connection


def stamp() -> str:
    """Now, on the clock that all processes of this machine share."""
    return str(time.monotonic_ns())


PAYLOAD = "hello world"
