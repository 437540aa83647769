"""The engine builds HMAC-SHA-256 from `sha256` alone; Python's own implementation is the judge."""

from __future__ import annotations

import hashlib
import hmac

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.cluster import Connection
from tests.suspension.support import (
    KID,
    SECRET,
    Waitpoint,
    install_key,
    lease,
    open_pending,
    refusal,
    value,
)

HMAC = """
    select flowfabric._ff_hmac_sha256(
        flowfabric._ff_hmac_pad(%(secret)s::bytea, 54), flowfabric._ff_hmac_pad(%(secret)s::bytea, 92),
        %(message)s::bytea)"""


def test_every_digest_is_the_one_of_python(db: Connection) -> None:
    # Secrets around the block size of 64 bytes take different ways.
    secrets = st.binary(max_size=140) | st.sampled_from([b"\0" * 63, b"\0" * 64, b"\0" * 65, b""])

    @settings(max_examples=150, deadline=None, database=None)
    @given(secret=secrets, message=st.binary(max_size=300))
    def check(secret: bytes, message: bytes) -> None:
        row = db.execute(HMAC, {"secret": secret, "message": message}).fetchone()
        assert row == (hmac.new(secret, message, hashlib.sha256).digest(),)

    check()


def message_of(db: Connection, waitpoint: Waitpoint, kid: str = KID) -> str:
    created_at_ms = value(
        db,
        "select created_at_ms from flowfabric.ff_waitpoint_pending where waitpoint_id = %s",
        [waitpoint.waitpoint_id],
    )
    parts = ["v1", kid, waitpoint.execution_id, str(waitpoint.waitpoint_id), str(created_at_ms)]
    return "|".join([*parts, waitpoint.waitpoint_key])


@pytest.mark.parametrize("key", ["wpk:approval", "with|pipe", "ключ ☂ and space"])
def test_a_token_is_the_hmac_of_its_waitpoint(db: Connection, key: str) -> None:
    install_key(db)
    waitpoint = open_pending(db, lease(db), key)
    digest = hmac.new(SECRET, message_of(db, waitpoint).encode(), hashlib.sha256).hexdigest()
    assert waitpoint.waitpoint_token == f"{KID}:{digest}"


def test_a_token_signed_with_another_secret_is_refused(db: Connection) -> None:
    install_key(db)
    waitpoint = open_pending(db, lease(db), "wpk:approval")
    forged = hmac.new(b"\0" * 32, message_of(db, waitpoint).encode(), hashlib.sha256).hexdigest()
    address = waitpoint.address | {"waitpoint_token": f"{KID}:{forged}"}
    assert refusal(db, "ff_deliver_signal", **address, signal_name="x") == "invalid_token"
    # The real one gets as far as the state of the waitpoint.
    assert refusal(db, "ff_deliver_signal", **waitpoint.address, signal_name="x") == (
        "waitpoint_pending_use_buffer_script"
    )
