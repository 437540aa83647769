"""An attempt that holds its lease and writes to its stream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from psycopg.rows import dict_row

from tests.support.cluster import Connection
from tests.support.engine import Row, call

LEASE_ID = UUID(int=0x1EA5E)
ATTEMPT_ID = UUID(int=0xA77)


@dataclass(frozen=True)
class Attempt:
    """The first attempt of an execution, under the lease that `lease` gave it."""

    uuid: UUID

    @property
    def execution_id(self) -> str:
        return f"{{fp:86}}:{self.uuid}"

    @property
    def fence(self) -> Row:
        return {"lease_id": LEASE_ID, "lease_epoch": 1, "attempt_id": ATTEMPT_ID}

    def append(self, connection: Connection, payload: bytes = b"x", **arguments: Any) -> Row:
        return call(
            connection,
            "ff_append_frame",
            execution_id=self.execution_id,
            attempt_index=0,
            **self.fence,
            frame_type="stdout",
            payload=payload,
            **arguments,
        )

    def complete(self, connection: Connection) -> Row:
        return call(connection, "ff_complete_execution", execution_id=self.execution_id, **self.fence)

    def fail(self, connection: Connection) -> Row:
        return call(connection, "ff_fail_execution", execution_id=self.execution_id, **self.fence)

    def read(self, connection: Connection, **arguments: Any) -> list[Row]:
        """The frames of the stream, or one row without a frame."""
        arguments = {"execution_id": self.execution_id, "attempt_index": 0, **arguments}
        named = ", ".join(f"p_{name} => %({name})s" for name in arguments)
        with connection.cursor(row_factory=dict_row) as cursor:
            statement = f"select r.* from flowfabric.ff_read_attempt_stream({named}) as r"
            return cursor.execute(statement, arguments).fetchall()

    def payloads(self, connection: Connection) -> list[bytes]:
        return [frame["payload"] for frame in self.read(connection) if frame["entry_id"] is not None]

    def closed_reason(self, connection: Connection) -> str | None:
        reason = self.read(connection)[0]["closed_reason"]
        return None if reason is None else str(reason)

    def has_stream(self, connection: Connection) -> bool:
        statement = "select from flowfabric.ff_stream_status(%s, 0)"
        return bool(connection.execute(statement, [self.execution_id]).rowcount)


def lease(connection: Connection, number: int = 1, *, ttl_ms: int = 86_400_000) -> Attempt:
    """Create an execution and let worker-1 hold its lease."""
    attempt = Attempt(UUID(int=number))
    call(connection, "ff_create_execution", execution_kind="test", execution_id=attempt.execution_id)
    call(
        connection,
        "ff_issue_grant_and_claim",
        execution_id=attempt.execution_id,
        lease_ttl_ms=ttl_ms,
        worker_id="worker",
        worker_instance_id="worker-1",
        lease_id=LEASE_ID,
        attempt_id=ATTEMPT_ID,
    )
    return attempt
