"""Frames and summaries that handlers write."""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric_client import Client
from flowfabric_client.errors import TransportError
from flowfabric_client.worker import Context, LeaseLost, Worker, events
from tests.worker.flavours import Flavour
from tests.worker.support import FAST, create, last_attempt, lose_an_answer, result_of, running


def frames(
    client: Client, execution_id: str
) -> list[tuple[str | None, bytes | None, str | None, str | None]]:
    """Type, bytes, encoding and mode of what is in the stream of the first attempt."""
    found = client.read_attempt_stream(execution_id, 0)
    return [
        (row.frame_type, row.payload, row.encoding, row.mode) for row in found if row.entry_id is not None
    ]


def test_frames_are_appended_in_the_form_of_their_value(
    database: str, client: Client, flavour: Flavour
) -> None:
    worker = Worker(database, **FAST)

    @worker.handler("work")
    @flavour
    async def work(ctx: Context) -> list[int]:
        await ctx.stream("käse")
        await ctx.stream(b"\x00\xff")
        await ctx.stream({"a": [1, None]})
        await ctx.stream(None)
        await ctx.stream("token", frame_type="delta", mode="best_effort", ttl_ms=1000)
        versions = [await ctx.summary({"done": 1, "of": 3}), await ctx.summary({"done": 2, "of": None})]
        return versions

    execution_id = create(client, "work")
    with running(worker) as run:
        run.wait_for(events.Completed)
    assert frames(client, execution_id) == [
        ("text", "käse".encode(), "text", "durable"),
        ("binary", b"\x00\xff", "binary", "durable"),
        ("json", b'{"a": [1, null]}', "json", "durable"),
        ("json", b"null", "json", "durable"),
        ("delta", b"token", "text", "best_effort"),
        ("summary", b'{"done": 1, "of": 3}', "json", "summary"),
        ("summary", b'{"done": 2, "of": null}', "json", "summary"),
    ]
    summary = client.read_summary(execution_id, 0)
    assert summary is not None
    assert summary.document_json == {"done": 2}
    assert result_of(client, execution_id) == b"[1, 2]"


def test_a_stale_worker_appends_nothing(database: str, client: Client, flavour: Flavour) -> None:
    worker = Worker(database, **FAST)
    codes: list[str] = []

    @worker.handler("work")
    @flavour
    async def work(ctx: Context) -> None:
        await ctx.stream("mine")
        client.cancel_execution(ctx.execution_id, "not wanted", source="operator_override")
        try:
            await ctx.stream("too late")
        except LeaseLost as error:
            codes.append(error.code)
            raise

    execution_id = create(client, "work")
    with running(worker) as run:
        run.wait_for(events.LeaseWasLost)
        assert run.all(events.Failed) == []
    assert codes == ["stream_closed"]
    assert [frame[1] for frame in frames(client, execution_id)] == [b"mine"]


@pytest.mark.parametrize("value", [object(), {"nan": float("nan")}])
def test_a_value_that_cannot_be_stored_fails_for_good(database: str, client: Client, value: Any) -> None:
    worker = Worker(database, **FAST)

    @worker.handler("work")
    async def work(ctx: Context) -> None:
        await ctx.stream(value)

    execution_id = create(client, "work")
    with running(worker) as run:
        run.wait_for(events.Failed)
    attempt = last_attempt(client, execution_id)
    assert attempt.failure_category == "permanent"
    assert (attempt.failure_reason or "").startswith("unserialisable_value: ")


def test_a_frame_whose_answer_was_lost_can_be_told_from_another(
    database: str, client: Client, monkeypatch: pytest.MonkeyPatch, flavour: Flavour
) -> None:
    lose_an_answer(monkeypatch, flavour.client, "append_frame")
    worker = Worker(database, **FAST)

    @worker.handler("work")
    @flavour
    async def work(ctx: Context) -> None:
        await ctx.stream("one")
        await ctx.stream("two")

    execution_id = create(client, "work")
    with running(worker) as run:
        run.wait_for(events.Completed)
    found = client.read_attempt_stream(execution_id, 0)
    assert [frame.payload for frame in found] == [b"one", b"one", b"two"]
    first, again, other = (frame.correlation_id for frame in found)
    assert first == again != other


def test_a_best_effort_frame_is_dropped_while_the_database_is_away(
    database: str, client: Client, monkeypatch: pytest.MonkeyPatch, flavour: Flavour
) -> None:
    def away(*_: Any, **__: Any) -> Any:
        raise TransportError("the database is away")

    monkeypatch.setattr(flavour.client, "append_frame", away)
    worker = Worker(database, **FAST)

    @worker.handler("work")
    @flavour
    async def work(ctx: Context) -> str:
        await ctx.stream("perhaps", mode="best_effort")
        return "went on"

    execution_id = create(client, "work")
    with running(worker) as run:
        run.wait_for(events.Completed)
    assert frames(client, execution_id) == []
    assert result_of(client, execution_id) == b"went on"


def test_a_frame_can_be_written_while_a_transaction_is_open(
    database: str, client: Client, flavour: Flavour
) -> None:
    worker = Worker(database, concurrency=1, **FAST)

    @worker.handler("work")
    @flavour
    async def work(ctx: Context) -> None:
        async with ctx.transaction() as tx:
            await tx.connection.execute("select 1")
            await ctx.stream("inside")

    execution_id = create(client, "work")
    with running(worker) as run:
        run.wait_for(events.Completed)
    assert [frame[1] for frame in frames(client, execution_id)] == [b"inside"]
