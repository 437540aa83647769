"""What a frame costs does not depend on how many there are, nor on when the plans were made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import pytest

from tests.stream.support import Attempt, lease
from tests.support.cluster import Connection

FRAMES = 20_000
STREAMS = 500


@dataclass
class Cost:
    """How often tables were read from end to end, and how many frames were fetched."""

    sequential_scans: int
    frames_fetched: int


def counted(connection: Connection) -> Cost:
    """What the server has counted for this session and not yet handed over to the common statistics."""
    row = connection.execute(
        """select sum(t.seq_scan)::integer,
                  sum(t.idx_tup_fetch) filter (where t.relname = 'ff_stream_frame')::integer
           from pg_stat_xact_user_tables as t
           where t.relname in ('ff_stream_meta', 'ff_stream_frame', 'ff_stream_summary', 'ff_exec_core')"""
    ).fetchone()
    assert row is not None
    return Cost(*row)


def cost_of(connection: Connection, act: Callable[[], object]) -> Cost:
    """Run something in a transaction of its own, within which the counts only grow."""
    with connection.transaction():
        before = counted(connection)
        act()
        after = counted(connection)
    return Cost(
        after.sequential_scans - before.sequential_scans, after.frames_fetched - before.frames_fetched
    )


@pytest.fixture
def attempt(db: Connection) -> Attempt:
    """An attempt with a long stream among many; the plans were made when there were a handful of frames."""
    attempt = lease(db)
    for _ in range(3):
        attempt.append(db)
    db.execute("analyze flowfabric.ff_stream_meta, flowfabric.ff_stream_frame, flowfabric.ff_exec_core")
    for _ in range(10):
        attempt.append(db, b"{}", stream_mode="summary")
        attempt.append(db, stream_mode="best_effort", ttl_ms=1_000)
        attempt.append(db, retention_maxlen=5)
        attempt.read(db, after="0-0")
    db.execute(
        f"""insert into flowfabric.ff_stream_meta (
                partition_key, execution_id, attempt_index, created_at_ms, retained_count)
            select 86, gen_random_uuid(), 0, 0, 40 from generate_series(1, {STREAMS});
            insert into flowfabric.ff_stream_frame (
                partition_key, execution_id, attempt_index, ts_ms, seq, frame_type, frame_ts_ms, payload,
                encoding, source, mode)
            select m.partition_key, m.execution_id, 0, f.i, 0, 'x', 0, 'x', 'utf8', 'worker', 'durable'
            from flowfabric.ff_stream_meta as m, generate_series(
                1, case when m.execution_id = '{attempt.uuid}' then {FRAMES} else 40 end) as f (i)"""
    )
    return attempt


def test_an_append_fetches_no_frame(db: Connection, attempt: Attempt) -> None:
    for mode in ("durable", "best_effort"):
        cost = cost_of(db, partial(attempt.append, db, stream_mode=mode))
        assert cost == Cost(sequential_scans=0, frames_fetched=0)


def test_a_trim_fetches_what_it_deletes(db: Connection, attempt: Attempt) -> None:
    attempt.append(db)
    (length,) = db.execute(
        "select retained_count from flowfabric.ff_stream_status(%s, 0)", [attempt.execution_id]
    ).fetchone() or (0,)
    cost = cost_of(db, lambda: attempt.append(db, retention_maxlen=length - 2))
    assert cost == Cost(sequential_scans=0, frames_fetched=3)


def test_a_tailer_fetches_what_is_new(db: Connection, attempt: Attempt) -> None:
    after = attempt.append(db)["entry_id"]
    attempt.append(db)
    cost = cost_of(db, lambda: attempt.read(db, after=after))
    assert cost == Cost(sequential_scans=0, frames_fetched=1)
    page = cost_of(db, lambda: attempt.read(db, **{"from": "10000", "count_limit": 7}))
    assert page == Cost(sequential_scans=0, frames_fetched=7)
