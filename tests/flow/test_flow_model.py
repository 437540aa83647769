"""Random graphs, random policies, random ends: the engine does what the model says, in whatever order."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DataObject, DrawFn

from tests.conftest import Connect
from tests.flow.flows import OUTCOMES, SubmittedFlow, call, code_of, drain, submit
from tests.flow.model import ENDED, Graph, Join, Model, evaluate
from tests.support.cluster import Connection

#: Examples share one database; each happens in a transaction that is rolled back.
quick = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
    ],
)


@st.composite
def joins(draw: DrawFn, inputs: int, on_satisfied: tuple[str, ...]) -> Join:
    """Any join that so many upstreams can satisfy."""
    kind = draw(st.sampled_from(["all_of", "any_of", "quorum"])) if inputs else "all_of"
    if kind == "all_of":
        return Join()
    k = draw(st.integers(1, inputs)) if kind == "quorum" else None
    return Join(kind, k, draw(st.sampled_from(on_satisfied)))


@st.composite
def graphs(draw: DrawFn, on_satisfied: tuple[str, ...] = ("cancel_remaining", "let_run")) -> Graph:
    """A graph without cycles: whoever comes later may wait for any of those before."""
    members = [f"m{place}" for place in range(draw(st.integers(2, 8)))]
    upstreams = {
        name: draw(st.lists(st.sampled_from(members[:place]), unique=True, max_size=4)) if place else []
        for place, name in enumerate(members)
    }
    policies = {name: draw(joins(len(upstreams[name]), on_satisfied)) for name in members}
    return Graph(members, upstreams, policies)


@pytest.fixture
def engine(connect: Connect) -> Connection:
    return connect(autocommit=False)


@contextmanager
def submitted(engine: Connection, graph: Graph) -> Iterator[SubmittedFlow]:
    """The graph as a flow, until the end of the block."""
    try:
        yield submit(
            engine,
            graph.members,
            graph.edges,
            {name: join.document() for name, join in graph.joins.items() if graph.upstreams[name]},
        )
    finally:
        engine.rollback()


def refused(engine: Connection, flow: SubmittedFlow, name: str, outcome: str) -> str:
    """Try something that the model says cannot be done; return the code of the refusal."""
    try:
        with engine.transaction():
            if outcome == "replay":
                call(engine, "ff_replay_execution", execution_id=flow.ids[name])
            else:
                flow.end(engine, name, outcome)
    except psycopg.Error as error:
        return code_of(error)
    return pytest.fail(f"{outcome} of {name} was not refused")


def assert_equal(engine: Connection, flow: SubmittedFlow, model: Model) -> None:
    assert flow.states(engine) == model.states
    assert flow.joins(engine) == {name: verdict.numbers() for name, verdict in model.verdicts.items()}
    words = {"open": "unsatisfied", "success": "satisfied/success"}
    assert flow.edges(engine) == {
        (up, down): words.get(outcome, f"impossible/{outcome}")
        for down, verdict in model.verdicts.items()
        for up, outcome in verdict.edges.items()
    }


@quick
@given(graph=graphs(), data=st.data())
def test_after_every_event_the_engine_is_where_the_model_is(
    engine: Connection, graph: Graph, data: DataObject
) -> None:
    with submitted(engine, graph) as flow:
        model = Model(graph, flow.ids)
        assert_equal(engine, flow, model)
        events = st.tuples(st.sampled_from(graph.members), st.sampled_from([*OUTCOMES, "replay"]))
        for name, event in data.draw(st.lists(events, min_size=1, max_size=16)):
            if event == "replay":
                if model.states[name] not in ENDED.values():
                    assert refused(engine, flow, name, event) == "execution_not_terminal"
                    continue
                call(engine, "ff_replay_execution", execution_id=flow.ids[name], force=True)
                model.replay(name)
            elif model.may(name, event):
                flow.end(engine, name, event)
                model.end(name, event)
            elif event != "expired":  # expiring what has ended is an answer, not a refusal
                refused(engine, flow, name, event)
            assert_equal(engine, flow, model)
        flow.assert_sound(engine)


@quick
@given(
    graph=graphs(on_satisfied=("let_run",)),
    plan=st.lists(st.sampled_from([*OUTCOMES, "success", "success"]), min_size=8, max_size=8),
    limits=st.tuples(st.integers(0, 3), st.integers(0, 2)),
    data=st.data(),
)
def test_in_whatever_order_members_end_and_whatever_is_deferred_the_flow_ends_the_same(
    engine: Connection, graph: Graph, plan: list[str], limits: tuple[int, int], data: DataObject
) -> None:
    outcomes = dict(zip(graph.members, plan, strict=False))
    with submitted(engine, graph) as flow:
        for name, value in zip(("max_sync_edges", "max_sync_depth"), limits, strict=True):
            call(engine, "ff_set_setting", name=name, value=value)
        while ready := sorted(name for name, state in flow.states(engine).items() if state == "waiting"):
            name = data.draw(st.sampled_from(ready))
            flow.end(engine, name, outcomes[name])
            if data.draw(st.booleans()) or ready == [name]:
                drain(engine)
        assert flow.states(engine) == evaluate(graph, outcomes)
        flow.assert_sound(engine)


@quick
@given(graph=graphs(), data=st.data())
def test_a_flow_whose_losses_are_all_replayed_and_succeed_ends_in_success(
    engine: Connection, graph: Graph, data: DataObject
) -> None:
    """Replaying a sub-graph that failed works in any order."""
    with submitted(engine, graph) as flow:
        while ready := sorted(name for name, state in flow.states(engine).items() if state == "waiting"):
            name = data.draw(st.sampled_from(ready))
            flow.end(engine, name, data.draw(st.sampled_from(["success", "failed"])))
        lost = sorted(name for name, state in flow.states(engine).items() if state != "completed")
        for name in data.draw(st.permutations(lost)):
            call(engine, "ff_replay_execution", execution_id=flow.ids[name])
        # What a join cancels now is not lost: another of its upstreams has succeeded.
        while ready := sorted(name for name, state in flow.states(engine).items() if state == "waiting"):
            flow.end(engine, data.draw(st.sampled_from(ready)), "success")
        waiting = [name for name, state in flow.states(engine).items() if state == "waiting_children"]
        assert waiting == []
        model = evaluate(graph, dict.fromkeys(graph.members, "success"))
        assert set(model.values()) == {"completed"}
        if all(join.on_satisfied != "cancel_remaining" for join in graph.joins.values()):
            assert flow.states(engine) == model
        flow.assert_sound(engine)
