"""A worker at work: slots, batches, leases, wake-ups, transactions, and a database that goes away."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import suppress
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from flowfabric_client import AsyncClient, Client, rows
from flowfabric_client._call import Call
from flowfabric_client.errors import SchemaVersionMismatchError
from flowfabric_client.worker import Context, LeaseLost, SyncContext, Worker, events, runtime
from flowfabric_client.worker.calls import CallLine
from flowfabric_client.worker.reporting import Reporter
from tests.conftest import Connect
from tests.support.cluster import Cluster, Connection
from tests.support.concurrency import wait_until
from tests.worker.support import (
    FAST,
    Running,
    create,
    describe,
    last_attempt,
    lock_waiter,
    lose_an_answer,
    result_of,
    running,
)

RETRY_AT_ONCE = {"retry_policy": {"max_retries": 1, "backoff": {"type": "fixed", "delay_ms": 0}}}


class Gate:
    """A handler that ends when the test says so."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.running: list[str] = []
        self.most_at_once = 0
        self._lock = threading.Lock()

    def __call__(self, ctx: SyncContext) -> str:
        with self._lock:
            self.running.append(ctx.execution_id)
            self.most_at_once = max(self.most_at_once, len(self.running))
        self.open.wait(20)
        with self._lock:
            self.running.remove(ctx.execution_id)
        return "done"


def terminate_everybody_else(db: Connection) -> int:
    return db.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'"
    ).rowcount


# Slots and batches


def test_no_more_handlers_run_at_once_than_are_allowed(database: str, client: Client) -> None:
    worker = Worker(database, concurrency=3, max_connections=1, **FAST)
    gate = Gate()
    worker.handler("gate")(gate)
    for _ in range(8):
        create(client, "gate")
    with running(worker) as run:
        wait_until(lambda: len(gate.running) == 3, "three handlers were running")
        assert len(client.list_worker_leases(worker.instance_id)) == 3
        gate.open.set()
        run.wait_for(events.Completed, 8)
    assert gate.most_at_once == 3


def test_outcomes_that_arrive_during_a_report_go_out_together(
    database: str, client: Client, held_reports: HeldReports
) -> None:
    worker = Worker(database, **FAST)
    gate = Gate()
    worker.handler("gate")(gate)

    @worker.handler("first")
    async def first(ctx: Context) -> str:
        return "done"

    for _ in range(5):
        create(client, "gate")
    with running(worker) as run:
        run.wait_for(events.Started, 5)
        create(client, "first")
        wait_until(lambda: held_reports.count == 1, "the first report was under way")
        gate.open.set()
        wait_until(lambda: not gate.running, "the other handlers had ended")
        held_reports.release.set()
        run.wait_for(events.Completed, 6)
        sizes = [event.completions for event in run.wait_for(events.ReportSent, 2)]
    assert sizes[0] == 1
    assert sum(sizes) == 6
    assert len(sizes) <= 3


