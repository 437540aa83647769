"""Dozens of sessions at one flow, all at once: every count is exact, and nobody ever waits in a circle."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from threading import Barrier

import psycopg
import pytest

from tests.conftest import Connect
from tests.flow.flows import (
    Row,
    SubmittedFlow,
    any_of,
    call,
    call_all,
    cancel,
    code_of,
    drain,
    quorum,
    submit,
)
from tests.support.cluster import Connection
from tests.support.concurrency import in_background

Ask = Callable[[Connection], object]

#: How a call is refused because somebody else was faster; anything else, a deadlock above all, is a failure.
OVERTAKEN = frozenset(
    {
        "execution_not_active",
        "execution_not_eligible",
        "execution_not_in_eligible_set",
        "execution_not_leaseable",
        "execution_not_terminal",
        "flow_already_terminal",
        "grant_already_exists",
        "lease_conflict",
        "max_replays_exhausted",
        "completion_dispatch_pending",
        # Cancelled, replayed and claimed again by others between this session's claim and its end.
        "stale_lease",
    }
)


def all_at_once(connect: Connect, asks: Sequence[Ask]) -> Counter[str]:
    """Run each in a session of its own, started together; count how they were refused."""
    barrier = Barrier(len(asks))
    sessions = [connect() for _ in asks]

    def run(session: Connection, ask: Ask) -> None:
        barrier.wait(timeout=60)
        ask(session)

    running = [in_background(partial(run, session, ask)) for session, ask in zip(sessions, asks, strict=True)]
    refusals: Counter[str] = Counter()
    for call_in_progress in running:
        try:
            call_in_progress.result(deadline_s=120)
        except psycopg.Error as error:
            refusals[code_of(error)] += 1
    return refusals


def test_fifty_upstreams_that_finish_at_once_are_all_counted(db: Connection, connect: Connect) -> None:
    names = [f"up{n}" for n in range(50)]
    flow = submit(db, [*names, "child"], [(name, "child") for name in names])
    held = [flow.claim(db, name) for name in names]
    refusals = all_at_once(
        connect, [partial(call, function="ff_complete_execution", **fence) for fence in held]
    )
    assert refusals == {}
    assert flow.joins(db)["child"] == (50, 50, 0, 0, "satisfied")
    assert flow.states(db)["child"] == "waiting"
    child = call(db, "ff_describe_execution", execution_id=flow.ids["child"])
    (join,) = call_all(db, "ff_list_flow_edge_groups", flow_id=flow.flow_id)
    assert child["last_transition_at_ms"] == join["satisfied_at_ms"], "it was let go once, by the last one"
    flow.assert_sound(db)


@pytest.mark.parametrize("k", [1, 7])
def test_of_forty_upstreams_that_finish_at_once_exactly_as_many_win_as_are_needed(
    k: int, db: Connection, connect: Connect
) -> None:
    names = [f"up{n}" for n in range(40)]
    flow = submit(
        db, [*names, "child"], [(name, "child") for name in names], {"child": quorum(k, "cancel_remaining")}
    )
    held = [flow.claim(db, name) for name in names]
    refusals = all_at_once(
        connect, [partial(call, function="ff_complete_execution", **fence) for fence in held]
    )
    assert refusals == {"execution_not_active": 40 - k}
    states = Counter(flow.states(db).values())
    assert states == {"completed": k, "cancelled": 40 - k, "waiting": 1}
    assert flow.joins(db)["child"] == (40, k, 40 - k, 0, "satisfied")
    flow.assert_sound(db)


def lattice(chance: random.Random) -> tuple[list[str], list[tuple[str, str]], dict[str, Row]]:
    """Layers in which every member waits for some of the layer above, by every kind of join."""
    layers = [[f"n{layer}-{place}" for place in range(12)] for layer in range(6)]
    edges: list[tuple[str, str]] = []
    joins: dict[str, Row] = {}
    for above, layer in pairwise(layers):
        for name in layer:
            upstreams = chance.sample(above, chance.randint(1, 4))
            edges += [(upstream, name) for upstream in upstreams]
            on_satisfied = chance.choice(["cancel_remaining", "let_run"])
            kind = chance.choice(["all_of", "any_of", "quorum"])
            if kind == "any_of":
                joins[name] = any_of(on_satisfied)
            elif kind == "quorum":
                joins[name] = quorum(chance.randint(1, len(upstreams)), on_satisfied)
    return [name for layer in layers for name in layer], edges, joins


def wreak_havoc(flow: SubmittedFlow, chance: random.Random, rounds: int) -> Ask:
    """End, cancel, expire and replay members at random, and run the scanners in between."""
    names = list(flow.ids)
    script = [(chance.random(), chance.choice(names)) for _ in range(rounds)]

    def act(session: Connection, what: float, name: str) -> None:
        if what < 0.55:
            flow.end(session, name, "success")
        elif what < 0.75:
            flow.end(session, name, "failed")
        elif what < 0.80:
            flow.end(session, name, "cancelled")
        elif what < 0.83:
            flow.end(session, name, "expired")
        elif what < 0.90:
            call(session, "ff_replay_execution", execution_id=flow.ids[name], force=True)
        elif what < 0.97:
            call_all(session, "ff_dispatch_dependencies", limit=5)
        else:
            call_all(session, "ff_dispatch_sibling_cancels", limit=5)

    def run(session: Connection) -> None:
        for what, name in script:
            try:
                act(session, what, name)
            except psycopg.Error as error:
                if code_of(error) not in OVERTAKEN:
                    raise

    return run


@pytest.mark.parametrize(
    "limits",
    [{}, {"max_sync_edges": 2, "max_sync_cancels": 1, "max_sync_depth": 1}],
    ids=["inline", "deferred"],
)
def test_forty_sessions_in_a_random_graph_never_deadlock_and_lose_nothing(
    limits: dict[str, int], db: Connection, connect: Connect
) -> None:
    chance = random.Random(5)
    for name, value in limits.items():
        call(db, "ff_set_setting", name=name, value=value)
    flow = submit(db, *lattice(chance))
    refusals = all_at_once(connect, [wreak_havoc(flow, random.Random(seed), rounds=20) for seed in range(40)])
    assert refusals == {}
    drain(db)
    flow.assert_sound(db)
    ended = {name for name, state in flow.states(db).items() if state not in ("waiting", "waiting_children")}
    assert len(ended) > len(flow.ids) / 2, "the sessions have done something"


def test_a_flow_that_is_cancelled_in_the_middle_of_it_all_ends_for_everybody(
    db: Connection, connect: Connect
) -> None:
    chance = random.Random(6)
    flow = submit(db, *lattice(chance))

    cancel_flow = partial(
        call,
        function="ff_cancel_flow",
        flow_id=flow.flow_id,
        reason="stop",
        cancellation_policy="cancel_all",
        sync_limit=20,
    )

    def end_some(session: Connection, seed: int) -> None:
        mine = random.Random(seed)
        for name in mine.sample(list(flow.ids), 15):
            try:
                flow.end(session, name, mine.choice(["success", "failed"]))
            except psycopg.Error as error:
                if code_of(error) not in OVERTAKEN:
                    raise

    others = [partial(end_some, seed=seed) for seed in range(30)]
    assert all_at_once(connect, [cancel_flow, *others]) == {}
    while call(db, "ff_drain_cancel_backlog", flow_id=flow.flow_id, limit=20)["remaining"]:
        pass
    drain(db)
    assert set(flow.states(db).values()) <= {"completed", "failed", "cancelled", "skipped"}
    flow.assert_sound(db)


def test_batches_over_several_flows_in_opposite_order_never_deadlock(
    db: Connection, connect: Connect
) -> None:
    flows = [
        submit(db, "abcd", [("a", "d"), ("b", "d"), ("c", "d")], {"d": any_of("cancel_remaining")})
        for _ in range(6)
    ]
    held = [[flow.claim(db, name) for name in "abc"] for flow in flows]

    def complete(session: Connection, fences: list[Row]) -> None:
        call_all(
            session,
            "ff_complete_executions",
            **{f"{field}s": [fence[field] for fence in fences] for field in fences[0]},
        )

    batches = [[fences[place] for fences in held] for place in range(3)]
    batches[1].reverse()
    random.Random(7).shuffle(batches[2])
    refusals = all_at_once(connect, [partial(complete, fences=fences) for fences in batches])
    assert refusals == {}
    for flow in flows:
        assert Counter(flow.states(db).values()) == {"completed": 1, "cancelled": 2, "waiting": 1}
        flow.assert_sound(db)


def test_members_that_are_cancelled_one_by_one_and_with_their_flow_are_cancelled_once(
    db: Connection, connect: Connect
) -> None:
    names = [f"n{place}" for place in range(30)]
    flow = submit(db, names, [(names[0], name) for name in names[1:]])
    cancel_flow = partial(
        call,
        function="ff_cancel_flow",
        flow_id=flow.flow_id,
        reason="stop",
        cancellation_policy="cancel_all",
    )
    others = [partial(cancel, execution_id=flow.ids[name]) for name in names]
    refusals = all_at_once(connect, [cancel_flow, *others])
    assert set(refusals) <= {"execution_not_active"}
    drain(db)
    assert set(flow.states(db).values()) <= {"cancelled", "skipped"}
    row = db.execute(
        "select count(*), count(distinct execution_id) from flowfabric.ff_completion_event"
    ).fetchone()
    assert row == (30, 30), "each has ended once"
    flow.assert_sound(db)
