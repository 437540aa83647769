"""Two deployments that initialise at once: every step is done once, and both are told the truth."""

from __future__ import annotations

import psycopg
import pytest

from tests.conftest import Connect
from tests.support.cluster import Connection
from tests.support.concurrency import in_background, wait_until_blocked


def initialize(connection: Connection, partitions: int = 64) -> dict[str, str]:
    steps = connection.execute(
        "select step, outcome from flowfabric.ff_initialize(%s::integer, '{default,batch}', 'kid-1', %s)",
        [partitions, "ab" * 32],
    )
    return dict(steps.fetchall())


def test_the_second_waits_and_finds_everything_there(db: Connection, connect: Connect) -> None:
    first, second = connect(autocommit=False), connect()
    assert initialize(first) == {
        "version": "already_present",
        "partitions": "applied",
        "signing_key": "applied",
        "lanes": "applied",
        "scanners": "already_present",
        "event_streams": "already_present",
    }
    waiting = in_background(lambda: initialize(second))
    wait_until_blocked(db, second, by=first)
    first.commit()
    assert set(waiting.result().values()) == {"already_present"}


def test_the_second_takes_over_when_the_first_gives_up(db: Connection, connect: Connect) -> None:
    first, second = connect(autocommit=False), connect()
    initialize(first)
    waiting = in_background(lambda: initialize(second))
    wait_until_blocked(db, second, by=first)
    first.rollback()
    steps = waiting.result()
    assert (steps["partitions"], steps["signing_key"], steps["lanes"]) == ("applied", "applied", "applied")


def test_the_second_is_refused_if_it_wants_other_partitions(db: Connection, connect: Connect) -> None:
    first, second = connect(autocommit=False), connect()
    initialize(first)
    waiting = in_background(lambda: initialize(second, partitions=128))
    wait_until_blocked(db, second, by=first)
    first.commit()
    with pytest.raises(psycopg.errors.DatabaseError, match="partition_config_mismatch"):
        waiting.result()


def test_choosing_the_partition_count_does_not_stop_creations_for_long(
    db: Connection, connect: Connect
) -> None:
    creator = connect(autocommit=False)
    creator.execute("select flowfabric.ff_create_execution('test')")
    with pytest.raises(psycopg.Error, match="retry_exhausted") as refused:
        db.execute("select flowfabric.ff_set_partition_count(8)")
    assert refused.value.sqlstate == "ZC018"
    creator.rollback()
    row = db.execute("select outcome from flowfabric.ff_set_partition_count(8)").fetchone()
    assert row == ("changed",)