def test_two_claims_at_once_give_no_more_than_there_are_slots(
    database: str, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = AsyncClient.claim_next
    at_once = most_claims_at_once = 0

    async def counted(self: AsyncClient, *arguments: Any, **named: Any) -> Any:
        nonlocal at_once, most_claims_at_once
        at_once += 1
        most_claims_at_once = max(most_claims_at_once, at_once)
        try:
            return await claim(self, *arguments, **named)
        finally:
            at_once -= 1

    monkeypatch.setattr(AsyncClient, "claim_next", counted)
    worker = Worker(database, concurrency=350, **FAST)
    handlers = most_handlers = 0

    @worker.handler("many")
    async def many(_ctx: Context) -> None:
        nonlocal handlers, most_handlers
        handlers += 1
        most_handlers = max(most_handlers, handlers)
        await asyncio.sleep(0.02)
        handlers -= 1

    client.create_executions(["many"] * 1000)
    client.create_executions(["many"] * 1000)
    with running(worker) as run:
        run.wait_for(events.Completed, 2000)
    assert most_claims_at_once == 2
    assert 200 < most_handlers <= 350


def test_of_two_claims_at_once_one_may_fail(
    database: str, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one's answer is accepted; only what the lost answer had is handed back and done again."""
    answers = lose_an_answer(monkeypatch, AsyncClient, "claim_next", number=2)
    worker = Worker(database, concurrency=350, **FAST)

    @worker.handler("many")
    async def many(ctx: Context) -> None:
        await asyncio.sleep(0)

    client.create_executions(["many"] * 450)
    with running(worker) as run:
        run.wait_for(events.Completed, 450)
        assert [trouble.activity for trouble in run.all(events.Trouble)] == ["claiming"]
    lost, kept = ({row.execution_id for row in answer} for answer in answers[1:3])
    assert len(lost) == len(kept) == 100
    claims = [event.execution_id for event in run.all(events.Claimed)]
    assert len(claims) == len(set(claims)) == 450
    resumed = {event.execution_id for event in run.all(events.Claimed) if event.how == "resumed"}
    assert resumed == lost


def test_a_queue_that_never_runs_empty_does_not_keep_lost_work_waiting(database: str, client: Client) -> None:
    lost = create(client, "work")
    (claim,) = client.claim_next(["default"], "worker", "crashed", lease_ttl_ms=1)
    assert claim.execution_id == lost
    client.create_executions(["work"] * 50)
    worker = Worker(database, concurrency=1, **FAST)

    @worker.handler("work")
    def work(_ctx: SyncContext) -> None:
        pass

    with running(worker) as run:
        run.wait_for(events.Completed, 51)
    order = [event.execution_id for event in run.all(events.Claimed)]
    assert order.index(lost) < 50


def test_a_slot_is_free_when_its_handler_has_ended_but_outcomes_do_not_pile_up(
    database: str, client: Client, held_reports: HeldReports
) -> None:
    worker = Worker(database, concurrency=1, lease_ttl_ms=600, **FAST)
    worker.handler("work")(returns_at_once)
    for _ in range(3):
        create(client, "work")
    with running(worker) as run:
        wait_until(lambda: held_reports.count == 1, "the first report was under way")
        run.wait_for(events.Started, 2)
        # Renewals go on, every 200 ms at the earliest: time enough for a third claim.
        renewals = len(run.all(events.LeasesRenewed))
        run.wait_for(events.LeasesRenewed, renewals + 2)
        assert len(run.all(events.Claimed)) == 2
        held_reports.release.set()
        run.wait_for(events.Completed, 3)


async def returns_at_once(ctx: Context) -> None:
    pass


class HeldReports:
    """A database that takes its time over reports."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self.release = threading.Event()
        send = Reporter._send

        async def slow(reporter: Reporter, *arguments: Any) -> Any:
            self.count += 1
            while not self.release.is_set():
                await asyncio.sleep(0.005)
            return await send(reporter, *arguments)

        monkeypatch.setattr(Reporter, "_send", slow)


@pytest.fixture
def held_reports(monkeypatch: pytest.MonkeyPatch) -> HeldReports:
    return HeldReports(monkeypatch)


# Leases


def test_renewals_keep_work_alive_for_longer_than_its_lease(database: str, client: Client) -> None:
    worker = Worker(database, lease_ttl_ms=300, **FAST)
    gate = Gate()
    worker.handler("gate")(gate)
    ids = [create(client, "gate"), create(client, "gate")]
    with running(worker) as run:
        run.wait_for(events.Started, 2)
        run.events.clear()
        # Renewals happen every 100 ms at the earliest: eight of them outlast two leases.
        assert all(event.count <= 2 for event in run.wait_for(events.LeasesRenewed, 8))
        gate.open.set()
        run.wait_for(events.Completed, 2)
        assert run.all(events.LeaseWasLost) == []
    assert [describe(client, execution_id).total_attempt_count for execution_id in ids] == [1, 1]


def test_a_lease_that_is_locked_at_its_renewal_is_renewed_a_moment_later(
    database: str, client: Client, connect: Connect, db: Connection
) -> None:
    worker = Worker(database, lease_ttl_ms=3000, **FAST)
    gate = Gate()
    worker.handler("gate")(gate)
    execution_id = create(client, "gate")
    with running(worker) as run:
        run.wait_for(events.Started)
        blocker = connect(autocommit=False)
        blocker.execute("select from flowfabric.ff_exec_core for no key update")
        wait_until(lambda: lock_waiter(db, "ff_renew_lease("), "the renewal waited for the row")
        blocker.rollback()
        wait_until(
            lambda: (
                describe(client, execution_id).lease_last_renewed_at_ms
                != describe(client, execution_id).lease_acquired_at_ms
            ),
            "the lease was renewed",
        )
        gate.open.set()
        run.wait_for(events.Completed)
        assert run.all(events.LeaseWasLost) == []


def revoke(client: Client, execution_id: str) -> None:
    client.revoke_lease(execution_id, reason="test")


def test_a_handler_in_the_loop_is_unwound_when_its_lease_is_revoked(database: str, client: Client) -> None:
    worker = Worker(database, lease_ttl_ms=600, **FAST)
    unwound_by: list[BaseException] = []

    @worker.handler("work")
    async def work(ctx: Context) -> str:
        if ctx.attempt_index > 0:
            return "second"
        try:
            await asyncio.sleep(60)
        except Exception:  # lets the loss through, as any cancellation
            unwound_by.append(AssertionError("caught as an Exception"))
        except BaseException as error:
            assert ctx.cancelled()
            unwound_by.append(error)
            raise
        return "never"

    execution_id = create(client, "work")
    with running(worker) as run:
        run.wait_for(events.Started)
        revoke(client, execution_id)
        (lost,) = run.wait_for(events.LeaseWasLost)
        run.wait_for(events.Completed)
        assert run.all(events.Failed) == []
    # Whichever comes first, the next renewal or the same worker's own reclaim of the execution.
    assert lost.code in {"lease_revoked", "stale_lease"}
    assert [type(error) for error in unwound_by] == [LeaseLost]
    assert result_of(client, execution_id) == b"second"


def test_a_thread_sees_that_its_lease_was_revoked_and_its_result_is_ignored(
    database: str, client: Client
) -> None:
    worker = Worker(database, lease_ttl_ms=600, **FAST)
    codes: list[str] = []

    @worker.handler("work")
    def work(ctx: SyncContext) -> str:
        if ctx.attempt_index > 0:
            return "second"
        assert ctx.wait_cancelled(20)
        try:
            ctx.progress(50)
        except LeaseLost as error:
            codes.append(error.code)
        return "first"

    execution_id = create(client, "work")
    with running(worker) as run:
        run.wait_for(events.Started)
        revoke(client, execution_id)
        run.wait_for(events.LeaseWasLost)
        run.wait_for(events.Completed)
        assert run.all(events.Failed) == []
    assert len(codes) == 1
    assert result_of(client, execution_id) == b"second"


def test_a_handler_that_swallows_the_loss_of_its_lease_is_not_reported(database: str, client: Client) -> None:
    worker = Worker(database, lease_ttl_ms=600, **FAST)

    @worker.handler("work")
    async def work(ctx: Context) -> str:
        if ctx.attempt_index > 0:
            return "second"
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        return "first"

    execution_id = create(client, "work")
    with running(worker) as run:
        run.wait_for(events.Started)
        revoke(client, execution_id)
        run.wait_for(events.Completed)
        assert len(run.all(events.LeaseWasLost)) == 1
        assert run.all(events.Failed) == []
    assert result_of(client, execution_id) == b"second"


def test_a_cancelled_execution_is_a_lost_lease(database: str, client: Client) -> None:
    worker = Worker(database, lease_ttl_ms=600, **FAST)
    gate = Gate()
    worker.handler("gate")(gate)
    execution_id = create(client, "gate")
    with running(worker) as run:
        run.wait_for(events.Started)
        client.cancel_execution(execution_id, "not wanted", source="operator_override")
        (lost,) = run.wait_for(events.LeaseWasLost)
        gate.open.set()
    assert lost.code == "execution_not_active"
    assert describe(client, execution_id).public_state == "cancelled"


# Wake-ups


def test_an_idle_worker_is_woken_by_new_work(database: str, client: Client, db: Connection) -> None:
    # It would poll once a minute: only the notification can wake it within the deadline of `wait_for`.
    worker = Worker(database, lanes=["mail"], poll_interval_ms=60_000, run_ticks=False)
    with running(worker) as run:
        wait_until(lambda: is_listening(db, worker), "the worker listened")
        run.wait_for(events.Idle)
        create(client, "unknown", lane_id="mail")
        run.wait_for(events.Failed)
        # The first may have been found by the look that follows the beginning of listening.
        run.wait_for(events.Idle, 2)
        create(client, "unknown", lane_id="mail")
        run.wait_for(events.Failed, 2)


def test_one_empty_look_follows_the_claim_of_a_worker_that_is_known_to_wait(
    database: str, client: Client, db: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[str] = []
    claim_next, answer_call = AsyncClient.claim_next, CallLine.claim

    async def count_look(self: AsyncClient, **arguments: Any) -> Any:
        looks.append("for all slots")
        return await claim_next(self, **arguments)

    async def count_answer(self: CallLine) -> Any:
        looks.append("for one")
        return await answer_call(self)

    monkeypatch.setattr(AsyncClient, "claim_next", count_look)
    monkeypatch.setattr(CallLine, "claim", count_answer)
    worker = Worker(database, concurrency=8, poll_interval_ms=60_000, run_ticks=False)
    with running(worker) as run:
        wait_until(lambda: is_listening(db, worker), "the worker listened")
        run.wait_for(events.Idle)
        create(client, "unknown")
        run.wait_for(events.Idle, 2)
        looks.clear()
        create(client, "unknown")
        run.wait_for(events.Idle, 3)
    # What it was called for, whether there is more, and once again a moment later.
    assert looks == ["for one", "for all slots", "for all slots"]


def test_an_idle_worker_that_seldom_polls_registers_again_before_it_is_forgotten(
    database: str, db: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "LONGEST_PAUSE_S", 1.0)
    worker = Worker(database, poll_interval_ms=60_000, run_ticks=False)
    registrations: list[int] = []

    def has_registered_again() -> bool:
        row = db.execute(
            "select until_ms, until_ms > flowfabric.ff_now_ms() from flowfabric.ff_waiter"
        ).fetchone()
        if row is not None and row[0] not in registrations:
            registrations.append(row[0])
        assert row is None or row[1], "it was forgotten"
        return len(registrations) == 3

    with running(worker):
        wait_until(has_registered_again, "the worker registered for the third time")


def is_listening(db: Connection, worker: Worker) -> bool:
    query = "select from pg_stat_activity where application_name = %s and query like 'listen%%'"
    return bool(db.execute(query, [worker.instance_id]).rowcount)


def test_a_worker_that_does_not_listen_polls(database: str, client: Client, db: Connection) -> None:
    worker = Worker(database, listen=False, **FAST)
    with running(worker) as run:
        create(client, "unknown")
        run.wait_for(events.Failed)
        assert db.execute("select from flowfabric.ff_waiter").rowcount == 0


# Effects and completion in one commit


def effects(db: Connection) -> list[str]:
    return [row[0] for row in db.execute("select what from effect order by what").fetchall()]


@pytest.fixture
def effect_table(db: Connection) -> None:
    db.execute("create table effect (what text not null)")


@pytest.mark.usefixtures("effect_table")
def test_effects_and_completion_commit_together_or_not_at_all(
    database: str, client: Client, db: Connection
) -> None:
    worker = Worker(database, **FAST)

    @worker.handler("in_the_loop")
    async def in_the_loop(ctx: Context) -> str:
        async with ctx.transaction() as tx:
            await tx.connection.execute("insert into effect values ('loop')")
            await ctx.complete_in(tx, {"attempt": ctx.attempt_index})
            if ctx.attempt_index == 0:
                raise RuntimeError("after everything")
        return "ignored"

    @worker.handler("in_a_thread")
    def in_a_thread(ctx: SyncContext) -> str:
        with ctx.transaction() as tx:
            tx.connection.execute("insert into effect values ('thread')")
            ctx.complete_in(tx, {"attempt": ctx.attempt_index})
            if ctx.attempt_index == 0:
                raise RuntimeError("after everything")
        return "ignored"

    ids = [create(client, kind, policy=RETRY_AT_ONCE) for kind in ("in_the_loop", "in_a_thread")]
    with running(worker) as run:
        run.wait_for(events.Completed, 2)
        assert [failure.reason for failure in run.all(events.Failed)] == ["after everything"] * 2
    assert effects(db) == ["loop", "thread"]
    assert [result_of(client, execution_id) for execution_id in ids] == [b'{"attempt": 1}'] * 2
    assert len(run.all(events.Completed)) == 2


@pytest.mark.usefixtures("effect_table")
def test_a_rolled_back_completion_may_be_followed_by_a_plain_one(
    database: str, client: Client, db: Connection
) -> None:
    worker = Worker(database, **FAST)

    @worker.handler("work")
    async def work(ctx: Context) -> str:
        with suppress(RuntimeError):
            async with ctx.transaction() as tx:
                await tx.connection.execute("insert into effect values ('x')")
                await ctx.complete_in(tx, "inside")
                raise RuntimeError("changed its mind")
        return "outside"

    execution_id = create(client, "work")
    with running(worker) as run:
        run.wait_for(events.Completed)
    assert effects(db) == []
    assert result_of(client, execution_id) == b"outside"


@pytest.mark.usefixtures("effect_table")
@pytest.mark.parametrize("is_committed", [True, False])
def test_completion_in_a_transaction_of_the_callers_counts_only_when_committed(
    database: str, client: Client, db: Connection, is_committed: bool
) -> None:
    worker = Worker(database, **FAST)

    @worker.handler("work")
    async def work(ctx: Context) -> None:
        connection = await psycopg.AsyncConnection.connect(database)
        await connection.execute("insert into effect values ('x')")
        await ctx.complete_in(connection, "inside")
        if is_committed:
            await connection.commit()
        await connection.close()

    execution_id = create(client, "work")
    with running(worker) as run:
        if is_committed:
            run.wait_for(events.Completed)
            assert run.all(events.Failed) == []
        else:
            (failure,) = run.wait_for(events.Failed)
            assert failure.reason == "the transaction of complete_in was not committed"
    assert effects(db) == (["x"] if is_committed else [])
    assert describe(client, execution_id).public_state == ("completed" if is_committed else "failed")


def test_a_lease_needs_no_renewal_while_its_completion_waits_for_the_commit(
    database: str, client: Client
) -> None:
    worker = Worker(database, lease_ttl_ms=300, **FAST)

    @worker.handler("work")
    async def work(ctx: Context) -> None:
        async with ctx.transaction() as tx:
            await ctx.complete_in(tx, "at last")
            await asyncio.sleep(0.8)

    execution_id = create(client, "work")
    with running(worker) as run:
        run.wait_for(events.Completed)
    assert run.all(events.LeaseWasLost) == []
    assert run.all(events.Failed) == []
    assert result_of(client, execution_id) == b"at last"


def test_a_handler_that_has_completed_cannot_time_out(database: str, client: Client) -> None:
    worker = Worker(database, **FAST)

    @worker.handler("work", timeout_s=0.3)
    async def work(ctx: Context) -> None:
        async with ctx.transaction() as tx:
            await ctx.complete_in(tx, "in time")
        await asyncio.sleep(60)

    execution_id = create(client, "work")
    with running(worker) as run:
        run.wait_for(events.Completed)
    assert run.all(events.Failed) == []
    assert run.all(events.LeaseWasLost) == []
    assert result_of(client, execution_id) == b"in time"


def test_nothing_can_be_said_after_completion(database: str, client: Client) -> None:
    worker = Worker(database, **FAST)
    refusals: list[str] = []

    @worker.handler("work")
    async def work(ctx: Context) -> None:
        async with ctx.transaction() as tx:
            await ctx.complete_in(tx)
            for call in (ctx.progress(99), ctx.complete_in(tx), ctx.delay(0)):
                try:
                    await call
                except RuntimeError as error:
                    refusals.append(str(error))

    create(client, "work")
    with running(worker) as run:
        run.wait_for(events.Completed)
    assert refusals == ["nothing more can be said of an execution after complete_in"] * 3


# A database that goes away


def test_work_ends_once_although_every_connection_is_killed(
    database: str, client: Client, db: Connection
) -> None:
    worker = Worker(database, **FAST)
    gate = Gate()
    worker.handler("gate")(gate)
    ids = [create(client, "gate") for _ in range(4)]
    with running(worker) as run:
        run.wait_for(events.Started, 4)
        assert terminate_everybody_else(db) > 0
        gate.open.set()
        run.wait_for(events.Completed, 4)
        assert run.all(events.Failed) == []
        with Client(database) as fresh:
            create(fresh, "gate")
            run.wait_for(events.Completed, 5)
            assert [describe(fresh, execution_id).total_attempt_count for execution_id in ids] == [1] * 4
    assert len(run.all(events.Completed)) == 5


def test_work_ends_once_although_the_database_was_away(
    server: Cluster, database: str, client: Client, connect: Connect
) -> None:
    worker = Worker(database, **FAST)
    gate = Gate()
    worker.handler("gate")(gate)
    execution_id = create(client, "gate")
    name = client_database(client)
    with psycopg.connect(server.dsn(), autocommit=True) as outside, running(worker) as run:
        run.wait_for(events.Started)
        outside.execute(f"alter database {name} allow_connections false")
        outside.execute("select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", [name])
        started_at = time.monotonic()
        gate.open.set()
        activities = {event.activity for event in run.wait_for(events.Trouble, 3)}
        outside.execute(f"alter database {name} allow_connections true")
        run.wait_for(events.Completed)
        took_s = time.monotonic() - started_at
        pauses_s = [event.pause_s for event in run.all(events.Trouble) if event.activity == "claiming"]
    assert activities <= {"listening", "claiming", "reporting", "renewing leases", "registering"}
    assert sum(pauses_s[:-1]) <= took_s
    with Client(database) as fresh:
        assert describe(fresh, execution_id).total_attempt_count == 1
        assert result_of(fresh, execution_id) == b"done"


def test_a_worker_that_gets_hardly_any_connections_still_works(
    server: Cluster, database: str, client: Client, db: Connection
) -> None:
    user, password = server.create_login_role("flowfabric_worker")
    db.execute(f"alter role {user} connection limit 2")
    worker = Worker(make_conninfo(database, user=user, password=password), poll_interval_ms=200)
    gate = Gate()
    gate.open.set()
    worker.handler("gate")(gate)
    for _ in range(6):
        create(client, "gate")
    with running(worker) as run:
        run.wait_for(events.Completed, 6)
        assert run.all(events.Failed) == []


def client_database(client: Client) -> str:
    with client.transaction() as tx:
        return str(tx.connection.info.dbname)


@pytest.mark.parametrize(
    ("count", "owner", "call"),
    [(1, Reporter, "_end_one"), (2, Reporter, "_other_completions")],
    ids=["alone", "in a batch"],
)
def test_a_completion_whose_answer_was_lost_is_recognised(
    database: str, client: Client, monkeypatch: pytest.MonkeyPatch, count: int, owner: type, call: str
) -> None:
    lose_an_answer(monkeypatch, owner, call)
    worker = Worker(database, **FAST)
    all_have_started = asyncio.Event()
    started: list[str] = []

    @worker.handler("together")
    async def end_together(ctx: Context) -> None:
        started.append(ctx.execution_id)
        if len(started) == count:
            all_have_started.set()
        await all_have_started.wait()

    execution_ids = [create(client, "together") for _ in range(count)]
    with running(worker) as run:
        run.wait_for(events.Completed, count)
        assert [event.activity for event in run.all(events.Trouble)] == ["reporting"]
        assert run.all(events.LeaseWasLost) == []
    for execution_id in execution_ids:
        assert describe(client, execution_id).total_attempt_count == 1


@pytest.mark.parametrize(
    ("count", "owner", "call"),
    [(1, Reporter, "_end_one"), (2, AsyncClient, "fail_executions")],
    ids=["alone", "in a batch"],
)
def test_a_failure_whose_answer_was_lost_is_recognised(
    database: str, client: Client, monkeypatch: pytest.MonkeyPatch, count: int, owner: type, call: str
) -> None:
    answers = lose_an_answer(monkeypatch, owner, call)
    worker = Worker(database, **FAST)
    all_have_started = asyncio.Event()
    started: list[str] = []

    @worker.handler("bad")
    async def bad(ctx: Context) -> None:
        started.append(ctx.execution_id)
        if len(started) == count:
            all_have_started.set()
        await all_have_started.wait()
        raise RuntimeError("no luck")

    policy = {"retry_policy": {"max_retries": 1, "backoff": {"type": "fixed", "delay_ms": 3_600_000}}}
    execution_ids = [create(client, "bad", policy=policy) for _ in range(count)]
    with running(worker) as run:
        failures = run.wait_for(events.Failed, count)
        assert run.all(events.LeaseWasLost) == []
    assert answers
    assert all(failure.will_retry for failure in failures)
    assert {describe(client, execution_id).public_state for execution_id in execution_ids} == {"delayed"}


def test_a_claim_whose_answer_was_lost_is_handed_back_and_done(
    database: str, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = Worker(database, **FAST)
    gate = Gate()
    gate.open.set()
    worker.handler("gate")(gate)
    execution_id = create(client, "gate")
    lose_an_answer(monkeypatch, AsyncClient, "claim_next")
    with running(worker) as run:
        (claimed,) = run.wait_for(events.Claimed)
        run.wait_for(events.Completed)
    assert (claimed.how, claimed.attempt_index) == ("resumed", 0)
    assert describe(client, execution_id).total_attempt_count == 1


def test_a_result_that_the_database_refuses_fails_for_good_and_spoils_no_other(
    database: str, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    send_many, send_one = Reporter._other_completions, Reporter._end_one

    async def picky(self: Reporter, client: AsyncClient, call: Call[Any]) -> Any:
        if b"poison" in call.params["results"]:
            raise ValueError("cannot be sent")
        return await send_many(self, client, call)

    async def picky_alone(self: Reporter, client: AsyncClient, call: Call[Any], wait_ms: int) -> Any:
        if call.params.get("result") == b"poison":
            raise ValueError("cannot be sent")
        return await send_one(self, client, call, wait_ms)

    monkeypatch.setattr(Reporter, "_other_completions", picky)
    monkeypatch.setattr(Reporter, "_end_one", picky_alone)
    worker = Worker(database, **FAST)

    @worker.handler("echo")
    async def echo(ctx: Context, payload: bytes) -> bytes:
        return payload

    good_id, bad_id = create(client, "echo", b"good"), create(client, "echo", b"poison")
    with running(worker) as run:
        (failure,) = run.wait_for(events.Failed)
        run.wait_for(events.Completed)
    assert failure.reason == "result_refused: cannot be sent"
    assert result_of(client, good_id) == b"good"
    assert last_attempt(client, bad_id).failure_category == "permanent"


def test_a_result_that_is_too_large_fails_for_good_and_spoils_no_other(database: str, client: Client) -> None:
    client.set_setting("max_payload_bytes", 65_536)
    worker = Worker(database, **FAST)

    @worker.handler("grow")
    async def grow(ctx: Context, payload: bytes) -> bytes:
        return b"x" * int(payload)

    good_ids = [create(client, "grow", b"65536"), create(client, "grow", b"1")]
    bad_id = create(client, "grow", b"65537")
    with running(worker) as run:
        (failure,) = run.wait_for(events.Failed)
        run.wait_for(events.Completed, 2)
    assert failure.reason.startswith("result_refused: payload_too_large")
    assert [len(result_of(client, good_id) or b"") for good_id in good_ids] == [65_536, 1]
    assert last_attempt(client, bad_id).failure_category == "permanent"


def test_a_failure_of_any_length_is_reported(database: str, client: Client) -> None:
    worker = Worker(database, **FAST)

    @worker.handler("break")
    async def fail(ctx: Context) -> None:
        raise RuntimeError("é" * 1_000_000)

    execution_id = create(client, "break")
    with running(worker) as run:
        run.wait_for(events.Failed)
    reason = last_attempt(client, execution_id).failure_reason
    assert reason is not None
    assert reason.startswith("éééé")


# Draining, rights, registration


def test_what_is_claimed_while_draining_is_handed_back(
    database: str, client: Client, connect: Connect, db: Connection
) -> None:
    worker = Worker(database, **FAST)
    worker.handler("gate")(Gate())
    client.create_quota_policy("q", 60, 10, 1)
    execution_id = create(client, "gate", policy={"quota_policy_id": "q"})
    # The one thing that a claim waits for.
    blocker = connect(autocommit=False)
    blocker.execute("select from flowfabric.ff_quota_policy for update")
    run = Running(worker)
    wait_until(lambda: lock_waiter(db, "ff_claim_next"), "a claim was under way")
    worker.stop()
    run.wait_for(events.DrainStarted)
    blocker.rollback()
    run.stop()
    assert len(run.all(events.HandedBack)) == 1
    assert run.all(events.Started) == []
    assert describe(client, execution_id).public_state == "delayed"
    assert describe(client, execution_id).total_attempt_count == 1


def test_a_worker_needs_no_right_but_that_of_workers(server: Cluster, database: str, client: Client) -> None:
    user, password = server.create_login_role("flowfabric_worker")
    worker = Worker(make_conninfo(database, user=user, password=password), poll_interval_ms=200)
    client.seed_waitpoint_hmac_secret("k1")
    client.create_budget("b", "lane", "default", dimensions=["calls"], hard_limits=[10], soft_limits=[0])

    @worker.handler("work")
    async def work(ctx: Context) -> str:
        await ctx.progress(50)
        await ctx.stream("here")
        async with ctx.reserve("b", {"calls": 1}):
            await ctx.report_usage("b", {"calls": 1})
        await ctx.open_waitpoint("question")
        await ctx.suspend("question")
        async with ctx.transaction() as tx:
            await ctx.complete_in(tx, "done")
        return "ignored"

    execution_id = create(client, "work")
    with running(worker) as run:
        run.wait_for(events.WasSuspended)
        client.resume_execution(execution_id)
        run.wait_for(events.Completed)
        wait_until(lambda: bool(client.list_workers()), "the worker was registered")
        scanned = "select from flowfabric.ff_scanner where last_run_at_ms is not null"
        with client.transaction() as tx:
            connection = tx.connection
            wait_until(lambda: bool(connection.execute(scanned).rowcount), "a scanner was run")
    assert run.all(events.Trouble) == []


def test_a_worker_that_spawns_is_a_producer_and_a_reader_too(
    server: Cluster, database: str, client: Client
) -> None:
    user, password = server.create_login_role("flowfabric_worker", "flowfabric_producer", "flowfabric_reader")
    worker = Worker(make_conninfo(database, user=user, password=password), **FAST)

    @worker.handler("child")
    async def child(ctx: Context) -> str:
        return "grown up"

    @worker.handler("parent")
    async def parent(ctx: Context) -> bytes | None:
        await ctx.spawn("child")
        return (await ctx.wait_children())[0].result

    execution_id = create(client, "parent")
    with running(worker) as run:
        run.wait_for(events.Completed, 2)
    assert result_of(client, execution_id) == b"grown up"


@pytest.mark.parametrize("prepare_statements", [None, False])
def test_statements_are_prepared_unless_that_is_forbidden(
    database: str, client: Client, prepare_statements: bool | None
) -> None:
    worker = Worker(database, prepare_statements=prepare_statements, **FAST)
    prepared = "select count(*) from pg_prepared_statements"

    @worker.handler("in_the_loop")
    async def in_the_loop(ctx: Context) -> int:
        async with ctx.transaction() as tx:
            for _ in range(10):
                await tx.now_ms()
            cursor = await tx.connection.execute(prepared)
            return int((await cursor.fetchone() or [0])[0])

    @worker.handler("in_a_thread")
    def in_a_thread(ctx: SyncContext) -> int:
        with ctx.transaction() as tx:
            for _ in range(10):
                tx.now_ms()
            return int((tx.connection.execute(prepared).fetchone() or [0])[0])

    ids = [create(client, "in_the_loop"), create(client, "in_a_thread")]
    with running(worker) as run:
        run.wait_for(events.Completed, 2)
    counts = [int(result_of(client, execution_id) or b"-1") for execution_id in ids]
    assert [count > 0 for count in counts] == [prepare_statements is not False] * 2


def test_a_database_without_flowfabric_ends_the_worker_with_an_error(empty_database: str) -> None:
    with pytest.raises(SchemaVersionMismatchError):
        asyncio.run(Worker(empty_database, **FAST).run())


def test_an_operator_pauses_and_resumes_a_worker(database: str, client: Client) -> None:
    worker = Worker(database, instance_id="paused", lease_ttl_ms=300, **FAST)
    client.register_worker("worker", "paused", lanes=["default"])
    client.drain_worker("paused")
    with running(worker) as run:
        run.wait_for(events.PausedByOperator)
        create(client, "unknown")
        client.drain_worker("paused", draining=False)
        run.wait_for(events.Failed)
    told = [event for event in run.events if isinstance(event, events.PausedByOperator | events.Claimed)]
    assert told[:2] == [events.PausedByOperator(True), events.PausedByOperator(False)]
    assert isinstance(told[2], events.Claimed)


def test_a_worker_that_was_drained_leaves_the_registry_at_once(
    database: str, client: Client, db: Connection
) -> None:
    worker = Worker(database, **FAST)
    may_end = threading.Event()

    @worker.handler("slow")
    def wait(ctx: SyncContext) -> None:
        may_end.wait(30)

    with running(worker) as run:
        create(client, "slow")
        run.wait_for(events.Started)
        wait_until(lambda: bool(client.list_workers()), "the worker was registered")
        worker.stop()
        run.wait_for(events.DrainStarted)
        assert client.list_workers(), "a worker that still runs something is known"
        may_end.set()
    assert client.list_workers() == []
    kinds = db.execute("select event_kind from flowfabric.ff_worker_registry_event order by event_id")
    assert kinds.fetchall() == [("registered",), ("deregistered",)]


# Ticking


def test_every_scanner_that_is_due_runs_once_before_any_runs_again(
    database: str, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`retention` always has more to do; `delayed` becomes due while it runs."""
    real_due = AsyncClient.due_scanners
    order: list[str] = []

    async def due(self: AsyncClient) -> list[str]:
        await real_due(self)
        return ["retention", *(["delayed"] if len(order) % 3 == 1 else [])]

    async def tick(self: AsyncClient, *, scanners: list[str]) -> list[rows.ScannerRun]:
        order.extend(scanners)
        return [rows.ScannerRun(scanners[0], "ran", 100, 0, 0, scanners[0] == "retention", 1, None)]

    monkeypatch.setattr(AsyncClient, "due_scanners", due)
    monkeypatch.setattr(AsyncClient, "tick", tick)
    worker = Worker(database, poll_interval_ms=200)
    with running(worker):
        wait_until(lambda: len(order) >= 9, "the scanners had run three times")
    assert order[:9] == ["retention", "retention", "delayed"] * 3


def test_the_next_round_comes_at_once_only_while_something_is_left(
    database: str, client: Client, db: Connection
) -> None:
    """Ended executions are deleted round by round, and a suspension times out in between."""
    client.seed_waitpoint_hmac_secret("k1")
    worker = Worker(database, poll_interval_ms=200)
    left_at_timeout: list[int] = []

    @worker.handler("asks")
    async def asks(ctx: Context) -> str:
        answer = await ctx.suspend("q", timeout_ms=300, on_timeout="resume")
        assert answer.timed_out
        row = db.execute("select count(*) from flowfabric.ff_exec_core where terminal_at_ms = 0").fetchone()
        assert row is not None
        left_at_timeout.append(row[0])
        return "done"

    for _ in range(6):
        client.create_executions(["old"] * 1000, lane_ids=["old"] * 1000)
    db.execute(
        """
        update flowfabric.ff_exec_core
        set lifecycle_phase = 'terminal', terminal_outcome = 'skipped', eligibility_state = 'not_applicable',
            blocking_reason = 'none', terminal_at_ms = 0
        """
    )
    db.execute("update flowfabric.ff_scanner set batch_limit = 5 where scanner = 'retention'")
    create(client, "asks")
    with running(worker) as run:
        run.wait_for(events.Completed)
        wait_until(
            lambda: db.execute("select from flowfabric.ff_exec_core where terminal_at_ms = 0").rowcount == 0,
            "everything old was deleted",
            deadline_s=60,
        )
    assert left_at_timeout[0] > 0
