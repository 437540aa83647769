"""The connection over which an idle worker is called, and answers with a claim.

When little happens, nothing on the way to the database is in the processor's caches, and what counts is how
much code the way has: of 1.5 ms that a claim took through pool, cursor and driver, a third was spent there.
So the claim that follows a call goes out over the very connection that heard it, straight through libpq, as a
prepared statement without parameters: they are the same each time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import psycopg
from psycopg.adapt import Transformer
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGresult

from flowfabric_client._call import Call
from flowfabric_client._session import read_json, row_maker
from flowfabric_client.rows import ClaimedExecution

_STATEMENT = b"ff_claim_when_called"


class CallLine:
    """A connection that listens for new work of some lanes, and over which nothing but a claim is asked."""

    def __init__(
        self, connection: psycopg.AsyncConnection[Any], lanes: Iterable[str], on_call: Callable[[], None]
    ) -> None:
        self._connection = connection
        self._pgconn = connection.pgconn
        self._lanes = {lane.encode(connection.info.encoding) for lane in lanes}
        self._on_call = on_call
        self._loop = asyncio.get_running_loop()
        self._lost: asyncio.Future[None] = self._loop.create_future()
        # Whoever waits for an answer may have been the one to notice.
        self._lost.add_done_callback(lambda lost: lost.cancelled() or lost.exception())
        self._can_claim = False
        self._answer: asyncio.Future[PGresult | None] | None = None
        self._result: PGresult | None = None
        self._transformer = Transformer(connection)
        # Made for the first answer: a prepared statement has the same columns for ever.
        self._make_claim: Callable[[Sequence[Any]], ClaimedExecution] | None = None

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        dsn: str,
        name: str,
        lanes: Iterable[str],
        claim: Call[ClaimedExecution],
        on_call: Callable[[], None],
    ) -> AsyncIterator[CallLine]:
        """Listen, and be ready to make a claim with these arguments."""
        connection = await psycopg.AsyncConnection.connect(
            dsn, autocommit=True, fallback_application_name=name
        )
        async with connection:
            line = cls(connection, lanes, on_call)
            await line._prepare(claim)
            await connection.execute("listen ff_eligible")
            yield line

    async def _prepare(self, claim: Call[ClaimedExecution]) -> None:
        read_json(self._connection.adapters)
        # Parameters in binary form are for those that change.
        text = psycopg.AsyncClientCursor(self._connection).mogrify(
            claim.sql.replace(")b::", ")s::"), claim.params
        )
        try:
            await self._connection.execute(
                b"prepare " + _STATEMENT + b" as " + text.encode(self._connection.info.encoding)
            )
        except psycopg.OperationalError:
            raise
        except psycopg.Error:
            # Who listens may have no right to claim: then the pool's connections do it.
            return
        self._can_claim = True

    async def hear(self) -> None:
        """Be called until the connection is lost.

        Raises:
            OperationalError: it is.
        """
        # Not `connection.notifies()`, which wakes up ten times a second when nothing comes.
        socket = self._connection.fileno()
        self._loop.add_reader(socket, self._read)
        try:
            await self._lost
        finally:
            self._loop.remove_reader(socket)
            self._lose(psycopg.OperationalError("the worker no longer listens"))

    async def claim(self) -> list[ClaimedExecution] | None:
        """Claim what the worker was called for; None if that must be asked for over another connection.

        Raises:
            OperationalError: the connection was lost, and with it, perhaps, an answer.
        """
        if not self._can_claim or self._lost.done():
            return None
        self._answer, self._result = self._loop.create_future(), None
        try:
            self._pgconn.send_query_prepared(_STATEMENT, [])
            if self._pgconn.flush():
                self._lose(psycopg.OperationalError("the connection does not take a few bytes"))
            result = await self._answer
        except BaseException as error:
            # Whatever the answer is, it would be taken for that of the next claim.
            self._answer = None
            self._lose(error if isinstance(error, psycopg.Error) else psycopg.OperationalError("interrupted"))
            raise
        self._answer = None
        if result is None or result.status != ExecStatus.TUPLES_OK:
            # Nothing was done. Over a connection of the pool the refusal has its name, or is none.
            self._can_claim = False
            return None
        if self._make_claim is None:
            self._transformer.set_pgresult(result)
            self._make_claim = row_maker(ClaimedExecution, result)
        else:
            self._transformer.set_pgresult(result, set_loaders=False)
        return self._transformer.load_rows(0, result.ntuples, self._make_claim)

    def _read(self) -> None:
        try:
            self._pgconn.consume_input()
            if self._answer is not None:
                self._read_answer(self._answer)
        except psycopg.OperationalError as error:
            self._lose(error)
            return
        while (notification := self._pgconn.notifies()) is not None:
            if notification.extra in self._lanes:
                self._on_call()

    def _read_answer(self, answer: asyncio.Future[PGresult | None]) -> None:
        # The rows may come before the commit; the end of the answer does not.
        while not (answer.done() or self._pgconn.is_busy()):
            result = self._pgconn.get_result()
            if result is None:
                answer.set_result(self._result)
            else:
                self._result = result

    def _lose(self, error: psycopg.Error) -> None:
        for waiting in (self._lost, self._answer):
            if waiting is not None and not waiting.done():
                waiting.set_exception(error)
