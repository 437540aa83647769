"""Floors that move, work that becomes eligible, creations that commit late and claims, interleaved at random.

Each actor has a connection of its own and leaves its transaction open for as long as the search likes.
Whatever is committed, eligible and held by no session is returned by the next claim that asks for enough. A
claim of one returns the best of it. It may miss only a creation that committed more than a quarter of the
recheck after its time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from itertools import count, permutations
from typing import Any

import pytest
from hypothesis import note, seed
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.claim.support import call, claim, create, names, value
from tests.conftest import Clock, Connect
from tests.model.search import SEED, note_seed, searching
from tests.support.cluster import Connection

#: claim_floor_recheck_ms by default, of which a quarter is promised.
RECHECK_MS = 1_000
START_MS = 1_000_000
ANNOUNCERS = 3
MOVERS = 2

announcers = st.integers(0, ANNOUNCERS - 1)
movers = st.integers(0, MOVERS - 1)
picks = st.integers(0, 99)
namespaces = st.sampled_from(["default", "tenant"])

FREE = """
    select flowfabric.ff_format_execution_id(partition_key, execution_id), created_at_ms
    from flowfabric.ff_exec_core
    where lane_id = %s and namespace = any (%s) and {condition}
    order by priority desc, created_at_ms, execution_id
    for no key update skip locked"""
CLAIMABLE = (
    "(eligibility_state = 'eligible_now'"
    " or eligibility_state = 'not_eligible_until_time' and delay_until_ms <= flowfabric.ff_now_ms())"
)


class World:
    """The connections of all actors to one database, and its clock."""

    def __init__(self, connect: Connect, clock: Clock) -> None:
        self.clock = clock
        self.db = connect()
        self.reader = connect(autocommit=False)
        self.announcers = [connect(autocommit=False) for _ in range(ANNOUNCERS)]
        self.movers = [connect(autocommit=False) for _ in range(MOVERS)]
        self.creator = connect(autocommit=False)
        self.stranger = connect(autocommit=False)
        self.lanes = (f"lane-{number}" for number in count(1))
        self.now_ms = START_MS
        self.winning_seed = winning_seed(self.db)
        for connection in self.all:
            # Nothing here may wait for another transaction: they end only when the search says so.
            connection.execute("set lock_timeout = '2s'")
            connection.commit()

    @property
    def all(self) -> list[Connection]:
        return [self.db, self.reader, *self.announcers, *self.movers, self.creator, self.stranger]

    def advance(self, ms: int) -> None:
        self.now_ms += ms
        self.clock.freeze(self.now_ms)


class FloorMachine(RuleBasedStateMachine):
    """One lane, which no other example has used."""

    world: World

    def __init__(self) -> None:
        super().__init__()
        note_seed()
        self.lane = next(self.world.lanes)
        #: Executions whose creation committed too late for the promise.
        self.late: set[str] = set()
        self.uncommitted: dict[str, int] = {}

    def teardown(self) -> None:
        for connection in self.world.all:
            connection.rollback()

    @initialize(old=st.integers(1, 4), young=st.integers(1, 4))
    def claim_some_and_raise_the_floors(self, old: int, young: int) -> None:
        self.world.advance(1_000_000)
        self._create(old)
        self._claim(max=100)
        self.world.advance(100_000)
        self._create(young)
        self._claim(max=1)
        for _ in range(2):
            self.world.advance(RECHECK_MS)
            call(self.world.db, "ff_scan_claim_floors")

    @rule(ms=st.sampled_from([1, 10, 100, 150, 250, 500, RECHECK_MS, 5 * RECHECK_MS]))
    def pass_time(self, ms: int) -> None:
        self.world.advance(ms)

    @rule(priority=st.integers(0, 1), namespace=namespaces)
    def create_one(self, priority: int, namespace: str) -> None:
        self._create(1, priority=priority, namespace=namespace)

    @rule(priority=st.integers(0, 1), namespace=namespaces)
    def create_without_commit(self, priority: int, namespace: str) -> None:
        (execution_id,) = create(
            self.world.creator, "late", lane_id=self.lane, priority=priority, namespace=namespace
        )
        self.uncommitted[execution_id] = self.world.now_ms

    @precondition(lambda self: self.uncommitted)
    @rule()
    def commit_creations(self) -> None:
        self.world.creator.commit()
        for execution_id, created_at_ms in self.uncommitted.items():
            if self.world.now_ms - created_at_ms > RECHECK_MS // 4:
                self.late.add(execution_id)
        self.uncommitted.clear()

    @rule(
        who=announcers, pick=picks, way=st.sampled_from(["replay", "delay", "promote"]), commits=st.booleans()
    )
    def bring_back(self, who: int, pick: int, way: str, commits: bool) -> None:
        """Make an execution that a worker holds eligible again, or due."""
        held = self._free("lifecycle_phase = 'active'")
        if not held:
            return
        connection, execution_id = self.world.announcers[who], held[pick % len(held)]
        override = {"execution_id": execution_id, "source": "operator_override"}
        if way == "replay":
            call(connection, "ff_cancel_execution", reason="stop", **override)
            call(connection, "ff_replay_execution", execution_id=execution_id, reason="again")
        else:
            call(connection, "ff_delay_execution", delay_until_ms=self.world.now_ms, **override)
            if way == "promote":
                call(connection, "ff_promote_delayed", execution_id=execution_id)
        if commits:
            connection.commit()

    @rule(
        who=announcers, pick=picks, way=st.sampled_from(["unblock", "raise", "lower"]), commits=st.booleans()
    )
    def requeue(self, who: int, pick: int, way: str, commits: bool) -> None:
        """Let one that waits leave its queue and enter it, or another one."""
        waiting = self._free("eligibility_state = 'eligible_now'")
        if not waiting:
            return
        connection, execution_id = self.world.announcers[who], waiting[pick % len(waiting)]
        if way == "unblock":
            reason = "paused_by_operator"
            call(
                connection,
                "ff_block_execution_for_admission",
                execution_id=execution_id,
                blocking_reason=reason,
            )
            call(connection, "ff_unblock_execution", execution_id=execution_id)
        else:
            priority = 1 if way == "raise" else 0
            call(connection, "ff_change_priority", execution_id=execution_id, new_priority=priority)
        if commits:
            connection.commit()

    @rule(rolls_back=st.sets(announcers))
    def end_announcements(self, rolls_back: set[int]) -> None:
        end(self.world.announcers, rolls_back)

    @rule(who=movers, waits_ms=st.sampled_from([0, 150, RECHECK_MS]), commits=st.booleans())
    def move_floors(self, who: int, waits_ms: int, commits: bool) -> None:
        self.world.advance(waits_ms)
        call(self.world.movers[who], "ff_scan_claim_floors")
        if commits:
            self.world.movers[who].commit()

    @rule(
        who=movers,
        most=st.sampled_from([1, 16]),
        waits_ms=st.sampled_from([0, 150, RECHECK_MS]),
        namespace=st.none() | namespaces,
    )
    def claim_without_commit(self, who: int, most: int, waits_ms: int, namespace: str | None) -> None:
        self.world.advance(waits_ms)
        self._claim(self.world.movers[who], max=most, namespace=namespace)

    @rule(rolls_back=st.sets(movers))
    def end_moves(self, rolls_back: set[int]) -> None:
        end(self.world.movers, rolls_back)

    @rule()
    def hold_floors(self) -> None:
        self.world.stranger.execute(
            "select from flowfabric.ff_lane_floor where lane_id = %s for no key update skip locked",
            [self.lane],
        )

    @rule()
    def let_floors_go(self) -> None:
        self.world.stranger.rollback()

    @rule(namespace=st.none() | namespaces)
    def claim_the_best(self, namespace: str | None) -> None:
        expected = self._free(CLAIMABLE, namespace)
        claimed = self._claim(max=1, namespace=namespace)
        if not expected:
            assert claimed == []
            return
        assert claimed, f"nothing is claimed although {expected} wait"
        (best,) = claimed
        passed = expected[: expected.index(best)]
        assert set(passed) <= self.late, f"{best} is claimed before {passed}"

    @rule(
        arguments=st.sampled_from([{}, {"lanes": True}, {"capabilities": ["gpu"]}]),
        namespace=st.none() | namespaces,
    )
    def claim_all(self, arguments: dict[str, Any], namespace: str | None) -> None:
        expected = self._free(CLAIMABLE, namespace)
        if "lanes" in arguments:
            arguments = {"lanes": [self.lane, "another"]}
        claimed = self._claim(max=100, namespace=namespace, **arguments)
        assert sorted(claimed) == sorted(expected)

    def _create(self, number: int, **arguments: Any) -> None:
        create(self.world.db, *("x" * number), lane_id=self.lane, **arguments)

    def _claim(self, connection: Connection | None = None, **arguments: Any) -> list[str]:
        # Every claim that finds a floor due moves one, also a claim of one.
        connection = connection or self.world.db
        connection.execute("select setseed(%s)", [self.world.winning_seed])
        rows = claim(connection, **{"lanes": [self.lane], "lease_ttl_ms": 86_400_000, **arguments})
        return [row["execution_id"] for row in rows]

    def _free(self, condition: str, namespace: str | None = None) -> list[str]:
        """Committed executions that no transaction holds, in queue order."""
        of = ["default", "tenant"] if namespace is None else [namespace]
        rows = self.world.reader.execute(FREE.format(condition=condition), [self.lane, of]).fetchall()
        self.world.reader.rollback()
        note(f"free: {rows}")
        return [execution_id for execution_id, _ in rows]


def end(connections: list[Connection], rolls_back: set[int]) -> None:
    """End the transactions of some actors."""
    for number, connection in enumerate(connections):
        if number in rolls_back:
            connection.rollback()
        else:
            connection.commit()


def winning_seed(db: Connection) -> float:
    """A seed after which the first draw decides that a claim of one moves a floor that is due."""
    for number in range(1_000):
        drawn = value(db, "select random() from (select setseed(%s)) as s", number / 1_000)
        if drawn * 16 < 1:
            return number / 1_000
    raise AssertionError("no draw wins")


def test_whatever_waits_is_returned_by_the_next_claim(connect: Connect, clock: Clock) -> None:
    world_of_all = World(connect, clock)

    @seed(SEED)
    class Machine(FloorMachine):
        world = world_of_all

    run_state_machine_as_test(Machine, settings=searching(examples=60, steps=40))


class Interleaving:
    """A late creation, an announcement and moves, in one order of their steps, on a lane of its own."""

    def __init__(self, world: World, way: str) -> None:
        self.world = world
        self.way = way
        self.lane = next(world.lanes)
        self.steps: dict[str, list[Callable[[], None]]] = {
            "a": [self.announce, world.announcers[0].commit],
            "c": [self.create, world.creator.commit],
            "n": [self.tend_the_namespace] * 5,
            "m": [
                partial(self.move, RECHECK_MS),
                world.movers[0].commit,
                partial(self.move, 150),
                world.movers[0].commit,
            ],
        }

    def run(self, order: Iterable[str]) -> list[str]:
        """Take the steps; what claims do not return although it waits."""
        db, world = self.world.db, self.world
        world.advance(1_000_000)
        create(db, "old", lane_id=self.lane, namespace="tenant")
        (held,) = claim(db, lanes=[self.lane], lease_ttl_ms=86_400_000)
        self.old = held["execution_id"]
        world.advance(100_000)
        create(db, "young", lane_id=self.lane, namespace="tenant")
        claim(db, lanes=[self.lane])
        if "n" in order:
            # It stays at the head of the queue, in front of what the namespace gets.
            create(db, "of another", lane_id=self.lane)
        for _ in range(2):
            world.advance(RECHECK_MS)
            call(db, "ff_scan_claim_floors")
        remaining = {actor: list(steps) for actor, steps in self.steps.items()}
        for actor in order:
            remaining[actor].pop(0)()
        create(db, "new", lane_id=self.lane, namespace="tenant")
        (first,) = claim(db, lanes=[self.lane], namespace="tenant" if "n" in order else None)
        rest = claim(db, lanes=[self.lane], max=9)
        found = [name for name in names([first, *rest]) if name != "of another"]
        expected = ["old", "late", "new"] if "c" in order else ["old", "new"]
        return [] if found[0] == "old" and sorted(found) == sorted(expected) else found

    def announce(self) -> None:
        connection = self.world.announcers[0]
        override = {"execution_id": self.old, "source": "operator_override"}
        if self.way == "replay":
            call(connection, "ff_cancel_execution", reason="stop", **override)
            call(connection, "ff_replay_execution", execution_id=self.old, reason="again")
        else:
            call(connection, "ff_delay_execution", delay_until_ms=self.world.now_ms, **override)

    def create(self) -> None:
        create(self.world.creator, "late", lane_id=self.lane, namespace="tenant")

    def tend_the_namespace(self) -> None:
        """What a claim for a namespace does to its floors after it has found too little."""
        self.world.advance(RECHECK_MS)
        self.world.db.execute(
            "select flowfabric._ff_tend_namespace("
            "array[%s], '{1}', 'tenant', '{}', true, flowfabric.ff_now_ms())",
            [self.lane],
        )

    def move(self, waits_ms: int) -> None:
        self.world.advance(waits_ms)
        call(self.world.movers[0], "ff_scan_claim_floors")


@pytest.mark.parametrize(
    ("way", "steps"),
    [
        ("replay", "aammmm"),
        ("delay", "aammmm"),
        ("replay", "aaccmmmm"),
        ("replay", "aannnnn"),
        ("delay", "aannnnn"),
    ],
)
def test_no_order_of_moves_announcements_and_late_commits_hides_work(
    connect: Connect, clock: Clock, way: str, steps: str
) -> None:
    world = World(connect, clock)
    hidden = {}
    for order in sorted(set(permutations(steps))):
        found = Interleaving(world, way).run(order)
        if found:
            hidden["".join(order)] = found
    assert hidden == {}
