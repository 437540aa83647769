"""A worker beside strangers whose open transactions hold rows that its work needs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

import pytest

from flowfabric_client import AsyncClient, Client
from flowfabric_client.errors import InvalidInputError
from flowfabric_client.worker import Context, SyncContext, Worker, events
from flowfabric_client.worker.batches import LARGEST_BATCH
from flowfabric_client.worker.reporting import Reporter
from tests.conftest import Connect
from tests.support.cluster import Connection
from tests.support.concurrency import wait_until
from tests.worker.support import (
    FAST,
    create,
    describe,
    lock_waiter,
    lose_an_answer,
    running,
    wait_for_state,
)

BUDGET, QUOTA = "tokens", "calls"


class Target:
    """A handler whose execution a stranger gets hold of before it ends."""

    def __init__(self) -> None:
        self.may_end = threading.Event()
        self.fences: dict[str, dict[str, Any]] = {}
        self.fails = False

    def __call__(self, ctx: SyncContext) -> str:
        self.fences[ctx.execution_id] = {**ctx.handle.arguments()}
        self.may_end.wait(20)
        if self.fails:
            raise RuntimeError("no luck")
        return "done"


class Scene:
    """What a stranger may lock: a member of a flow that runs, its flow, a member that waits, limits."""

    def __init__(self, client: Client, target: Target) -> None:
        self.client = client
        self.target = target
        self.flow_id = uuid4()
        client.create_budget(BUDGET, "lane", "default", dimensions=["t"], hard_limits=[1000], soft_limits=[0])
        client.create_quota_policy(QUOTA, 60, 0, 100)
        client.seed_waitpoint_hmac_secret("k1")
        members = client.submit_flow(
            {
                "flow_id": str(self.flow_id),
                "namespace": "default",
                "defaults": {"lane_id": "default", "execution_kind": "target"},
                "members": [{"name": "member"}, {"name": "child", "execution_kind": "work"}],
                "edges": [{"upstream": "member", "downstream": "child"}],
            }
        )
        ids = {member.name: member.execution_id for member in members}
        self.member, self.child = ids["member"], ids["child"]
        policy = {"quota_policy_id": QUOTA}
        self.alone = create(client, "target", policy=policy)
        self.waiting = create(client, "elsewhere", lane_id="elsewhere", policy=policy)

    @property
    def executions(self) -> list[str]:
        return [self.member, self.alone]

    def prepare(self) -> None:
        """Give the running executions a reservation."""
        for execution_id in self.executions:
            self.client.reserve_budget(BUDGET, ["t"], [5], **self.target.fences[execution_id])


Stranger = Callable[[Client, Scene], Any]


def buffer_signal(stranger: Client, scene: Scene) -> None:
    for execution_id in scene.executions:
        waitpoint = scene.client.create_pending_waitpoint(
            **scene.target.fences[execution_id], waitpoint_key="k", expires_in_ms=60_000
        )
        stranger.buffer_signal_for_pending_waitpoint(
            execution_id, waitpoint.waitpoint_id, waitpoint.waitpoint_token, "go"
        )


def each(call: Callable[[Client, str], Any]) -> Stranger:
    def lock(stranger: Client, scene: Scene) -> None:
        for execution_id in scene.executions:
            call(stranger, execution_id)

    return lock


# What each stranger does, and whether it holds an execution that runs, so that its outcome has to wait.
STRANGERS: dict[str, tuple[Stranger, bool]] = {
    "tags": (each(lambda s, e: s.set_execution_tags(e, {"app.a": "b"})), False),
    "instance tag": (each(lambda s, e: s.set_execution_tags(e, {"ff.instance_id": "b"})), True),
    "flow tags": (lambda s, scene: s.set_flow_tags(scene.flow_id, {"app.a": "b"}), False),
    "signal": (buffer_signal, True),
    "progress": (
        lambda s, scene: [
            s.update_progress(**scene.target.fences[execution_id], progress_pct=1)
            for execution_id in scene.executions
        ],
        True,
    ),
    "frame": (
        lambda s, scene: [
            s.append_frame(**scene.target.fences[execution_id], attempt_index=0, frame_type="text")
            for execution_id in scene.executions
        ],
        True,
    ),
    "usage": (
        lambda s, _: s.report_usage_and_check(BUDGET, ["t"], [1], source="operator_override"),
        True,
    ),
    "spend": (
        lambda s, scene: s.record_spend(BUDGET, ["t"], [1], scene.waiting, source="operator_override"),
        True,
    ),
    "reservation": (
        lambda s, scene: s.reserve_budget(BUDGET, ["t"], [1], **scene.target.fences[scene.alone]),
        True,
    ),
    "quota": (lambda s, scene: s.check_admission_and_record(QUOTA, scene.alone), True),
    "quota of another": (lambda s, scene: s.check_admission_and_record(QUOTA, scene.waiting), False),
    "join a flow": (
        lambda s, scene: s.add_execution_to_flow(
            scene.flow_id,
            s.create_execution(
                "work", lane_id="elsewhere", execution_id=scene.member[:-36] + str(uuid4())
            ).execution_id,
        ),
        True,
    ),
    "child": (lambda s, scene: lock_rows(s, scene.child), True),
    "priority": (lambda s, scene: s.change_priority(scene.waiting, 7), False),
}
# Of these the end is a rollback: what they do would take the work away.
ROLLED_BACK: dict[str, tuple[Stranger, bool]] = {
    "complete": (
        lambda s, scene: [s.complete_execution(**fence) for fence in scene.target.fences.values()],
        True,
    ),
    "cancel": (each(lambda s, e: s.cancel_execution(e, "stop", source="operator_override")), True),
    "cancel the flow": (lambda s, scene: s.cancel_flow(scene.flow_id, "stop", "cancel_all"), True),
    "revoke": (each(lambda s, e: s.revoke_lease(e, reason="stop")), True),
    "expire": (each(lambda s, e: s.expire_execution(e)), True),
}


def lock_rows(stranger: Client | Connection, *execution_ids: str) -> None:
    connection = stranger.connection if isinstance(stranger, Client) else stranger
    connection.execute(
        "select from flowfabric.ff_exec_core where execution_id = any (%s) for no key update",
        [[UUID(execution_id[-36:]) for execution_id in execution_ids]],
    )


def attempts(client: Client, *execution_ids: str) -> list[int]:
    return [describe(client, execution_id).total_attempt_count for execution_id in execution_ids]


async def work(_ctx: Context) -> None:
    await asyncio.sleep(0)


# Every lock


@pytest.mark.parametrize("fails", [False, True], ids=["complete", "fail"])
@pytest.mark.parametrize("name", [*STRANGERS, *ROLLED_BACK])
def test_other_work_goes_on_and_what_is_held_ends_once_when_it_is_free(
    database: str, client: Client, connect: Connect, name: str, fails: bool
) -> None:
    lock, holds = {**STRANGERS, **ROLLED_BACK}[name]
    target = Target()
    target.fails = fails
    worker = Worker(database, concurrency=20, lease_ttl_ms=30_000, **FAST)
    worker.handler("target")(target)
    worker.handler("work")(work)
    scene = Scene(client, target)
    stranger = connect(autocommit=False)
    ended = events.Failed if fails else events.Completed
    with running(worker) as run:
        wait_until(lambda: set(target.fences) == set(scene.executions), "the targets were running")
        scene.prepare()
        lock(Client(stranger), scene)
        target.may_end.set()
        client.create_executions(["work"] * 300)
        # All of it ends while the stranger's transaction is open.
        run.wait_for(events.Completed, 300)
        if holds:
            held = set(scene.executions) - {event.execution_id for event in run.all(ended)}
            assert held, "the stranger held nothing"
        else:
            wait_until(
                lambda: set(scene.executions) <= {event.execution_id for event in run.all(ended)},
                "tags and the like kept nothing waiting",
            )
        if name in ROLLED_BACK:
            stranger.rollback()
        else:
            stranger.commit()
        wait_until(
            lambda: set(scene.executions) <= {event.execution_id for event in run.all(ended)},
            "the held executions ended",
        )
        if not fails:
            wait_for_state(client, scene.child, "completed")
        assert run.all(events.LeaseWasLost) == []
    assert attempts(client, *scene.executions) == [1, 1]
    told = [event.execution_id for event in (*run.all(events.Completed), *run.all(events.Failed))]
    assert len(told) == len(set(told))
    assert client.get_budget_usage(BUDGET)[0].reserved_value == 0
    # Whoever was admitted and not yet claimed has a slot that nothing uses.
    assert [f for f in client.check_invariants() if f.execution_id != scene.waiting] == []


def test_a_completion_inside_an_open_transaction_keeps_only_the_rest_of_its_flow_waiting(
    database: str, client: Client
) -> None:
    worker = Worker(database, concurrency=20, **FAST)
    worker.handler("work")(work)
    may_commit, is_open = threading.Event(), threading.Event()

    @worker.handler("effects")
    def effects(ctx: SyncContext) -> None:
        with ctx.transaction() as tx:
            ctx.complete_in(tx)
            is_open.set()
            may_commit.wait(20)

    members = client.submit_flow(
        {
            "flow_id": str(uuid4()),
            "namespace": "default",
            "defaults": {"lane_id": "default", "execution_kind": "work"},
            "members": [{"name": "open", "execution_kind": "effects"}, {"name": "other", "lane_id": "later"}],
        }
    )
    ids = {member.name: member.execution_id for member in members}
    later = Worker(database, lanes=["later"], **FAST)
    later.handler("work")(work)
    with running(worker) as run:
        assert is_open.wait(20)
        with running(later) as other:
            other.wait_for(events.Started)
            client.create_executions(["work"] * 100)
            run.wait_for(events.Completed, 100)
            assert other.all(events.Completed) == []
            may_commit.set()
            run.wait_for(events.Completed, 101)
            other.wait_for(events.Completed)
    assert attempts(client, *ids.values()) == [1, 1]


def test_members_of_one_flow_that_is_held_do_not_take_the_slots_of_other_work(
    database: str, client: Client, connect: Connect
) -> None:
    flow_id = uuid4()
    client.submit_flow(
        {
            "flow_id": str(flow_id),
            "namespace": "default",
            "defaults": {"lane_id": "default", "execution_kind": "work", "priority": 9},
            "members": [{"name": f"m{number}"} for number in range(50)],
        }
    )
    client.create_executions(["work"] * 50)
    stranger = connect(autocommit=False)
    stranger.execute("select from flowfabric.ff_flow_core for no key update")
    worker = Worker(database, concurrency=4, lease_ttl_ms=30_000, **FAST)
    worker.handler("work")(work)
    with running(worker) as run:
        # Members come first, have priority and are twelve times as many as there are slots.
        run.wait_for(events.Completed, 50)
        assert len(run.all(events.Claimed)) == 100
        stranger.rollback()
        run.wait_for(events.Completed, 100)
        assert run.all(events.LeaseWasLost) == []


def test_a_lease_that_ran_out_while_its_row_was_held_is_lost_and_the_work_is_done_again(
    database: str, client: Client, connect: Connect
) -> None:
    target = Target()
    worker = Worker(database, lease_ttl_ms=500, **FAST)
    worker.handler("target")(target)
    execution_id = create(client, "target")
    stranger = connect(autocommit=False)
    with running(worker) as run:
        wait_until(lambda: execution_id in target.fences, "the target was running")
        lock_rows(stranger, execution_id)
        target.may_end.set()
        wait_until(lambda: bool(client.list_expired_leases()), "the lease had run out", deadline_s=10)
        stranger.rollback()
        (lost,) = run.wait_for(events.LeaseWasLost)
        run.wait_for(events.Completed)
    # Whichever comes first: the report, or the same worker's own reclaim and perhaps its end.
    assert lost.code in {"lease_expired", "stale_lease", "execution_not_active"}
    assert attempts(client, execution_id) == [2]


def test_a_worker_drains_although_a_stranger_keeps_a_row(
    database: str, client: Client, connect: Connect
) -> None:
    target = Target()
    worker = Worker(database, lease_ttl_ms=500, **FAST)
    worker.handler("target")(target)
    execution_id = create(client, "target")
    stranger = connect(autocommit=False)
    with running(worker) as run:
        wait_until(lambda: execution_id in target.fences, "the target was running")
        lock_rows(stranger, execution_id)
        target.may_end.set()
        wait_until(lambda: bool(parked(run.worker)), "the outcome was parked")
    # The block has waited for the end of the worker.
    assert [event.code for event in run.all(events.LeaseWasLost)] == ["lease_expired"]
    stranger.rollback()
    assert describe(client, execution_id).public_state == "active"


def parked(worker: Worker) -> int:
    assert worker._running is not None
    return worker._running[1]._reporter.parked_count


# Few connections


@pytest.mark.parametrize("max_connections", [1, 2])
@pytest.mark.parametrize("fails", [False, True], ids=["complete", "fail"])
def test_one_held_row_costs_no_other_lease_however_few_connections_there_are(
    database: str, client: Client, connect: Connect, max_connections: int, fails: bool
) -> None:
    held, others = Target(), Target()
    held.fails = fails
    worker = Worker(
        database, concurrency=10, lease_ttl_ms=900, max_connections=max_connections, listen=False, **FAST
    )
    worker.handler("held")(held)
    worker.handler("other")(others)
    worker.handler("work")(work)
    held_ids = [create(client, "held") for _ in range(3)]
    other_ids = [create(client, "other") for _ in range(3)]
    stranger = connect(autocommit=False)
    with running(worker) as run:
        run.wait_for(events.Started, 6)
        lock_rows(stranger, *held_ids)
        # One is still running, two have ended: renewals and reports want the same rows.
        held.may_end.set()
        renewals = len(run.all(events.LeasesRenewed))
        client.create_executions(["work"] * 20)
        run.wait_for(events.Completed, 20)
        # Three periods are longer than a lease.
        run.wait_for(events.LeasesRenewed, renewals + 5)
        assert {event.execution_id for event in run.all(events.LeaseWasLost)} <= set(held_ids)
        others.may_end.set()
        wait_until(
            lambda: set(other_ids) <= {event.execution_id for event in run.all(events.Completed)},
            "the others completed",
        )
        stranger.rollback()
        wait_until(
            lambda: all(describe(client, held_id).terminal_outcome != "none" for held_id in held_ids),
            "the held ones ended",
        )
    assert attempts(client, *other_ids) == [1, 1, 1]


@pytest.mark.parametrize("is_known", [True, False])
def test_an_operator_who_hesitates_over_a_worker_does_not_stop_it(
    database: str, client: Client, connect: Connect, db: Connection, is_known: bool
) -> None:
    worker = Worker(
        database, instance_id="worker-1", lease_ttl_ms=600, max_connections=1, listen=False, **FAST
    )
    worker.handler("work")(work)
    operator = Client(connect(autocommit=False))
    # The first look at a server takes locks of its own.
    client.boot_check(1)
    if not is_known:
        client.register_worker("worker", "worker-1", lanes=["default"])
        operator.drain_worker("worker-1")
    with running(worker) as run:
        if is_known:
            create(client, "work")
            run.wait_for(events.Completed)
            operator.drain_worker("worker-1")
        wait_until(
            lambda: lock_waiter(db, "ff_heartbeat_worker" if is_known else "ff_register_worker"),
            "a call found the row held",
        )
        client.create_executions(["work"] * 50)
        run.wait_for(events.Completed, 50 + is_known)
        operator.connection.commit()
        assert run.wait_for(events.PausedByOperator)[0].is_paused


def test_leases_whose_rows_are_free_again_are_renewed_although_another_stays_held(
    database: str, client: Client, connect: Connect
) -> None:
    target = Target()
    worker = Worker(database, concurrency=10, lease_ttl_ms=3_000, max_connections=1, listen=False, **FAST)
    worker.handler("target")(target)
    ids = [create(client, "target") for _ in range(8)]
    first, second = connect(autocommit=False), connect(autocommit=False)
    with running(worker) as run:
        wait_until(lambda: len(target.fences) == 8, "all were running")
        acquired = {id_: describe(client, id_).lease_acquired_at_ms for id_ in ids}
        # Ids are as good as random, so some of the freed ones come after the held one in any order of locks.
        lock_rows(first, ids[0])
        lock_rows(second, *ids[1:])
        renewals = len(run.all(events.LeasesRenewed))
        run.wait_for(events.LeasesRenewed, renewals + 1)
        second.rollback()
        wait_until(
            lambda: all(describe(client, id_).lease_last_renewed_at_ms != acquired[id_] for id_ in ids[1:]),
            "those that are free were renewed",
        )
        first.rollback()
        target.may_end.set()
        run.wait_for(events.Completed, 8)
        assert run.all(events.LeaseWasLost) == []


# Many leases


def test_more_leases_than_one_call_takes_are_all_renewed(
    database: str, client: Client, db: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = threading.Event()
    send = Reporter._send

    async def slow(reporter: Reporter, *arguments: Any) -> Any:
        while not release.is_set():
            await asyncio.sleep(0.01)
        return await send(reporter, *arguments)

    monkeypatch.setattr(Reporter, "_send", slow)
    # 1000 that run, and as many that have ended and are not yet reported.
    worker = Worker(database, concurrency=1000, lease_ttl_ms=6_000, **FAST)
    ended = 0

    @worker.handler("many")
    async def many(_ctx: Context) -> None:
        nonlocal ended
        if ended < 1000:
            ended += 1
            return
        while not release.is_set():
            await asyncio.sleep(0.05)

    for _ in range(2):
        client.create_executions(["many"] * LARGEST_BATCH)
    with running(worker) as run:
        run.wait_for(events.Claimed, 2000)
        run.events.clear()
        # Three periods are as long as a lease.
        assert [event.count for event in run.wait_for(events.LeasesRenewed, 5)][-1] == 2000
        release.set()
        run.wait_for(events.Completed, 2000)
        assert run.all(events.LeaseWasLost) == []
    counts = db.execute("select distinct total_attempt_count from flowfabric.ff_exec_core").fetchall()
    assert counts == [(1,)]


@pytest.mark.parametrize("function", ["complete_executions", "fail_executions", "renew_leases"])
def test_the_largest_batch_is_that_of_the_engine(client: Client, function: str) -> None:
    def ask(count: int) -> Any:
        nothing: list[None] = [None] * count
        return getattr(client, function)(nothing, nothing, nothing, nothing)

    assert len(ask(LARGEST_BATCH)) == LARGEST_BATCH
    with pytest.raises(InvalidInputError, match="too_many_items"):
        ask(LARGEST_BATCH + 1)


def test_all_leases_of_lost_claims_are_handed_back_however_many_there_are(
    database: str, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = Worker(database, concurrency=50, instance_id="forgetful-1", lease_ttl_ms=3_600_000, **FAST)
    worker.handler("work")(work)
    for _ in range(2):
        client.create_executions(["work"] * 600)
    for _ in range(12):
        client.claim_next(["default"], "worker", "forgetful-1", max=100, lease_ttl_ms=3_600_000)
    create(client, "work")
    lose_an_answer(monkeypatch, AsyncClient, "claim_next")
    with running(worker) as run:
        run.wait_for(events.Completed, 1201)
