"""Whether the engine and its model agree: about an answer, and about everything that is stored."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any
from uuid import UUID

from tests.model.engine import Refusal
from tests.model.model import ANYTHING, Execution, RefusedError, Row, World

_NOTE_COLUMNS = (
    "progress_pct",
    "progress_message",
    "progress_updated_at_ms",
    "last_capability_mismatch_at_ms",
    "failure_reason",
    "cancellation_reason",
    "cancelled_by",
    "lease_revoke_reason",
    "pending_retry_reason",
    "pending_replay_reason",
    "pending_replay_requested_by",
    "pending_previous_attempt_index",
)
_NOT_IN_THIS_AREA = {
    "flow_id": None,
    "current_suspension_id": None,
    "current_waitpoint_id": None,
    "quota_policy_id": None,
    "budget_ids": None,
    "open_reservation_count": 0,
}
_EVENT_HEADER = {"event_id": ANYTHING, "epoch": ANYTHING}


def answer_differences(
    function: str, predicted: list[Row] | RefusedError, actual: list[Row] | Refusal
) -> list[str]:
    """In what an answer of the engine differs from the model's prediction."""
    if isinstance(predicted, RefusedError):
        if not isinstance(actual, Refusal):
            return [f"the model refuses with {predicted}, the engine answers {actual}"]
        return _refusal_differences(function, predicted, actual)
    if isinstance(actual, Refusal):
        return [f"the model answers {predicted}, the engine refuses with {actual}"]
    if len(predicted) != len(actual):
        return [f"the model answers {predicted}, the engine {actual}"]
    return [
        difference
        for position, (expected, row) in enumerate(zip(predicted, actual, strict=True), 1)
        for difference in _answer_row_differences(f"row {position}", function, expected, plain(row))
    ]


def stored_differences(world: World, stored: dict[str, Row]) -> list[str]:
    """In what the stored rows differ from the model."""
    if world.executions.keys() != stored.keys():
        return [f"the model has the executions {sorted(world.executions)}, the engine {sorted(stored)}"]
    return [
        difference
        for execution_id, execution in world.executions.items()
        for difference in _execution_differences(world, execution, stored[execution_id])
    ]


def plain(row: Row) -> Row:
    """A row with ids as text, as the model has them."""
    return {name: str(value) if isinstance(value, UUID) else value for name, value in row.items()}


def _refusal_differences(function: str, predicted: RefusedError, actual: Refusal) -> list[str]:
    promised = {"code": predicted.code, "fn": function, **predicted.detail}
    shown = {name: actual.detail.get(name) for name in promised}
    if (predicted.sqlstate, predicted.code, promised) != (actual.sqlstate, actual.code, shown):
        return [f"the model refuses with {predicted}, the engine with {actual}"]
    return []


def _answer_row_differences(where: str, function: str, expected: Row, row: Row) -> list[str]:
    detail = expected.get("detail")
    if detail is None or row.get("detail") is None:
        return _row_differences(where, expected, row)
    promised = {"code": expected["code"], "fn": function, **detail}
    shown = {name: row["detail"].get(name) for name in promised}
    return _row_differences(where, {**expected, "detail": promised}, {**row, "detail": shown})


def _row_differences(where: str, expected: Row, row: Row) -> list[str]:
    if expected.keys() != row.keys():
        return [f"{where}: the model has the columns {sorted(expected)}, the engine {sorted(row)}"]
    return [
        f"{where}.{name}: the model says {expected[name]!r}, the engine {row[name]!r}"
        for name in row
        if expected[name] != row[name]
    ]


def _execution_differences(world: World, e: Execution, stored: Row) -> list[str]:
    partition, uuid = e.execution_id.removeprefix("{fp:").split("}:")
    key = {"partition_key": int(partition), "execution_id": uuid}
    where = e.execution_id
    idempotency = [
        {
            "namespace": namespace,
            "idempotency_key": idempotency_key,
            "expires_at_ms": expires_at_ms,
            "created_at_ms": e.created_at_ms,
            **key,
        }
        for (namespace, idempotency_key), (execution_id, expires_at_ms) in sorted(world.idempotency.items())
        if execution_id == e.execution_id
    ]
    attempts = [
        {**asdict(attempt), **key, "usage": None, "last_usage_report_seq": 0} for attempt in e.attempts
    ]
    events = {
        "lease_events": e.lease_events,
        "completion_events": e.completion_events,
        "operator_events": e.operator_events,
    }
    return [
        *_row_differences(f"{where} core", _core_row(e) | key, stored["core"]),
        *_row_differences(f"{where} payload", _payload_row(e) | key, stored["payload"]),
        *_note_differences(where, e, stored["note"], key),
        *_grant_differences(where, e, stored["grant"], key),
        *_rows_differences(f"{where} attempts", attempts, stored["attempts"]),
        *_rows_differences(f"{where} idempotency", idempotency, stored["idempotency"]),
        *(
            difference
            for name, expected in events.items()
            for difference in _rows_differences(
                f"{where} {name}", [{**_EVENT_HEADER, **key, **event} for event in expected], stored[name]
            )
        ),
        *_row_differences(
            where,
            {"required_capabilities": e.required_capabilities},
            {"required_capabilities": stored["required_capabilities"]},
        ),
    ]


def _rows_differences(where: str, expected: list[Row], rows: list[Row]) -> list[str]:
    if len(expected) != len(rows):
        return [f"{where}: the model has {expected}, the engine {rows}"]
    return [
        difference
        for position, (one, row) in enumerate(zip(expected, rows, strict=True))
        for difference in _row_differences(f"{where}[{position}]", one, row)
    ]


def _core_row(e: Execution) -> Row:
    elsewhere = {*_NOTE_COLUMNS, "policy", "tags", "payload", "result", "result_encoding", "grant"}
    elsewhere |= {
        "attempts",
        "fences",
        "lease_events",
        "completion_events",
        "operator_events",
        "execution_id",
    }
    own: dict[str, Any] = {name: value for name, value in vars(e).items() if name not in elsewhere}
    derived = {
        "public_state": e.public_state,
        "capability_set_id": ANYTHING,
        "attempt_timeout_ms": e.attempt_timeout_ms,
        "retention_ms": (e.policy.get("stream_policy") or {}).get("retention_ttl_ms"),
        "instance_tag": e.instance_tag,
    }
    return own | derived | _NOT_IN_THIS_AREA


def _payload_row(e: Execution) -> Row:
    return {
        "payload": _stored_bytes(e.payload),
        "payload_encoding": None,
        "result": _stored_bytes(e.result),
        "result_encoding": e.result_encoding,
        "policy": e.policy or None,
        "tags": e.tags,
        "creator_identity": None,
    }


def _stored_bytes(value: bytes | None) -> str | None:
    return None if value is None else "\\x" + value.hex()


def _note_differences(where: str, e: Execution, note: Row | None, key: Row) -> list[str]:
    expected = {name: getattr(e, name) for name in _NOTE_COLUMNS}
    expected |= {"last_hmac_validation_failed_at_ms": None}
    # No row is the same as a row with nothing in it.
    return _row_differences(
        f"{where} note", expected | key, dict.fromkeys(expected) | key if note is None else note
    )


def _grant_differences(where: str, e: Execution, grant: Row | None, key: Row) -> list[str]:
    if e.grant is None or grant is None:
        both = e.grant is None and grant is None
        return [] if both else [f"{where}: the model has the grant {e.grant}, the engine {grant}"]
    silent = {"capability_hash": None, "route_snapshot": None, "admission_summary": None}
    return _row_differences(f"{where} grant", asdict(e.grant) | silent | key, grant)
