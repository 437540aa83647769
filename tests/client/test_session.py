"""How calls reach the database: transactions, errors, retries, lost answers."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from uuid import UUID

import psycopg
import pytest
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from flowfabric_client import AsyncClient, Client, Flow, Handle, _session, errors, rows
from flowfabric_client._call import Call
from tests.client.support import claimed
from tests.conftest import Connect
from tests.support.cluster import Connection
from tests.support.concurrency import in_background, wait_until_blocked

UNKNOWN = "{fp:86}:00000000-0000-4000-8000-0000000000ff"


def test_the_life_of_an_execution(database: str) -> None:
    with Client(database) as client:
        handle = claimed(client)
        assert handle.kind == "fresh"
        assert client.renew_lease(**handle.arguments()).lease_epoch == 1
        done = client.complete_execution(**handle.arguments(), result=b"\x00\xff", result_encoding="raw")
        assert (done.outcome, done.public_state) == ("completed", "completed")
        result = client.get_execution_result(handle.execution_id)
        assert result is not None
        assert (result.result, result.result_encoding) == (b"\x00\xff", "raw")
        snapshot = client.describe_execution(handle.execution_id)
        assert snapshot is not None
        assert snapshot.public_state == "completed"
        assert [attempt.attempt_state for attempt in client.list_attempts(handle.execution_id)] == [
            "ended_success"
        ]


def test_the_async_client_does_the_same(database: str) -> None:
    async def life() -> str | None:
        async with AsyncClient(database) as client:
            created = await client.create_execution("test", tags={"app.run": "1"})
            handle = Handle.of(await client.issue_grant_and_claim(created.execution_id, 30_000))
            async with client.transaction() as tx:
                await tx.connection.execute("create table mine (x int)")
                await tx.complete_execution(**handle.arguments())
            with pytest.raises(errors.ExecutionNotActiveError):
                await client.renew_lease(**handle.arguments())
            return await client.read_execution_state(handle.execution_id)

    assert asyncio.run(life()) == "completed"


def test_an_unknown_execution_is_none_or_an_error(database: str) -> None:
    with Client(database) as client:
        assert client.describe_execution(UNKNOWN) is None
        assert client.read_execution_state(UNKNOWN) is None
        with pytest.raises(errors.ExecutionNotFoundError) as refused:
            client.complete_execution(UNKNOWN)
    assert refused.value.details == {
        "code": "execution_not_found",
        "fn": "ff_complete_execution",
        "execution_id": UNKNOWN,
    }
    assert isinstance(refused.value.__cause__, psycopg.Error)


def test_a_callers_connection_is_neither_committed_nor_repeated(connect: Connect) -> None:
    mine, other = connect(autocommit=False), connect()
    client = Client(mine)
    execution_id = client.create_execution("test").execution_id
    assert Client(other).read_execution_state(execution_id) is None
    mine.rollback()
    assert client.read_execution_state(execution_id) is None


def test_effects_and_calls_of_a_transaction_commit_together(database: str, db: Connection) -> None:
    db.execute("create table effect (x int)")
    with Client(database) as client:
        handle = claimed(client)

        def break_off() -> None:
            with client.transaction() as tx:
                tx.connection.execute("insert into effect values (1)")
                tx.complete_execution(**handle.arguments())
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            break_off()
        assert client.read_execution_state(handle.execution_id) == "active"
        with client.transaction() as tx:
            tx.connection.execute("insert into effect values (1)")
            tx.complete_execution(**handle.arguments())
        assert client.read_execution_state(handle.execution_id) == "completed"
    assert db.execute("select count(*) from effect").fetchone() == (1,)


def test_a_refused_call_can_be_rolled_back_to_a_savepoint(database: str) -> None:
    with Client(database) as client, client.transaction() as tx:
        with pytest.raises(errors.ExecutionNotFoundError), tx.transaction():
            tx.complete_execution(UNKNOWN)
        assert tx.create_execution("test").outcome == "created"


def test_a_pool_of_the_callers_is_used_and_left_open(database: str) -> None:
    with ConnectionPool(database, min_size=1, max_size=1) as pool:
        with Client(pool) as client:
            execution_id = client.create_execution("test").execution_id
        with Client(pool) as client:
            assert client.read_execution_state(execution_id) == "waiting"


def test_a_client_on_a_pool_has_no_connection(database: str) -> None:
    with Client(database) as client, pytest.raises(RuntimeError, match="transaction"):
        _ = client.connection


def test_a_pool_without_a_server_is_exhausted() -> None:
    pool = ConnectionPool("host=/nowhere", min_size=0, max_size=1, timeout=0.2, open=True)
    with pool, pytest.raises(errors.ResourceExhaustedError):
        Client(pool).ping()


def test_a_deadlock_is_repeated_and_succeeds(
    database: str, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A real deadlock: the call waits for a row whose holder waits for the call's own session."""
    observer, holder = connect(), connect(autocommit=False)
    with ConnectionPool(database, min_size=1, max_size=1, kwargs={"autocommit": True}) as pool:
        client = Client(pool)
        execution_id = client.create_execution("test").execution_id
        # The victim is the session whose deadlock_timeout runs out first: the client's.
        with pool.connection() as connection:
            connection.execute("set deadlock_timeout = '20ms'")
            connection.execute("select pg_advisory_lock(1)")
            client_pid = connection.info.backend_pid
        holder.execute("set deadlock_timeout = '20s'")
        holder.execute("update flowfabric.ff_exec_core set priority = 1")
        waiting = in_background(lambda: holder.execute("select pg_advisory_xact_lock(1)"))
        wait_until_blocked(observer, holder, by=client_pid)
        pauses: list[float] = []

        def give_way(pause: float) -> None:
            pauses.append(pause)
            observer.execute("select pg_cancel_backend(%s)", [holder.info.backend_pid])
            with pytest.raises(psycopg.errors.QueryCanceled):
                waiting.result()
            holder.rollback()

        monkeypatch.setattr(_session, "time", SimpleNamespace(sleep=give_way))
        assert client.cancel_execution(execution_id, "", source="operator_override").outcome == "cancelled"
    assert pauses == [0.005]


