"""A client that was used before a fork: parent and child each have connections of their own."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import os
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import psycopg
import pytest

from flowfabric_client import AsyncClient, Client
from flowfabric_client._listening import Listener, ListenOptions
from flowfabric_client.errors import TransportError
from flowfabric_client.worker import Worker
from flowfabric_client.worker.context import SyncContext
from tests.support.cluster import Connection
from tests.support.concurrency import DEADLINE_S, in_background

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")

CALLS = 150


@contextmanager
def child(work: Callable[[], object]) -> Iterator[None]:
    """Run something in a forked child beside the block; it must return something true."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        # Python 3.12 warns of every fork of a process with threads.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        _be_child(work, writer)
    os.close(writer)
    try:
        yield
    finally:
        told = in_background(lambda: b"".join(iter(lambda: os.read(reader, 65536), b"")).decode())
        answer = told.result(3 * DEADLINE_S)
        os.close(reader)
        _, status = os.waitpid(pid, 0)
    assert answer == "done"
    assert status == 0


def _be_child(work: Callable[[], object], writer: int) -> None:
    # Whatever happens, the child must not return into the tests of its parent.
    try:
        answer = "done" if work() else "the child's work returned nothing true"
    except BaseException:
        answer = traceback.format_exc()
    os.write(writer, answer.encode())
    os._exit(0)


def works_hard(client: Client) -> bool:
    """Send many calls from several threads, each with an answer that fits no other call."""

    def ask(number: int) -> bool:
        name = f"{os.getpid()}-{number}"
        created = client.create_execution(name, lane_id="fork")
        read = client.describe_execution(created.execution_id)
        return read is not None and read.execution_kind == name

    with ThreadPoolExecutor(4) as threads:
        return all(threads.map(ask, range(CALLS)))


def backend_pid(client: Client) -> int:
    with client.transaction() as tx:
        return tx.connection.info.backend_pid


def test_parent_and_child_use_the_client_at_the_same_time(client: Client, db: Connection) -> None:
    assert works_hard(client)
    mine = backend_pids(db)
    with child(lambda: works_hard(client) and backend_pid(client) not in mine):
        assert works_hard(client)
    # The child has ended, and with it no session of the parent.
    assert mine <= backend_pids(db)
    assert works_hard(client)


def backend_pids(db: Connection) -> set[int]:
    query = """
        select pid from pg_stat_activity
        where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()"""
    return {pid for (pid,) in db.execute(query)}


def test_a_fork_while_other_threads_use_the_client(client: Client) -> None:
    """Their locks stay locked in the child, where the threads are not."""
    stop = threading.Event()

    def go_on() -> int:
        calls = 0
        while not stop.is_set():
            client.ping()
            calls += 1
        return calls

    busy = [in_background(go_on) for _ in range(4)]
    try:
        for _ in range(5):
            with child(lambda: works_hard(client)):
                pass
    finally:
        stop.set()
    assert all(run.result() > 0 for run in busy)


def test_children_of_multiprocessing_share_nothing(client: Client) -> None:
    assert works_hard(client)
    context = multiprocessing.get_context("fork")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        children = [context.Process(target=_exit_with, args=(client,)) for _ in range(3)]
        for process in children:
            process.start()
    assert works_hard(client)
    for process in children:
        process.join(3 * DEADLINE_S)
    assert [process.exitcode for process in children] == [0, 0, 0]


def _exit_with(client: Client) -> None:
    if not works_hard(client):
        raise SystemExit(1)


def test_a_child_that_closes_or_collects_the_client_ends_no_session_of_the_parent(
    client: Client, db: Connection
) -> None:
    assert works_hard(client)
    mine = backend_pids(db)

    def collect() -> bool:
        client.close()
        gc.collect()
        with pytest.raises(RuntimeError, match="this client is closed"):
            client.ping()
        return True

    def use_and_collect() -> bool:
        return works_hard(client) and collect()

    with child(collect):
        pass
    with child(use_and_collect):
        pass
    assert mine <= backend_pids(db)
    assert works_hard(client)


def test_a_transaction_of_the_parent_is_refused_in_the_child(client: Client) -> None:
    def leave_it() -> bool:
        with pytest.raises(TransportError, match=r"process \d+ opened this connection before it forked"):
            tx.ping()
        # Leaving the block would commit the parent's transaction.
        with pytest.raises(psycopg.OperationalError, match="before it forked"):
            entered.__exit__(None, None, None)
        return works_hard(client)

    entered = client.transaction()
    tx = entered.__enter__()
    created = tx.create_execution("of the parent", lane_id="another")
    with child(leave_it):
        assert client.describe_execution(created.execution_id) is None
        assert tx.describe_execution(created.execution_id) is not None
    entered.__exit__(None, None, None)
    assert client.describe_execution(created.execution_id) is not None


def test_the_asynchronous_client_of_the_child_has_connections_of_its_own(database: str) -> None:
    async def work_hard(client: AsyncClient) -> bool:
        async def ask(number: int) -> bool:
            name = f"{os.getpid()}-{number}"
            created = await client.create_execution(name, lane_id="fork")
            read = await client.describe_execution(created.execution_id)
            return read is not None and read.execution_kind == name

        return all(await asyncio.gather(*map(ask, range(CALLS))))

    async def parent() -> None:
        async with AsyncClient(database) as client:
            assert await work_hard(client)
            with child(lambda: asyncio.run(work_hard(client))):
                assert await work_hard(client)
            assert await work_hard(client)

    asyncio.run(parent())


def test_a_listener_of_the_child_has_a_connection_of_its_own(database: str, db: Connection) -> None:
    def is_woken(listener: Listener) -> bool:
        # The first wait of the child finds that the connection is its parent's, and the next ones reconnect.
        while not listener.is_listening or listener._connection is of_parent:
            listener.wait(0.05)
        answer = in_background(lambda: listener.wait(DEADLINE_S))
        with psycopg.connect(database, autocommit=True) as sender:
            while not answer.is_done:
                sender.execute("notify ff_stream, 'x'")
        return answer.result()

    listener = Listener(ListenOptions(database, 5.0), lambda *_: True, threading.Event())
    listener.open()
    mine = backend_pids(db)
    of_parent = listener._connection
    with child(lambda: is_woken(listener)):
        pass
    of_parent = None
    assert mine <= backend_pids(db)
    assert is_woken(listener)
    listener.close()


def test_workers_that_were_forked_from_one_have_names_of_their_own(database: str) -> None:
    worker = Worker(database, lanes=["fork"])
    named = Worker(database, lanes=["fork"], instance_id="mine")
    before = worker.instance_id

    with child(lambda: worker.instance_id != before and str(os.getpid()) in worker.instance_id):
        pass
    with child(lambda: named.instance_id == "mine"):
        pass
    assert worker.instance_id == before


def test_a_child_of_a_handler_uses_the_context_beside_its_parent(database: str, client: Client) -> None:
    worker = Worker(database, lanes=["forking"], concurrency=1, poll_interval_ms=50)

    @worker.handler("forks")
    def forks(ctx: SyncContext) -> bytes:
        # What every method of the context goes through.
        handlers_client = ctx._connections.synchronous
        assert works_hard(handlers_client)
        with child(lambda: works_hard(handlers_client)):
            assert works_hard(handlers_client)
        return b"forked"

    created = client.create_execution("forks", lane_id="forking")
    run = in_background(lambda: asyncio.run(worker.run()))
    ended = client.wait(created.execution_id, timeout_s=3 * DEADLINE_S)
    worker.stop()
    run.result()
    assert ended.result == b"forked"
