"""The evaluator of resume conditions against a second one, on random conditions and random signals.

The engine records satisfiers as signals arrive and looks at its records. The evaluator here records nothing:
it is the meaning of a condition, asked anew of everything that has been delivered so far.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from tests.conftest import Connect
from tests.support.cluster import Connection
from tests.suspension.support import (
    Condition,
    Waitpoint,
    buffer,
    calls,
    claim,
    deliver,
    execution_id,
    install_key,
    lease,
    open_pending,
    public_state,
    refusal,
    suspend,
)

KEYS = ("a", "b", "c")
NAMES = ("x", "y")
MAX_DEPTH = 4


class Signal(NamedTuple):
    """One delivery: where, what and by whom; its place in the history is its identity."""

    key: str
    name: str
    source_type: str
    source_identity: str


# Random conditions and signals

matchers = st.sampled_from(["Wildcard", *({"ByName": name} for name in NAMES)])
never: st.SearchStrategy[Condition] = st.sampled_from(["OperatorOnly", "TimeoutOnly"])


@st.composite
def singles(draw: st.DrawFn) -> Condition:
    return {"Single": {"waitpoint_key": draw(st.sampled_from(KEYS)), "matcher": draw(matchers)}}


@st.composite
def counts(draw: st.DrawFn) -> Condition:
    kind = draw(st.sampled_from(["DistinctWaitpoints", "DistinctSignals", "DistinctSources"]))
    keys = draw(st.lists(st.sampled_from(KEYS), min_size=1, max_size=4))
    most = len(set(keys)) if kind == "DistinctWaitpoints" else 3
    body: dict[str, Any] = {
        "kind": "Count",
        "n": draw(st.integers(1, most)),
        "count_kind": kind,
        "waitpoints": keys,
    }
    matcher = draw(st.sampled_from(["absent", None]) | matchers)
    if matcher != "absent":
        body["matcher"] = matcher
    return {"Composite": body}


@st.composite
def all_ofs(draw: st.DrawFn, depth: int) -> Condition:
    members = draw(st.lists(conditions(depth + 1), min_size=1, max_size=3))
    return {"Composite": {"kind": "AllOf", "members": members}}


def conditions(depth: int = 1) -> st.SearchStrategy[Condition]:
    # One in eight leaves can never be satisfied: more would leave nothing to see.
    leaves = st.integers(0, 7).flatmap(lambda n: never if n == 0 else singles())
    if depth > MAX_DEPTH:
        return leaves
    return st.one_of(leaves, counts(), all_ofs(depth), counts())


signals = st.builds(
    Signal,
    st.sampled_from(KEYS),
    st.sampled_from([*NAMES, "z"]),
    st.sampled_from(["person", "machine"]),
    st.sampled_from(["p", "q"]),
)

# The second evaluator


def body_of(condition: Condition) -> dict[str, Any]:
    assert isinstance(condition, dict)
    (body,) = condition.values()
    assert isinstance(body, dict)
    return body


def leaves_of(condition: Condition) -> Iterator[dict[str, Any]]:
    """The Singles and Counts of a condition, depth first."""
    if isinstance(condition, str):
        return
    body = body_of(condition)
    if body.get("kind") == "AllOf":
        for member in body["members"]:
            yield from leaves_of(member)
    else:
        yield body


def keys_of(leaf: dict[str, Any]) -> list[str]:
    return leaf["waitpoints"] if "waitpoints" in leaf else [leaf["waitpoint_key"]]


def listens_to(leaf: dict[str, Any], signal: Signal) -> bool:
    return signal.key in keys_of(leaf)


def accepts(leaf: dict[str, Any], signal: Signal) -> bool:
    matcher = leaf.get("matcher")
    return listens_to(leaf, signal) and (not isinstance(matcher, dict) or matcher["ByName"] == signal.name)


def satisfiers(leaf: dict[str, Any], history: list[Signal]) -> set[object]:
    """What distinguishes the signals that a leaf has accepted."""
    heard = [(number, signal) for number, signal in enumerate(history) if accepts(leaf, signal)]
    match leaf.get("count_kind"):
        case "DistinctWaitpoints":
            return {signal.key for _, signal in heard}
        case "DistinctSignals":
            return {number for number, _ in heard}
        case "DistinctSources":
            return {(signal.source_type, signal.source_identity) for _, signal in heard}
        case _:
            return {"one"} if heard else set()


def holds(condition: Condition, history: list[Signal]) -> bool:
    if isinstance(condition, str):
        return False
    body = body_of(condition)
    if body.get("kind") == "AllOf":
        return all(holds(member, history) for member in body["members"])
    needed: int = body.get("n", 1)
    return len(satisfiers(body, history)) >= needed


def is_new(condition: Condition, history: list[Signal]) -> bool:
    """Whether the last signal of a history brought something that the ones before it had not."""
    before = history[:-1]
    return any(satisfiers(leaf, history) > satisfiers(leaf, before) for leaf in leaves_of(condition))


def effect_of(condition: Condition, history: list[Signal]) -> str:
    """What the last signal of a history does."""
    signal = history[-1]
    is_composite = isinstance(condition, dict) and "Composite" in condition
    if not any(accepts(leaf, signal) for leaf in leaves_of(condition)):
        if not is_composite:
            return "no_op"
        heard = any(listens_to(leaf, signal) for leaf in leaves_of(condition))
        return "signal_ignored_matcher_failed" if heard else "signal_ignored_not_in_condition"
    if not is_new(condition, history):
        return "appended_to_waitpoint_duplicate"
    return "resume_condition_satisfied" if holds(condition, history) else "appended_to_waitpoint"


@dataclass
class Expectation:
    """What the second evaluator has seen of one suspension."""

    condition: Condition
    history: list[Signal] = field(default_factory=list)
    matches: int = 0
    satisfier_ids: list[UUID] = field(default_factory=list)

    def hear(self, signal: Signal, signal_id: UUID) -> str:
        self.history.append(signal)
        effect = effect_of(self.condition, self.history)
        self.matches += accepts_any(self.condition, signal)
        if effect in {"appended_to_waitpoint", "resume_condition_satisfied"}:
            self.satisfier_ids.append(signal_id)
        return effect


def accepts_any(condition: Condition, signal: Signal) -> bool:
    return any(accepts(leaf, signal) for leaf in leaves_of(condition))


# The engine


def matches_counted(connection: Connection) -> int:
    row = connection.execute(
        "select coalesce(sum(matched_signal_count), 0)::integer from flowfabric.ff_waitpoint_pending"
    ).fetchone()
    assert row is not None
    return int(row[0])


def observed_ids(connection: Connection) -> list[UUID]:
    rows = calls(connection, "ff_observe_signals", execution_id=execution_id(), attempt_index=0)
    return [row["signal_id"] for row in rows]


def arguments_of(signal: Signal) -> dict[str, str]:
    return {
        "name": signal.name,
        "source_type": signal.source_type,
        "source_identity": signal.source_identity,
    }


def check_resumed(connection: Connection, expected: Expectation, waitpoint: Waitpoint) -> None:
    assert public_state(connection) == "waiting"
    assert observed_ids(connection) == expected.satisfier_ids
    with connection.transaction(force_rollback=True):
        assert refusal(connection, "ff_deliver_signal", **waitpoint.address, signal_name="late") == (
            "target_not_signalable"
        )


def suspend_and_deliver(connection: Connection, condition: Condition, sequence: list[Signal]) -> None:
    fence = lease(connection)
    waitpoints = {w.waitpoint_key: w for w in suspend(connection, fence, condition, timeout_in_ms=1000)}
    expected = Expectation(condition)
    for signal in sequence:
        if signal.key not in waitpoints:
            continue
        waitpoint = waitpoints[signal.key]
        answer = deliver(connection, waitpoint, **arguments_of(signal))
        effect = expected.hear(signal, answer["signal_id"])
        assert (answer["outcome"], answer["effect"]) == ("accepted", effect)
        assert matches_counted(connection) == expected.matches
        if effect == "resume_condition_satisfied":
            event("resumed")
            check_resumed(connection, expected, waitpoint)
            return
        assert public_state(connection) == "suspended"


def buffer_then_suspend(
    connection: Connection, condition: Condition, early: list[Signal], late: list[Signal]
) -> None:
    fence = lease(connection)
    waitpoint = open_pending(connection, fence, "a")
    expected = Expectation(condition)
    is_satisfied = False
    for signal in early:
        answer = buffer(connection, waitpoint, **arguments_of(signal))
        assert answer["effect"] == "buffered_for_pending_waitpoint"
        # What comes after the signal that satisfies the condition is not evaluated any more.
        if not is_satisfied:
            is_satisfied = expected.hear(signal, answer["signal_id"]) == "resume_condition_satisfied"
    (row,) = suspend(
        connection,
        fence,
        condition,
        waitpoint_ids=[waitpoint.waitpoint_id],
        use_pending=True,
        timeout_in_ms=1000,
    )
    assert row.waitpoint_token == waitpoint.waitpoint_token
    assert matches_counted(connection) == expected.matches
    if is_satisfied:
        event("already satisfied")
        assert public_state(connection) == "active"
        assert observed_ids(connection) == expected.satisfier_ids
        return
    for signal in late:
        answer = deliver(connection, waitpoint, **arguments_of(signal))
        effect = expected.hear(signal, answer["signal_id"])
        assert answer["effect"] == effect
        assert matches_counted(connection) == expected.matches
        if effect == "resume_condition_satisfied":
            event("resumed after buffering")
            check_resumed(connection, expected, waitpoint)
            return


@pytest.fixture
def session(connect: Connect) -> Connection:
    """A session whose examples undo each other; no commit is spent on any of them."""
    connection = connect(autocommit=False)
    install_key(connection)
    connection.commit()
    return connection


def test_the_engine_evaluates_as_the_specification_says(session: Connection) -> None:
    @settings(max_examples=100, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
    @given(condition=conditions(), sequence=st.lists(signals, min_size=1, max_size=9))
    def check(condition: Condition, sequence: list[Signal]) -> None:
        try:
            suspend_and_deliver(session, condition, sequence)
        finally:
            session.rollback()

    check()


def on_one_key(condition: Condition) -> bool:
    return all(set(keys_of(leaf)) == {"a"} for leaf in leaves_of(condition))


def test_signals_that_come_early_count_as_if_they_came_late(session: Connection) -> None:
    def on_a(condition: Condition) -> Condition:
        """The same condition with every key replaced: a pending waitpoint is the only one."""
        if isinstance(condition, str):
            return condition
        body = dict(body_of(condition))
        if body.get("kind") == "AllOf":
            body["members"] = [on_a(member) for member in body["members"]]
        elif "waitpoints" in body:
            body["waitpoints"] = ["a"]
            body["n"] = 1 if body["count_kind"] == "DistinctWaitpoints" else body["n"]
        else:
            body["waitpoint_key"] = "a"
        (tag,) = condition
        return {tag: body}

    at_a = signals.map(lambda signal: signal._replace(key="a"))

    @settings(max_examples=60, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
    @given(
        condition=conditions().map(on_a),
        early=st.lists(at_a, max_size=5),
        late=st.lists(at_a, max_size=4),
    )
    def check(condition: Condition, early: list[Signal], late: list[Signal]) -> None:
        assert on_one_key(condition)
        try:
            buffer_then_suspend(session, condition, early, late)
        finally:
            session.rollback()

    check()


def test_a_resumed_execution_starts_its_next_condition_from_nothing(session: Connection) -> None:
    condition: Condition = {
        "Composite": {
            "kind": "AllOf",
            "members": [
                {"Single": {"waitpoint_key": "a", "matcher": {"ByName": "x"}}},
                {"Single": {"waitpoint_key": "a", "matcher": {"ByName": "y"}}},
            ],
        }
    }
    (first,) = suspend(session, lease(session), condition)
    assert deliver(session, first, "x")["effect"] == "appended_to_waitpoint"
    assert deliver(session, first, "y")["effect"] == "resume_condition_satisfied"
    (second,) = suspend(session, claim(session), condition)
    assert deliver(session, second, "y")["effect"] == "appended_to_waitpoint"
    assert public_state(session) == "suspended"
