"""A stored position belongs to the role that stored it first: no other reader can take events from it."""

from __future__ import annotations

import json

import psycopg
import pytest
from psycopg import IsolationLevel, sql

from tests.conftest import Connect, RoleConnection
from tests.event.support import START, complete_one, read_events
from tests.support.cluster import Connection
from tests.support.concurrency import in_background, wait_until_blocked
from tests.support.engine import Row, call

END = "v1:32767:18446744073709551615:9223372036854775807"


def commit(connection: Connection, cursor: str, consumer: str = "billing") -> str:
    arguments = {"consumer": consumer, "stream": "completion", "cursor": cursor}
    return str(call(connection, "ff_commit_event_cursor", **arguments)["outcome"])


def tail(connection: Connection) -> str:
    return str(read_events(connection, "completion", START)[1]["cursor"])


def consumers(connection: Connection) -> list[Row]:
    return list(call(connection, "ff_event_lag", stream="completion")["consumers"])


def refusal(error: psycopg.Error) -> Row:
    return dict(json.loads(error.diag.message_detail or "{}"))


@pytest.fixture
def consumer(role_connection: RoleConnection) -> Connection:
    return role_connection("flowfabric_reader")


@pytest.fixture
def stranger(role_connection: RoleConnection) -> Connection:
    return role_connection("flowfabric_reader")


def test_a_reader_cannot_push_the_cursor_of_another_one(
    db: Connection, consumer: Connection, stranger: Connection, role_connection: RoleConnection
) -> None:
    first = complete_one(db)
    (event,), position = read_events(consumer, "completion", START)
    assert commit(consumer, event["cursor"]) == "stored"
    missed = complete_one(db)
    for cursor, code in ((END, "invalid_offset"), (tail(stranger), "unauthorized"), (START, "unauthorized")):
        with pytest.raises(psycopg.Error) as refused:
            commit(stranger, cursor)
        assert refusal(refused.value)["code"] == code
    (stored,) = consumers(stranger)
    assert (stored["cursor"], stored["owner"]) == (event["cursor"], consumer.info.user)
    events, _ = read_events(consumer, "completion", stored["cursor"])
    assert [row["execution_id"] for row in events] == [missed] != [first]
    assert commit(consumer, position["cursor"]) == "stored"

    # An operator puts right what went wrong before, and leaves a trace.
    operator = role_connection("flowfabric_operator")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        call(stranger, "ff_set_event_cursor", consumer="billing", stream="completion", cursor=START)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        call(stranger, "ff_delete_event_cursor", consumer="billing", stream="completion")
    moved = call(operator, "ff_set_event_cursor", consumer="billing", stream="completion", cursor=START)
    assert moved == {"outcome": "set"}
    deleted = call(operator, "ff_delete_event_cursor", consumer="billing", stream="completion")
    assert deleted == {"outcome": "deleted"}
    trace, _ = read_events(stranger, "operator", START)
    assert [event["event_type"] for event in trace] == ["event_cursor_set", "event_cursor_deleted"]
    assert {event["details"]["login"] for event in trace} == {operator.info.user}
    assert commit(stranger, START) == "stored", "the name is free again"


def test_nobody_can_store_a_position_that_is_not_reached(db: Connection, consumer: Connection) -> None:
    complete_one(db)
    reached = tail(consumer)
    with pytest.raises(psycopg.Error) as refused:
        commit(consumer, END)
    assert refused.value.sqlstate == "ZV016"
    assert consumers(consumer) == []
    assert commit(consumer, reached) == "stored"


def test_the_owner_is_the_role_that_was_set(
    db: Connection, consumer: Connection, stranger: Connection, role_connection: RoleConnection
) -> None:
    """Behind a pooler many applications share a login and choose a role of their own."""
    pooled = role_connection("flowfabric_reader", autocommit=False)
    mine, theirs = consumer.info.user, stranger.info.user
    for role in (mine, theirs):
        db.execute(sql.SQL("grant {} to {}").format(sql.Identifier(role), sql.Identifier(pooled.info.user)))
    pooled.execute(sql.SQL("set local role {}").format(sql.Identifier(mine)))
    assert commit(pooled, START) == "stored"
    pooled.commit()
    assert commit(consumer, START) == "stored"
    with pytest.raises(psycopg.Error, match="unauthorized"):
        commit(stranger, START)
    pooled.execute(sql.SQL("set local role {}").format(sql.Identifier(theirs)))
    with pytest.raises(psycopg.Error, match="unauthorized"):
        commit(pooled, START)
    pooled.rollback()
    # Without a role of its own the login has the privileges of both.
    assert commit(pooled, START) == "stored"
    pooled.commit()
    assert consumers(db)[0]["owner"] == mine


def test_of_two_roles_that_take_a_name_at_once_one_gets_it(
    db: Connection, consumer: Connection, role_connection: RoleConnection
) -> None:
    first = role_connection("flowfabric_reader", autocommit=False)
    assert commit(first, START) == "stored"
    waiting = in_background(lambda: commit(consumer, START))
    wait_until_blocked(db, consumer, by=first)
    first.commit()
    with pytest.raises(psycopg.Error, match="unauthorized"):
        waiting.result()
    assert consumers(db)[0]["owner"] == first.info.user


@pytest.mark.parametrize("level", [IsolationLevel.REPEATABLE_READ, IsolationLevel.SERIALIZABLE])
def test_a_transaction_that_is_older_than_the_cursor_begins_again(
    db: Connection, connect: Connect, level: IsolationLevel
) -> None:
    """It cannot tell a position that another session has reached from one that no session has."""
    old = connect(autocommit=False)
    old.isolation_level = level
    old.execute("select 1")
    complete_one(db)
    reached = tail(db)
    with pytest.raises(psycopg.errors.SerializationFailure):
        commit(old, reached)
    old.rollback()
    assert commit(old, reached) == "stored"
