"""Tailing: the output of an execution, attempt after attempt, until its end."""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric_client import Client, Frame, Handle, errors
from tests.client.support import Follower, Kind, claimed, outage, waiters
from tests.conftest import Clock, Connect
from tests.support.cluster import Cluster, Connection
from tests.support.concurrency import wait_until

FAST: dict[str, Any] = {"poll_interval_s": 0.1}
UNKNOWN = "{fp:86}:00000000-0000-4000-8000-0000000000ff"


def write(client: Client, handle: Handle, *payloads: bytes) -> None:
    for payload in payloads:
        client.append_frame(
            attempt_index=handle.attempt_index, **handle.arguments(), frame_type="stdout", payload=payload
        )


def seen(frames: list[Frame]) -> list[tuple[int, bytes]]:
    return [(frame.attempt_index, frame.payload) for frame in frames]


def test_frames_are_delivered_until_the_execution_has_ended(
    kind: Kind, client: Client, database: str
) -> None:
    handle = claimed(client)
    write(client, handle, b"1", b"2")
    tail = Follower(kind, database, lambda c: c.tail_stream(handle.execution_id, **FAST))
    tail.wait_for(2)
    write(client, handle, b"3")
    tail.wait_for(3)
    write(client, handle, b"4")
    client.complete_execution(**handle.arguments())
    tail.end()
    assert seen(tail.items) == [(0, b"1"), (0, b"2"), (0, b"3"), (0, b"4")]
    frame = tail.items[0]
    assert (frame.frame_type, frame.mode) == ("stdout", "durable")


def test_a_tail_goes_on_with_the_next_attempt(client: Client, database: str, clock: Clock) -> None:
    handle = claimed(client, policy={"retry_policy": {"max_retries": 1}})
    write(client, handle, b"first")
    everything = Follower("sync", database, lambda c: c.tail_stream(handle.execution_id, **FAST))
    only_one = Follower(
        "sync", database, lambda c: c.tail_stream(handle.execution_id, later_attempts=False, **FAST)
    )
    everything.wait_for(1)
    only_one.wait_for(1)
    client.fail_execution(**handle.arguments(), failure_reason="broken")
    only_one.end()
    clock.advance(3_600_000)
    client.promote_due()
    retry = Handle.of(client.issue_grant_and_claim(handle.execution_id, 86_400_000))
    write(client, retry, b"second")
    client.complete_execution(**retry.arguments())
    everything.end()
    assert seen(everything.items) == [(0, b"first"), (1, b"second")]
    assert seen(only_one.items) == [(0, b"first")]


def test_a_tail_can_be_taken_up_behind_a_frame(client: Client) -> None:
    handle = claimed(client)
    write(client, handle, b"1", b"2", b"3")
    client.complete_execution(**handle.arguments())
    frames = list(client.tail_stream(handle.execution_id, page_size=2))
    assert [frame.payload for frame in frames] == [b"1", b"2", b"3"]
    rest = client.tail_stream(handle.execution_id, attempt_index=0, after=frames[0].entry_id)
    assert [frame.payload for frame in rest] == [b"2", b"3"]
    assert rest.position == frames[-1].entry_id
    with pytest.raises(ValueError, match="attempt_index"):
        client.tail_stream(handle.execution_id, after=frames[0].entry_id)


def test_what_is_there_is_read_and_no_more(client: Client) -> None:
    handle = claimed(client)
    write(client, handle, b"1")
    assert len(list(client.tail_stream(handle.execution_id, timeout_s=0))) == 1


@pytest.mark.parametrize("end", ["complete", "cancel"])
def test_an_execution_that_writes_nothing_ends_its_tail(client: Client, database: str, end: str) -> None:
    execution_id = client.create_execution("test").execution_id
    tail = Follower("sync", database, lambda c: c.tail_stream(execution_id, **FAST))
    if end == "complete":
        handle = Handle.of(client.issue_grant_and_claim(execution_id, 86_400_000))
        client.complete_execution(**handle.arguments())
    else:
        client.cancel_execution(execution_id, "", source="operator_override")
    tail.end()
    assert tail.items == []


@pytest.mark.usefixtures("no_polling")
def test_a_tail_that_waits_is_notified(kind: Kind, client: Client, database: str, db: Connection) -> None:
    handle = claimed(client)
    tail = Follower(kind, database, lambda c: c.tail_stream(handle.execution_id, poll_interval_s=300))
    wait_until(lambda: waiters(db) == 1, "the tail waited")
    write(client, handle, b"1")
    tail.wait_for(1)
    client.complete_execution(**handle.arguments())
    tail.end()
    assert waiters(db) == 0


def test_an_outage_neither_skips_nor_repeats(
    kind: Kind, server: Cluster, database: str, connect: Connect
) -> None:
    with Client(database) as client:
        handle = claimed(client)
        write(client, handle, b"1")
        tail = Follower(kind, database, lambda c: c.tail_stream(handle.execution_id, **FAST))
        tail.wait_for(1)
    with outage(server, database):
        pass
    with Client(database) as client:
        write(client, handle, b"2")
        tail.wait_for(2)
        client.complete_execution(**handle.arguments())
    tail.end()
    assert seen(tail.items) == [(0, b"1"), (0, b"2")]


def test_an_unknown_execution_has_no_tail(client: Client) -> None:
    with pytest.raises(errors.ExecutionNotFoundError):
        list(client.tail_stream(UNKNOWN))
