"""Summaries against a model of RFC 7396: whatever patches come, the document is what the model says."""

from __future__ import annotations

import json
from decimal import Decimal
from itertools import count
from typing import Any

import psycopg
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.stream.support import Attempt, lease
from tests.support.cluster import Connection

SENTINEL = "__ff_null__"
DEEPEST_OBJECT = 16
DEEPEST_NULL = 32

Json = Any
Patch = dict[str, Json]


def merged(target: Json, patch: Json) -> Json:
    """RFC 7396, section 2, word for word."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result


def with_nulls(value: Json, depth: int = 0) -> Json:
    """The sentinel becomes null wherever it is a value, in containers down to a depth."""
    if value == SENTINEL:
        return None
    if depth > DEEPEST_NULL:
        return value
    if isinstance(value, dict):
        return {name: with_nulls(member, depth + 1) for name, member in value.items()}
    if isinstance(value, list):
        return [with_nulls(element, depth + 1) for element in value]
    return value


def object_depth(value: Json) -> int:
    """How many objects deep an object is, the root being 0; arrays are replaced and so not entered."""
    members = value.values() if isinstance(value, dict) else ()
    return max((1 + object_depth(member) for member in members if isinstance(member, dict)), default=0)


def exact(text: str) -> Json:
    """A JSON text with its numbers as they are written, so that no digit is lost in the comparison."""
    return json.loads(text, parse_int=Decimal, parse_float=Decimal)


#: Few keys, so that patches meet; among them what other implementations stumble over.
KEYS = st.sampled_from(["a", "b", "c", "", "a.b", SENTINEL, "ä"])
#: PostgreSQL stores every character but NUL.
TEXTS = st.text(st.characters(min_codepoint=1, exclude_categories=["Cs"]), max_size=8)
LEAVES = st.one_of(
    st.none(),
    st.just(SENTINEL),
    st.booleans(),
    st.integers(-(10**25), 10**25),
    st.floats(allow_nan=False, allow_infinity=False),
    TEXTS,
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.dictionaries(KEYS, inner, max_size=4), st.lists(inner, max_size=3), st.just({}), st.just([])
    ),
    max_leaves=12,
)
PATCHES = st.dictionaries(KEYS, VALUES, max_size=4)


def nested(depth: int, leaf: Json = 1) -> Json:
    for _ in range(depth):
        leaf = {"a": leaf}
    return leaf


def summary(connection: Connection, attempt: Attempt) -> tuple[Json, int] | None:
    row = connection.execute(
        "select s.document_json::text, s.version from flowfabric.ff_read_summary(%s, 0) as s",
        [attempt.execution_id],
    ).fetchone()
    return None if row is None else (exact(row[0]), row[1])


def patch_summary(connection: Connection, attempt: Attempt, patch: Json) -> int:
    payload = json.dumps(patch).encode()
    return int(attempt.append(connection, payload, stream_mode="summary")["summary_version"])


def test_a_series_of_patches_makes_the_document_of_the_model(db: Connection) -> None:
    numbers = count(1)

    @settings(max_examples=150, deadline=None)
    @given(st.lists(PATCHES, min_size=1, max_size=5))
    @example([{"a": {"b": SENTINEL}}, {"a": {"b": None}}, {"a": {}}])
    @example([{"a": 1}, {"a": {}}, {"a": {"a": {"a": None}}}, {"a": []}])
    @example([{"a": [SENTINEL, [SENTINEL, {"a": SENTINEL}]]}, {SENTINEL: SENTINEL}])
    def check(patches: list[Patch]) -> None:
        attempt = lease(db, next(numbers))
        document: Json = {}
        for version, patch in enumerate(patches, start=1):
            assert patch_summary(db, attempt, patch) == version
            document = with_nulls(merged(document, exact(json.dumps(patch))))
            assert summary(db, attempt) == (document, version)

    check()


def test_a_patch_is_refused_exactly_when_its_objects_are_too_deep(db: Connection) -> None:
    numbers = count(1)

    @settings(max_examples=60, deadline=None)
    @given(PATCHES, st.integers(0, DEEPEST_OBJECT + 3), st.sampled_from([1, {}, [], [{}], SENTINEL]))
    def check(patch: Patch, depth: int, leaf: Json) -> None:
        attempt = lease(db, next(numbers))
        patch = {**patch, "deep": nested(depth, leaf)}
        if object_depth(patch) <= DEEPEST_OBJECT:
            patch_summary(db, attempt, patch)
            document = with_nulls(merged({}, exact(json.dumps(patch))))
            assert summary(db, attempt) == (document, 1)
        else:
            with pytest.raises(psycopg.Error) as refused:
                patch_summary(db, attempt, patch)
            assert refused.value.sqlstate == "ZV001"
            detail = json.loads(refused.value.diag.message_detail or "")
            assert detail["reason"] == "patch_depth_exceeded"
            assert summary(db, attempt) is None
            assert not attempt.has_stream(db)

    check()


def test_bytes_that_are_no_json_object_are_refused_and_leave_nothing(db: Connection) -> None:
    attempt = lease(db)

    def is_patch(payload: bytes) -> bool:
        try:
            return isinstance(json.loads(payload.decode("utf-8")), dict)
        except ValueError:
            return False

    @settings(max_examples=200, deadline=None)
    @given(
        st.one_of(
            st.binary(max_size=20),
            TEXTS.map(str.encode),
            VALUES.map(json.dumps).map(str.encode),
            PATCHES.map(json.dumps).map(lambda text: text[:-1].encode()),
        ).filter(lambda payload: not is_patch(payload))
    )
    @example(b"[]")
    @example(b"")
    @example(b'{"a": NaN}')
    @example(b'\xef\xbb\xbf{"a": 1}')
    @example(b'{"a": "\\ud800"}')
    @example(b'{"a": "\\u0000"}')
    def check(payload: bytes) -> None:
        with pytest.raises(psycopg.Error) as refused:
            attempt.append(db, payload, stream_mode="summary")
        assert refused.value.sqlstate == "ZV001"
        assert json.loads(refused.value.diag.message_detail or "")["field"] == "payload"

    check()
    assert not attempt.has_stream(db)


def test_every_other_payload_is_stored_byte_for_byte(db: Connection) -> None:
    attempt = lease(db)

    @settings(max_examples=100, deadline=None)
    @given(st.binary(max_size=300), st.sampled_from(["durable", "best_effort"]))
    def check(payload: bytes, mode: str) -> None:
        entry_id = attempt.append(db, payload, stream_mode=mode)["entry_id"]
        (frame,) = attempt.read(db, **{"from": entry_id, "to": entry_id})
        assert (frame["payload"], frame["mode"]) == (payload, mode)

    check()
