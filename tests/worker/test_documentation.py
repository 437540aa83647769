"""The programs of docs/worker.md run as they are printed."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from flowfabric_client import Client
from flowfabric_client.worker import Waitpoint, Worker, events
from tests.support.cluster import REPOSITORY, Connection
from tests.worker.support import create, result_of, running


class FakeTracer:
    """What the example needs of a tracer, and the spans that were made with it."""

    def __init__(self) -> None:
        self.ended: list[tuple[str, str]] = []

    def start_span(self, name: str, attributes: dict[str, str]) -> FakeSpan:
        assert attributes["flowfabric.lane"] == "default"
        return FakeSpan(self, name)


class FakeSpan:
    def __init__(self, tracer: FakeTracer, name: str) -> None:
        self._tracer = tracer
        self._name = name
        self._outcome = ""

    def set_attribute(self, name: str, value: str) -> None:
        assert name == "flowfabric.outcome"
        self._outcome = value

    def end(self) -> None:
        self._tracer.ended.append((self._name, self._outcome))


class FakeHistogram:
    def __init__(self) -> None:
        self.count = 0

    def observe(self, seconds: float) -> None:
        self.count += 1


def test_the_programs_of_the_documentation_run(
    database: str, client: Client, db: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLOWFABRIC_DSN", database)
    client.seed_waitpoint_hmac_secret("k1")
    client.create_budget("llm", "lane", "default", dimensions=["tokens"], hard_limits=[9000], soft_limits=[0])
    db.execute("create table charge (amount integer)")
    db.execute("create table approval (execution_id text, waitpoint_id uuid, token text)")
    tracer, duration = FakeTracer(), FakeHistogram()

    async def call_the_shop(waitpoint: Waitpoint) -> None:
        client.buffer_signal_for_pending_waitpoint(
            waitpoint.execution_id, waitpoint.waitpoint_id, waitpoint.token, "shipped"
        )

    async def call_the_model() -> tuple[str, int]:
        return "42", 1000

    text = (REPOSITORY / "docs" / "worker.md").read_text()
    names: dict[str, Any] = {
        "tracer": tracer,
        "duration": duration,
        "call_the_shop": call_the_shop,
        "call_the_model": call_the_model,
    }
    for program in re.findall(r"```python\n(.*?)```", text, re.S):
        exec(program, names)
    worker: Worker = names["worker"]

    with running(worker) as run:
        buying = create(client, "buy", {})
        run.wait_for(events.WasSuspended)
        ((waitpoint_id, token),) = db.execute("select waitpoint_id, token from approval").fetchall()
        client.deliver_signal(buying, waitpoint_id, token, "approved")
        ids = {
            kind: create(client, kind, payload)
            for kind, payload in {
                "send_mail": {},
                "resize_image": b"image",
                "charge": {"amount": 5},
                "order": None,
                "book": ["one", "three"],
                "ask_model": None,
            }.items()
        }
        # The two pages of the book beside these, and the buyer.
        run.wait_for(events.Completed, len(ids) + 3)
        assert run.all(events.Failed) == []
    results = {kind: result_of(client, execution_id) for kind, execution_id in ids.items()}
    assert result_of(client, buying) == b"bought"
    assert json.loads(results.pop("charge") or b"") == {"charged": 5}
    assert results == {
        "send_mail": None,
        "resize_image": b"image",
        "order": b"shipped",
        "book": b"8",
        "ask_model": b"42",
    }
    assert client.get_budget_usage("llm")[0].current_value == 1000
    assert duration.count == len(ids) + 3
    assert len(tracer.ended) == len(run.all(events.Started))
    assert tracer.ended.count(("buy", "WasSuspended")) == 1
    assert tracer.ended.count(("buy", "Completed")) == 1
