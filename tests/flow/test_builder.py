"""The builder of flows: what it writes, what it refuses, and that the engine takes it."""

from __future__ import annotations

import base64
import dataclasses
import json
from typing import Any
from uuid import UUID

import pytest

from flowfabric_client.flow import Flow
from tests.flow.flows import call_all, column
from tests.support.cluster import Connection

FLOW_ID = UUID("6ba7b810-9dad-11d1-80b4-00c04fd430c8")


def test_the_document_says_what_was_built() -> None:
    flow = (
        Flow(namespace="shop", kind="order", lane="fast", tags={"app.team": "blue"}, flow_id=FLOW_ID)
        .task("ask-a", kind="quote", payload={"vendor": "a"}, priority=3)
        .task("ask-b", kind="quote", payload=b"\x00\xff", encoding="raw")
        .any_of("choose", after=["ask-a", "ask-b"], payload_from=["ask-b"], cancel_remaining=True)
        .quorum("check", k=1, after=["ask-a", "choose"], lane="slow", policy={"max_replay_count": 1})
        .task("buy", after=["choose", "check"], delay_until_ms=5, deadline_at_ms=9, creator="alice")
    )
    assert flow.to_json() == {
        "flow_id": str(FLOW_ID),
        "flow_kind": "order",
        "namespace": "shop",
        "tags": {"app.team": "blue"},
        "defaults": {"lane_id": "fast"},
        "members": [
            {"name": "ask-a", "execution_kind": "quote", "payload": {"vendor": "a"}, "priority": 3},
            {"name": "ask-b", "execution_kind": "quote", "payload_base64": "AP8=", "payload_encoding": "raw"},
            {"name": "choose", "execution_kind": "choose"},
            {
                "name": "check",
                "execution_kind": "check",
                "lane_id": "slow",
                "policy": {"max_replay_count": 1},
            },
            {
                "name": "buy",
                "execution_kind": "buy",
                "delay_until_ms": 5,
                "execution_deadline_at_ms": 9,
                "creator_identity": "alice",
            },
        ],
        "edges": [
            {"upstream": "ask-a", "downstream": "choose"},
            {"upstream": "ask-b", "downstream": "choose", "data_passing_ref": "result"},
            {"upstream": "ask-a", "downstream": "check"},
            {"upstream": "choose", "downstream": "check"},
            {"upstream": "choose", "downstream": "buy"},
            {"upstream": "check", "downstream": "buy"},
        ],
        "joins": {
            "choose": {"kind": "any_of", "on_satisfied": "cancel_remaining"},
            "check": {"kind": "quorum", "k": 1, "on_satisfied": "let_run"},
        },
    }


def test_a_flow_is_a_value() -> None:
    start = Flow().task("a")
    longer = start.task("b", after=["a"])
    assert (start.names, longer.names) == (("a",), ("a", "b"))
    assert start.flow_id == longer.flow_id, "the flow keeps its id while it grows"
    assert Flow().flow_id != Flow().flow_id, "and every flow has its own"
    with pytest.raises(dataclasses.FrozenInstanceError):
        start.namespace = "other"  # type: ignore[misc]


def test_what_is_changed_after_it_was_given_does_not_change_the_flow() -> None:
    payload: dict[str, Any] = {"items": [1]}
    flow = Flow().task("a", payload=payload)
    payload["items"].append(2)
    flow.to_json()["members"].clear()
    assert flow.to_json()["members"] == [{"name": "a", "execution_kind": "a", "payload": {"items": [1]}}]


@pytest.mark.parametrize("payload", [None, False, 0, "", [], {"a": None}])
def test_every_json_value_can_be_a_payload(payload: object) -> None:
    (member,) = Flow().task("a", payload=payload).to_json()["members"]
    assert member["payload"] == payload


def test_without_a_payload_there_is_none() -> None:
    assert "payload" not in Flow().task("a").to_json()["members"][0]


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_bytes_go_as_they_are(kind: type) -> None:
    (member,) = Flow().task("a", payload=kind(b"\xfb\xff\x00")).to_json()["members"]
    assert base64.b64decode(member["payload_base64"]) == b"\xfb\xff\x00"


@pytest.mark.parametrize("name", ["", "a b", "-a", "ä", "a\n", "n" * 129, "a/b"])
def test_a_name_that_the_engine_would_refuse_is_refused_here(name: str) -> None:
    with pytest.raises(ValueError, match="cannot name a task"):
        Flow().task(name)


def test_mistakes_end_in_a_sentence() -> None:
    flow = Flow().task("a").task("b")
    with pytest.raises(ValueError, match=r"There is a task 'a' already\."):
        flow.task("a")
    with pytest.raises(
        ValueError, match=r"c cannot wait for 'd': no task of that name was added before it\."
    ):
        flow.task("c", after=["d"])
    with pytest.raises(ValueError, match=r"c cannot wait for 'c'"):
        flow.task("c", after=["c"])
    with pytest.raises(ValueError, match=r"c waits for the same task twice\."):
        flow.task("c", after=["a", "a"])
    with pytest.raises(ValueError, match=r"c has nothing to wait for\."):
        flow.any_of("c", after=[])
    with pytest.raises(ValueError, match=r"c: a quorum of 3 cannot be reached by 2 tasks\."):
        flow.quorum("c", k=3, after=["a", "b"])
    with pytest.raises(ValueError, match=r"c: a quorum of 0"):
        flow.quorum("c", k=0, after=["a", "b"])
    with pytest.raises(ValueError, match=r"c cannot take its payload from 'b': it does not wait for it\."):
        flow.task("c", after=["a"], payload_from=["b"])
    with pytest.raises(TypeError, match=r"c: after takes several names, as in after=\['a'\]\."):
        flow.task("c", after="a")
    with pytest.raises(TypeError, match=r"c: a task has no option 'retries'\."):
        flow.task("c", retries=3)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"c: the payload is neither bytes nor JSON: .*object"):
        flow.task("c", payload=object())
    with pytest.raises(TypeError, match=r"c: the payload is neither bytes nor JSON"):
        flow.task("c", payload=float("nan"))
    with pytest.raises(ValueError, match=r"A flow needs at least one task\."):
        Flow().to_json()


def test_the_engine_takes_what_the_builder_writes(db: Connection) -> None:
    flow = (
        Flow(flow_id=FLOW_ID)
        .task("a", kind="quote", payload={"vendor": "a"})
        .task("b", payload=b"\x00", priority=7, tags={"app.x": "y"}, policy={"max_replay_count": 1})
        .quorum("c", k=2, after=["a", "b"], payload_from=["a"])
        .any_of("d", after=["a", "c"], cancel_remaining=True, lane="slow", deadline_at_ms=4_000_000_000_000)
    )
    document = json.dumps(flow.to_json())
    rows = call_all(db, "ff_submit_flow", flow=document)
    assert [(row["name"], row["outcome"], row["public_state"]) for row in rows] == [
        ("a", "created", "waiting"),
        ("b", "created", "waiting"),
        ("c", "created", "waiting_children"),
        ("d", "created", "waiting_children"),
    ]
    assert {row["flow_id"] for row in rows} == {FLOW_ID}
    again = call_all(db, "ff_submit_flow", flow=document)
    assert {row["outcome"] for row in again} == {"already_satisfied"}, (
        "so a lost answer can be asked for again"
    )
    assert column(db, "select payload from flowfabric.ff_exec_payload where payload = '\\x00'") == [b"\x00"]
