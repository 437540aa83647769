"""Tokens and keys at rest and in answers: nowhere but where they belong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql

from tests.conftest import Connect, RoleConnection
from tests.support.cluster import Connection
from tests.suspension.support import (
    SECRET,
    Waitpoint,
    buffer,
    call,
    calls,
    claim,
    count,
    deliver,
    execution_id,
    install_key,
    lease,
    open_pending,
    suspend,
    value,
)


def a_life_with_tokens(db: Connection) -> list[str]:
    """Hand out tokens in every way there is, and use them; return their digests."""
    install_key(db)
    fence = lease(db)
    early = open_pending(db, fence, "a")
    buffer(db, early, payload=b"hello", idempotency_key="early")
    (active,) = suspend(
        db,
        fence,
        count(3, "DistinctSignals", ["a"]),
        waitpoint_ids=[early.waitpoint_id],
        use_pending=True,
        idempotency_key="pause",
    )
    deliver(db, active, idempotency_key="second")
    read = calls(db, "ff_read_waitpoint_token", execution_id=execution_id(), waitpoint_id=active.waitpoint_id)
    install_key(db, "kid-2")
    deliver(db, active)
    (fresh,) = suspend(db, claim(db), count(1, "DistinctSources", ["b"]), idempotency_key="again")
    tokens = {early.waitpoint_token, active.waitpoint_token, fresh.waitpoint_token}
    tokens |= {row["waitpoint_token"] for row in read}
    return [token.partition(":")[2] for token in tokens]


def test_no_table_holds_a_token_or_a_secret(db: Connection) -> None:
    digests = a_life_with_tokens(db)
    assert len(digests) == 2
    # What may be seen of a token is its fingerprint, so the rest is what must not be found.
    needles = [needle for digest in digests for needle in (digest[16:], digest)] + [SECRET.hex()]
    tables = db.execute(
        """
        select c.relname from pg_class as c
        where c.relnamespace = 'flowfabric'::regnamespace and c.relkind = 'r'
        """
    ).fetchall()
    searched = 0
    for (table,) in tables:
        rows = db.execute(
            sql.SQL("select t::text from {} as t").format(sql.Identifier("flowfabric", table))
        ).fetchall()
        searched += len(rows)
        for (row,) in rows:
            assert not [needle for needle in needles if needle in row], table
    assert searched > 20


def test_the_pads_are_in_the_key_store_and_nowhere_else(db: Connection) -> None:
    a_life_with_tokens(db)
    pad = bytes(byte ^ 0x36 for byte in SECRET.ljust(64, b"\0"))
    assert value(db, "select inner_pad from flowfabric.ff_waitpoint_hmac limit 1") == pad
    for role in ("producer", "worker", "signaller", "operator", "reader", "admin"):
        assert (
            value(
                db,
                "select has_any_column_privilege(%s, 'flowfabric.ff_waitpoint_hmac', 'select')",
                [f"flowfabric_{role}"],
            )
            is False
        )


@pytest.mark.parametrize("role", ["producer", "worker", "signaller", "operator", "reader", "admin"])
def test_no_role_reads_a_key_or_signs(role: str, db: Connection, role_connection: RoleConnection) -> None:
    install_key(db)
    session = role_connection(f"flowfabric_{role}")
    for statement in (
        "select inner_pad from flowfabric.ff_waitpoint_hmac",
        "select h::text from flowfabric.ff_waitpoint_hmac as h",
        "select flowfabric._ff_current_hmac('x')",
        "select flowfabric._ff_hmac_sha256('a', 'b', 'c')",
        "select flowfabric._ff_install_hmac('mine', 'secret', 0)",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            session.execute(statement.encode())


def test_no_refusal_repeats_a_token_or_a_secret(connect: Connect) -> None:
    db = connect()
    install_key(db)
    (waitpoint,) = suspend(db, lease(db), count(9, "DistinctSignals", ["a"]))
    kid, _, digest = waitpoint.waitpoint_token.partition(":")
    wrong = f"{kid}:{digest[::-1]}"
    secret = "cd" * 40

    def at(**changes: Any) -> dict[str, Any]:
        return {**waitpoint.address, "signal_name": "x", **changes}

    attempts: list[Callable[[], object]] = [
        lambda: call(db, "ff_deliver_signal", **at(waitpoint_token=wrong)),
        lambda: call(db, "ff_deliver_signal", **at(waitpoint_token=digest)),
        lambda: call(db, "ff_deliver_signal", **at(waitpoint_id=uuid4())),
        lambda: call(db, "ff_deliver_signal", **at(signal_name="")),
        lambda: call(db, "ff_deliver_signal", **at(payload=b"x" * 65_537)),
        lambda: call(db, "ff_deliver_signal", **at(execution_id=execution_id(9))),
        lambda: call(db, "ff_buffer_signal_for_pending_waitpoint", **at()),
        lambda: call(db, "ff_rotate_waitpoint_hmac_secret", new_kid=kid, new_secret_hex=secret),
        lambda: call(db, "ff_rotate_waitpoint_hmac_secret", new_kid="a:b", new_secret_hex=secret),
        lambda: call(db, "ff_rotate_waitpoint_hmac_secret", new_kid="b", new_secret_hex=secret + "x"),
        lambda: call(db, "ff_rotate_waitpoint_hmac_secret", new_kid="b", new_secret_hex=secret, grace_ms=-1),
        lambda: call(db, "ff_seed_waitpoint_hmac_secret", kid="b", secret_hex=secret),
        lambda: call(db, "ff_seed_waitpoint_hmac_secret", kid="b", secret_hex=secret[:64]),
    ]
    for attempt in attempts:
        with pytest.raises(psycopg.Error) as refused:
            attempt()
        diag = refused.value.diag
        told = " ".join(
            filter(None, [str(refused.value), diag.message_detail, diag.message_hint, diag.context])
        )
        for needle in (digest, digest[::-1], secret[:64], SECRET.hex()):
            assert needle not in told


def test_the_token_of_a_lost_waitpoint_cannot_be_found_by_its_fingerprint(db: Connection) -> None:
    install_key(db)
    waitpoint = open_pending(db, lease(db), "a")
    (listed,) = calls(db, "ff_list_pending_waitpoints", execution_id=execution_id())
    guess = f"{listed['token_kid']}:{listed['token_fingerprint']}{'0' * 48}"
    assert waitpoint.waitpoint_token.startswith(f"{listed['token_kid']}:{listed['token_fingerprint']}")
    with pytest.raises(psycopg.Error, match="invalid_token"):
        buffer(db, Waitpoint(waitpoint.execution_id, waitpoint.waitpoint_id, "a", guess))
