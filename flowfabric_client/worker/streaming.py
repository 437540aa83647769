"""Frames of the output stream of an attempt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal
from uuid import uuid4

from flowfabric_client import rows
from flowfabric_client.errors import FlowFabricError
from flowfabric_client.worker.backoff import passes
from flowfabric_client.worker.codec import encode_value
from flowfabric_client.worker.job import Job
from flowfabric_client.worker.steps import Request, Steps, insist

StreamMode = Literal["durable", "best_effort", "summary"]


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame, as the engine stores it."""

    payload: bytes
    encoding: str
    frame_type: str
    mode: StreamMode
    ttl_ms: int
    correlation_id: str

    @classmethod
    def of(cls, value: Any, frame_type: str | None, mode: StreamMode, ttl_ms: int) -> Frame:
        """Encode a value: bytes as they are, text as UTF-8, everything else as JSON.

        Raises:
            UnserialisableValueError: the value has no such form.
        """
        payload, encoding = encode_value(value)
        if payload is None or encoding is None:
            payload, encoding = b"null", "json"
        return cls(payload, encoding, frame_type or encoding, mode, ttl_ms, str(uuid4()))

    @classmethod
    def patch(cls, changes: Mapping[str, Any]) -> Frame:
        """Encode changes of the summary, which is one JSON object.

        Raises:
            UnserialisableValueError: they are not JSON.
        """
        return cls.of(dict(changes), "summary", "summary", 0)

    def append_to(self, job: Job) -> Request:
        """The call that appends it."""
        return lambda client: client.append_frame(
            **job.handle.arguments(),
            attempt_index=job.handle.attempt_index,
            frame_type=self.frame_type,
            payload=self.payload,
            encoding=self.encoding,
            correlation_id=self.correlation_id,
            stream_mode=self.mode,
            ttl_ms=self.ttl_ms,
        )


def append(job: Job, frame: Frame) -> Steps[rows.AppendedFrame | None]:
    """Append a frame; None if it was best effort and the database is away for the moment.

    A frame whose answer was lost is sent again, with the same correlation id: it may then be there twice.
    """
    request = frame.append_to(job)
    if frame.mode != "best_effort":
        appended: rows.AppendedFrame = yield from insist(job, request)
        return appended
    try:
        appended = yield request
    except FlowFabricError as error:
        job.refused(error)
        if not passes(error):
            raise
        return None
    return appended


def version_of(appended: rows.AppendedFrame | None) -> int:
    """The version of the summary after a patch."""
    return (appended.summary_version if appended else None) or 0
