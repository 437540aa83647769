"""Handles: what a worker keeps to talk about its current lease."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from typing import Literal, TypedDict, cast
from uuid import UUID

from flowfabric_client.errors import CorruptValueError, HandleFromOtherBackendError
from flowfabric_client.rows import Claim, ClaimedExecution, Reclaim, ReclaimedExecution

HandleKind = Literal["fresh", "resumed", "reclaimed", "suspended"]

_FORMAT = 0x02
_OLD_FORMAT = 0x01
_VERSION = 0x01
_BACKENDS = {0x01: "valkey", 0x02: "postgres", 0x03: "sqlite"}
_POSTGRES = 0x02
_WIRE_ID = re.compile(
    r"\{fp:(?:0|[1-9][0-9]{0,4})\}:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.I
)


class FenceArguments(TypedDict):
    """The arguments that every lease-bound method takes."""

    execution_id: str
    lease_id: UUID
    lease_epoch: int
    attempt_id: UUID


@dataclass(frozen=True, slots=True)
class Handle:
    """The current lease of an execution, with everything that a worker's calls need."""

    execution_id: str
    attempt_index: int
    attempt_id: UUID
    lease_id: UUID
    lease_epoch: int
    lease_ttl_ms: int
    lane_id: str
    worker_instance_id: str
    kind: HandleKind

    @classmethod
    def of(cls, claim: Claim | Reclaim | ClaimedExecution | ReclaimedExecution) -> Handle:
        """The handle of a claim that succeeded; a reclaim at its cap has none and raises ValueError."""
        if (
            claim.lease_id is None
            or claim.attempt_id is None
            or claim.attempt_index is None
            or claim.lease_epoch is None
            or claim.lease_ttl_ms is None
            or claim.worker_instance_id is None
        ):
            raise ValueError(f"{claim.execution_id} was not claimed")
        return cls(
            claim.execution_id,
            claim.attempt_index,
            claim.attempt_id,
            claim.lease_id,
            claim.lease_epoch,
            claim.lease_ttl_ms,
            claim.lane_id,
            claim.worker_instance_id,
            cast(HandleKind, claim.handle_kind),
        )

    @property
    def fence(self) -> tuple[UUID, int, UUID]:
        """Lease id, lease epoch and attempt id: what the database compares on every write."""
        return self.lease_id, self.lease_epoch, self.attempt_id

    def arguments(self) -> FenceArguments:
        """The fence as keyword arguments: `client.complete_execution(**handle.arguments())`."""
        return {
            "execution_id": self.execution_id,
            "lease_id": self.lease_id,
            "lease_epoch": self.lease_epoch,
            "attempt_id": self.attempt_id,
        }

    def to_bytes(self) -> bytes:
        """The byte form that upstream's tools exchange; `kind` is not part of it."""
        return b"".join(
            (
                bytes((_FORMAT, _VERSION, _POSTGRES)),
                _text(self.execution_id),
                struct.pack("<I", self.attempt_index),
                _text(str(self.attempt_id)),
                _text(str(self.lease_id)),
                struct.pack("<QQ", self.lease_epoch, self.lease_ttl_ms),
                _text(self.lane_id),
                _text(self.worker_instance_id),
            )
        )

    @classmethod
    def from_bytes(cls, data: bytes, kind: HandleKind = "fresh") -> Handle:
        """Read the byte form.

        Raises:
            CorruptValueError: the bytes are not a handle.
            HandleFromOtherBackendError: they are one, of another backend.
        """
        reader = _Reader(data)
        head = reader.byte()
        if head == _OLD_FORMAT:
            tag = 0x01
        elif head == _FORMAT and reader.byte() == _VERSION:
            tag = reader.byte()
        else:
            raise _corrupt("unknown_format")
        if tag not in _BACKENDS:
            raise _corrupt("unknown_backend")
        if tag != _POSTGRES:
            raise HandleFromOtherBackendError(details={"expected": "postgres", "actual": _BACKENDS[tag]})
        execution_id = reader.text()
        if not _WIRE_ID.fullmatch(execution_id):
            raise _corrupt("bad_id")
        attempt_index = reader.number("<I")
        attempt_id = reader.uuid()
        lease_id = reader.uuid()
        lease_epoch = reader.number("<Q")
        lease_ttl_ms = reader.number("<Q")
        lane_id = reader.text()
        worker_instance_id = reader.text()
        reader.end()
        return cls(
            execution_id,
            attempt_index,
            attempt_id,
            lease_id,
            lease_epoch,
            lease_ttl_ms,
            lane_id,
            worker_instance_id,
            kind,
        )


def _text(value: str) -> bytes:
    data = value.encode()
    return struct.pack("<I", len(data)) + data


def _corrupt(reason: str) -> CorruptValueError:
    return CorruptValueError(details={"field": "handle", "reason": reason})


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._rest = memoryview(data)

    def _take(self, length: int) -> bytes:
        if length > len(self._rest):
            raise _corrupt("short")
        taken, self._rest = bytes(self._rest[:length]), self._rest[length:]
        return taken

    def byte(self) -> int:
        return self._take(1)[0]

    def number(self, layout: str) -> int:
        value: int = struct.unpack(layout, self._take(struct.calcsize(layout)))[0]
        return value

    def text(self) -> str:
        try:
            return self._take(self.number("<I")).decode()
        except UnicodeDecodeError as cause:
            raise _corrupt("bad_utf8") from cause

    def uuid(self) -> UUID:
        try:
            return UUID(self.text())
        except ValueError as cause:
            raise _corrupt("bad_id") from cause

    def end(self) -> None:
        if self._rest:
            raise _corrupt("trailing_bytes")
