"""The handle and its byte form."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowfabric_client.errors import CorruptValueError, HandleFromOtherBackendError
from flowfabric_client.handle import Handle
from flowfabric_client.rows import Reclaim

VECTOR = bytes.fromhex(
    "0201022c0000007b66703a34327d3a35353065383430302d653239622d343164342d613731362d34343636353534343030"
    "3030030000002400000031313131313131312d313131312d313131312d313131312d313131313131313131313131240000"
    "0032323232323232322d323232322d323232322d323232322d323232323232323232323232070000000000000030750000"
    "000000000700000064656661756c7408000000776f726b65722d31"
)
HANDLE = Handle(
    execution_id="{fp:42}:550e8400-e29b-41d4-a716-446655440000",
    attempt_index=3,
    attempt_id=UUID("1" * 32),
    lease_id=UUID("2" * 32),
    lease_epoch=7,
    lease_ttl_ms=30000,
    lane_id="default",
    worker_instance_id="worker-1",
    kind="fresh",
)


def test_the_byte_form_is_the_specified_vector() -> None:
    assert HANDLE.to_bytes() == VECTOR
    assert Handle.from_bytes(VECTOR) == HANDLE


def test_the_fence_is_lease_epoch_and_attempt() -> None:
    assert HANDLE.fence == (HANDLE.lease_id, 7, HANDLE.attempt_id)
    assert HANDLE.arguments() == {
        "execution_id": HANDLE.execution_id,
        "lease_id": HANDLE.lease_id,
        "lease_epoch": 7,
        "attempt_id": HANDLE.attempt_id,
    }


@pytest.mark.parametrize("length", range(len(VECTOR)))
def test_a_shortened_handle_is_corrupt(length: int) -> None:
    with pytest.raises(CorruptValueError):
        Handle.from_bytes(VECTOR[:length])


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (VECTOR + b"\0", "trailing_bytes"),
        (b"\3" + VECTOR[1:], "unknown_format"),
        (b"\2\2" + VECTOR[2:], "unknown_format"),
        (b"\2\1\4" + VECTOR[3:], "unknown_backend"),
        (VECTOR.replace(b"{fp:42}", b"{fp:4x}"), "bad_id"),
        (VECTOR.replace(b"1111-1111", b"1111-111g"), "bad_id"),
        (VECTOR[:-1] + b"\xff", "bad_utf8"),
    ],
)
def test_a_damaged_handle_is_corrupt(data: bytes, reason: str) -> None:
    with pytest.raises(CorruptValueError) as refused:
        Handle.from_bytes(data)
    assert refused.value.details["reason"] == reason


@pytest.mark.parametrize(
    ("data", "actual"),
    [(b"\2\1\1" + VECTOR[3:], "valkey"), (b"\2\1\3" + VECTOR[3:], "sqlite"), (b"\1" + VECTOR[3:], "valkey")],
)
def test_a_handle_of_another_backend_is_named(data: bytes, actual: str) -> None:
    with pytest.raises(HandleFromOtherBackendError) as refused:
        Handle.from_bytes(data)
    assert refused.value.details == {"expected": "postgres", "actual": actual}


@given(st.binary(max_size=300))
def test_no_bytes_break_the_reader(data: bytes) -> None:
    with pytest.raises((CorruptValueError, HandleFromOtherBackendError)):
        Handle.from_bytes(data)


def test_a_reclaim_at_its_cap_has_no_handle() -> None:
    capped = Reclaim("reclaim_cap_exceeded", HANDLE.execution_id, *(None,) * 7, "default", *(None,) * 3, 5, 5)
    with pytest.raises(ValueError, match="was not claimed"):
        Handle.of(capped)
