"""A consumer with its cursor in the transaction of its effects has every effect once, however it dies."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from random import Random

from tests.event.support import START, complete_one
from tests.support.cluster import REPOSITORY, Connection
from tests.support.concurrency import in_background, wait_until

KILLS = 6
EVENTS = 400


def count(connection: Connection, table: str) -> int:
    row = connection.execute(f"select count(*) from {table}").fetchone()
    assert row is not None
    return int(row[0])


def start_consumer(dsn: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "tests.event.consumer", dsn], cwd=REPOSITORY)


def has_grown(connection: Connection, before: int) -> Callable[[], bool]:
    return lambda: count(connection, "effect") > before


def test_a_killed_consumer_misses_nothing_and_repeats_nothing(
    db: Connection, database: str, connect: Callable[[], Connection]
) -> None:
    # No unique constraint: an event that was dealt with twice must show.
    db.execute(f"""create table effect (event_id bigint, execution_id text);
                   create table progress as select '{START}'::text as cursor""")
    producer = connect()
    producing = in_background(lambda: [complete_one(producer) for _ in range(EVENTS)])
    dice = Random(7)
    for _ in range(KILLS):
        before = count(db, "effect")
        consumer = start_consumer(database)
        try:
            wait_until(has_grown(db, before), "the consumer went on")
            time.sleep(dice.uniform(0, 0.03))
        finally:
            consumer.kill()
            consumer.wait()
    produced = producing.result()
    assert count(db, "effect") < EVENTS, "the kills came while there was work"

    consumer = start_consumer(database)
    try:
        wait_until(lambda: count(db, "effect") >= EVENTS, "the consumer came to the end")
    finally:
        consumer.kill()
        consumer.wait()
    effects = db.execute("select execution_id from effect order by event_id").fetchall()
    assert [execution_id for (execution_id,) in effects] == produced

    stored, reported = db.execute(
        """select p.cursor, l.consumers -> 0 ->> 'cursor'
           from progress as p, flowfabric.ff_event_lag('completion') as l"""
    ).fetchone() or ("", "")
    assert stored == reported, "the engine's own registry was kept in the same transactions"
