"""Forged, damaged, borrowed and outlived waitpoint tokens, in both functions that take one."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.attack.digest import stored_digest
from tests.conftest import Clock, RoleConnection
from tests.support.cluster import Connection
from tests.suspension.support import (
    KID,
    Waitpoint,
    call,
    install_key,
    lease,
    open_pending,
    refusal,
    single,
    suspend,
    value,
)

DELIVER, BUFFER = "ff_deliver_signal", "ff_buffer_signal_for_pending_waitpoint"


def damaged(token: str) -> Iterator[str]:
    """Everything near a token that is not the token."""
    kid, digest = token.split(":")
    for place, digit in enumerate(digest):
        yield f"{kid}:{digest[:place]}{int(digit, 16) ^ 1:x}{digest[place + 1 :]}"
    yield from (token[:length] for length in range(1, len(token)))
    yield from (token + tail for tail in ("0", " ", "\n", ":", "=", token))
    yield from (head + token for head in (" ", "\t", ":", "0", "\ufeff"))
    yield from (
        f"{kid}:{changed}" for changed in (digest.upper(), digest[::-1], "0" * 64, "f" * 64, "g" * 64)
    )
    yield from (f"{other}:{digest}" for other in ("", "KEY-1", "kid-0", kid + "\u200b", "%", "kid_1", "*"))
    yield from (f"{digest}:{kid}", f"{kid}:{kid}:{digest}", f"{kid}{digest}", f"{kid}|{digest}", "null", "'")
    # Digits of another script are digits to a careless pattern.
    yield f"{kid}:{digest.translate(str.maketrans('0123456789', '٠١٢٣٤٥٦٧٨٩'))}"


@pytest.fixture
def clock_at_1000(clock: Clock) -> Clock:
    clock.freeze(1_000)
    return clock


@pytest.fixture
def signaller(role_connection: RoleConnection) -> Connection:
    """Somebody with the narrowest role, who knows every id."""
    return role_connection("flowfabric_signaller")


@pytest.fixture
def suspended(db: Connection, clock_at_1000: Clock) -> Waitpoint:
    install_key(db)
    (waitpoint,) = suspend(db, lease(db, 1), single())
    return waitpoint


@pytest.fixture
def pending(db: Connection, suspended: Waitpoint) -> Waitpoint:
    return open_pending(db, lease(db, 2), "wpk:pending")


def deliver(connection: Connection, function: str, waitpoint: Waitpoint, token: str) -> str:
    """The code with which a token is refused."""
    address = {**waitpoint.address, "waitpoint_token": token}
    return refusal(connection, function, **address, signal_name="approved")


@pytest.mark.parametrize("function", [DELIVER, BUFFER])
def test_nothing_near_a_token_is_accepted(
    function: str, db: Connection, signaller: Connection, suspended: Waitpoint, pending: Waitpoint
) -> None:
    waitpoint = suspended if function == DELIVER else pending
    before = stored_digest(db)
    forgeries = list(damaged(waitpoint.waitpoint_token))
    assert waitpoint.waitpoint_token not in forgeries
    assert {deliver(signaller, function, waitpoint, forgery) for forgery in forgeries} == {"invalid_token"}
    assert deliver(signaller, function, waitpoint, "") == "missing_token"
    assert stored_digest(db) == before
    # The token itself is good: what was refused above was refused for what was wrong with it.
    assert call(signaller, function, **waitpoint.address, signal_name="approved")["outcome"] == "accepted"


def test_a_token_cannot_be_borrowed(signaller: Connection, suspended: Waitpoint, pending: Waitpoint) -> None:
    assert deliver(signaller, DELIVER, suspended, pending.waitpoint_token) == "invalid_token"
    assert deliver(signaller, BUFFER, pending, suspended.waitpoint_token) == "invalid_token"


def test_a_replayed_delivery_has_no_second_effect(
    db: Connection, signaller: Connection, pending: Waitpoint
) -> None:
    again = {**pending.address, "signal_name": "approved", "idempotency_key": "once"}
    first = call(signaller, BUFFER, **again)
    before = stored_digest(db)
    assert call(signaller, BUFFER, **again) == {**first, "outcome": "duplicate", "effect": None}
    assert stored_digest(db) == before


def test_a_token_lives_as_long_as_the_grace_of_its_key(
    db: Connection, clock_at_1000: Clock, signaller: Connection, pending: Waitpoint
) -> None:
    install_key(db, "kid-2", grace_ms=500)
    clock_at_1000.freeze(1_500)
    call(signaller, BUFFER, **pending.address, signal_name="at the last instant")
    clock_at_1000.freeze(1_501)
    assert deliver(signaller, BUFFER, pending, pending.waitpoint_token) == "token_expired"
    # Under the name of the key that signs now, the old digest is worth nothing.
    renamed = pending.waitpoint_token.replace(KID, "kid-2")
    assert deliver(signaller, BUFFER, pending, renamed) == "invalid_token"


def test_the_comparison_tells_nothing_by_its_length(db: Connection) -> None:
    source = value(db, "select prosrc from pg_proc where proname = '_ff_verify_waitpoint_token'")
    assert isinstance(source, str)
    code = re.sub(r"--[^\n]*", "", source)
    # The expected digest is compared once, and then as a hash under a salt that is drawn for the call.
    uses = [line.strip() for line in code.splitlines() if "v_expected" in line]
    assert len(uses) == 3  # declared, computed, compared
    assert uses[-1] == "or sha256(v_salt || decode(v_hex, 'hex')) <> sha256(v_salt || v_expected)"
    assert "v_salt bytea := uuid_send(gen_random_uuid());" in code