def test_three_refusals_in_a_row_are_retry_exhausted(database: str, connect: Connect) -> None:
    holder = connect(autocommit=False)
    with ConnectionPool(
        database, min_size=1, max_size=1, kwargs={"autocommit": True, "options": "-c lock_timeout=10ms"}
    ) as pool:
        client = Client(pool)
        execution_id = client.create_execution("test").execution_id
        holder.execute("update flowfabric.ff_exec_core set priority = 1")
        with pytest.raises(errors.RetryExhaustedError) as refused:
            client.cancel_execution(execution_id, "", source="operator_override")
    assert refused.value.details["attempts"] == 4
    assert refused.value.details["last_sqlstate"] == "55P03"


def _lose_an_answer(client: Client, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Let the next call commit and its connection die before the answer arrives."""
    fetch = _session._fetch
    lost: list[str] = []

    def fetch_and_lose(connection: psycopg.Connection[object], call: Call[object]) -> list[object]:
        rows = fetch(connection, call)
        if lost:
            return rows
        lost.append(call.function)
        with psycopg.connect(connection.info.dsn, autocommit=True) as killer:
            killer.execute("select pg_terminate_backend(%s, 5000)", [connection.info.backend_pid])
        connection.execute("select 1")
        raise AssertionError("unreachable: the connection is gone")

    monkeypatch.setattr(_session, "_fetch", fetch_and_lose)
    return lost


def test_a_completion_whose_answer_was_lost_is_recognised(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Client(database) as client:
        handle = claimed(client)
        lost = _lose_an_answer(client, monkeypatch)
        done = client.complete_execution(**handle.arguments())
        assert (lost, done.outcome, done.public_state) == (
            ["ff_complete_execution"],
            "completed",
            "completed",
        )


def test_a_failure_whose_answer_was_lost_is_recognised(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Client(database) as client:
        handle = claimed(client, policy={"retry_policy": {"max_retries": 1}})
        _lose_an_answer(client, monkeypatch)
        failed = client.fail_execution(**handle.arguments(), failure_reason="broken")
        assert failed.outcome == "retry_scheduled"
        assert failed.delay_until_ms is not None


def test_a_lost_answer_of_a_creation_without_id_is_not_repeated(
    database: str, db: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Client(database) as client:
        client.ping()
        _lose_an_answer(client, monkeypatch)
        with pytest.raises(errors.TransportError) as refused:
            client.create_execution("test")
    assert not refused.value.retryable
    assert db.execute("select count(*) from flowfabric.ff_exec_core").fetchone() == (1,)


def test_a_lost_answer_of_a_creation_with_a_key_is_a_duplicate(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Client(database) as client:
        client.ping()
        _lose_an_answer(client, monkeypatch)
        assert client.create_execution("test", idempotency_key="once").outcome == "duplicate"


def test_a_lost_answer_of_a_submitted_flow_is_asked_for_again(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = Flow().task("first").task("second", after=["first"])
    with Client(database) as client:
        client.ping()
        _lose_an_answer(client, monkeypatch)
        members = client.submit_flow(flow.to_json())
        assert {member.outcome for member in members} == {"already_satisfied"}
        assert [member.execution_id for member in members] == [
            member.execution_id for member in client.submit_flow(flow.to_json())
        ]


def test_a_flow_without_an_id_is_not_submitted_twice(
    database: str, db: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = {key: value for key, value in Flow().task("only").to_json().items() if key != "flow_id"}
    with Client(database) as client:
        client.ping()
        _lose_an_answer(client, monkeypatch)
        with pytest.raises(errors.TransportError) as refused:
            client.submit_flow(document)
    assert not refused.value.retryable
    assert db.execute("select from flowfabric.ff_flow_core").rowcount == 1


def test_somebody_elses_completion_is_not_taken_for_ones_own(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Client(database) as client:
        handle = claimed(client)
        client.complete_execution(**handle.arguments())
        stranger = {**handle.arguments(), "attempt_id": UUID(int=1)}
        _lose_an_answer(client, monkeypatch)
        with pytest.raises(errors.ExecutionNotActiveError):
            client.complete_execution(**stranger)  # type: ignore[arg-type]


def test_columns_that_a_newer_installation_returns_are_left_out(db: Connection) -> None:
    sql = "select 'b1'::text as budget_id, 'new'::text as motto, 'created'::text as outcome"
    call = Call("ff_create_budget", sql, {}, rows.BudgetCreation, False)
    assert Client(db)._one(call) == rows.BudgetCreation(outcome="created", budget_id="b1")


def test_one_text_is_no_list_of_texts(database: str) -> None:
    with Client(database) as client:
        with pytest.raises(
            TypeError, match=r"lanes is a list of values; one str was given: write \['default'\]"
        ):
            client.claim_next("default", "pool", "pool-1")
        with pytest.raises(TypeError, match="capabilities"):
            client.claim_next(["default"], "pool", "pool-1", capabilities="gpu")
        with pytest.raises(TypeError, match="payloads is a list of values; one bytes was given"):
            client.create_executions(["greet"], payloads=b"{}")  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="one dict was given"):
            client.create_executions(["greet"], policies={})  # type: ignore[arg-type]
        assert client.list_lanes() == []

    async def claim() -> None:
        async with AsyncClient(database) as client:
            await client.claim_next("default", "pool", "pool-1")

    with pytest.raises(TypeError, match="lanes is a list of values"):
        asyncio.run(claim())


def test_a_client_refuses_the_other_kind_of_connection(database: str) -> None:
    async def try_both() -> None:
        async with await psycopg.AsyncConnection.connect(database) as connection:
            with pytest.raises(TypeError, match="Client cannot work on AsyncConnection: use AsyncClient"):
                Client(connection)  # type: ignore[arg-type]
        pool = AsyncConnectionPool(database, open=False)
        with pytest.raises(TypeError, match="Client cannot work on AsyncConnectionPool: use AsyncClient"):
            Client(pool)  # type: ignore[arg-type]
        with (
            psycopg.connect(database) as other,
            pytest.raises(TypeError, match="AsyncClient cannot work on Connection: use Client"),
        ):
            AsyncClient(other)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="AsyncClient cannot work on ConnectionPool: use Client"):
            AsyncClient(ConnectionPool(database, open=False))  # type: ignore[arg-type]
        for client in (Client, AsyncClient):
            with pytest.raises(
                TypeError, match="give it a connection string, a psycopg connection or a pool"
            ):
                client(7)  # type: ignore[arg-type]

    asyncio.run(try_both())
