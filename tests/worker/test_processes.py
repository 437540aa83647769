"""A worker as a process: signals, sudden death, and what the command line refuses."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from flowfabric_client import Client
from flowfabric_client.cli import cli
from flowfabric_client.dev import THROW_AWAY_SETTINGS, ProviderName, start_server
from flowfabric_client.install import migrate
from flowfabric_client.worker import SyncContext, Worker, events
from tests.support.cluster import REPOSITORY, Cluster, Connection
from tests.support.concurrency import wait_until
from tests.worker.app import asks
from tests.worker.support import (
    FAST,
    Running,
    create,
    describe,
    result_of,
    running,
    wait_for_state,
)

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(database: str, db: Connection) -> Iterator[Start]:
    """Starts `flowfabric worker` as a process of its own."""
    db.execute("create table released (id text primary key)")
    processes = []

    def factory(target: str = "tests.worker.app:worker", dsn: str = database) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "flowfabric_client", "worker", target],
            cwd=REPOSITORY,
            env={**os.environ, "FLOWFABRIC_DSN": dsn},
            stderr=subprocess.PIPE,
            text=True,
        )
        processes.append(process)
        return process

    yield factory
    for process in processes:
        process.kill()
        process.communicate()


def wait_until_running(client: Client, execution_id: str) -> None:
    wait_until(lambda: describe(client, execution_id).progress_pct == 1, f"{execution_id} was running")


def test_a_signal_drains(client: Client, db: Connection, start: Start) -> None:
    execution_id = create(client, "until_released")
    process = start()
    wait_until_running(client, execution_id)
    process.send_signal(signal.SIGTERM)
    wait_for_log(process, "draining")
    later_id = create(client, "until_released")
    db.execute("insert into released values (%s)", [execution_id])
    assert process.wait(20) == 0
    assert result_of(client, execution_id) == b"finished"
    # A claim that was under way may have taken it; then it was handed back.
    later = describe(client, later_id)
    assert later.public_state in {"waiting", "delayed"}
    assert later.progress_pct is None


def wait_for_log(process: subprocess.Popen[str], text: str) -> None:
    assert process.stderr is not None
    assert any(text in line for line in process.stderr), f"the process ended without saying {text!r}"


def test_the_second_signal_ends_the_process_at_once(client: Client, start: Start) -> None:
    execution_id = create(client, "stubborn")
    process = start()
    wait_until_running(client, execution_id)
    process.send_signal(signal.SIGINT)
    wait_for_log(process, "draining")
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 128 + signal.SIGTERM
    assert describe(client, execution_id).public_state == "active"


def test_the_work_of_a_killed_process_is_taken_over(database: str, client: Client, start: Start) -> None:
    execution_id = create(client, "stubborn")
    process = start()
    wait_until_running(client, execution_id)
    process.kill()
    survivor = Worker(database, **FAST)

    @survivor.handler("stubborn")
    def do_it(ctx: SyncContext) -> int:
        return ctx.attempt_index

    with running(survivor) as run:
        (claimed,) = run.wait_for(events.Claimed)
        run.wait_for(events.Completed)
    assert (claimed.how, claimed.attempt_index) == ("reclaimed", 1)
    assert result_of(client, execution_id) == b"1"


def test_an_answer_reaches_whichever_process_is_there(
    database: str, client: Client, db: Connection, start: Start
) -> None:
    client.seed_waitpoint_hmac_secret("k1")
    db.execute("create table doorbell (waitpoint_id uuid, token text)")
    execution_id = create(client, "asks")
    asking = start()
    wait_for_state(client, execution_id, "suspended")
    asking.kill()
    ((waitpoint_id, token),) = db.execute("select * from doorbell").fetchall()
    client.deliver_signal(execution_id, waitpoint_id, token, "yes")
    hearing = start()
    wait_until_running(client, execution_id)
    hearing.kill()
    survivor = Worker(database, **FAST)
    survivor.handler("asks")(asks)
    with running(survivor) as run:
        run.wait_for(events.Completed)
    assert result_of(client, execution_id) == b"1 yes"


def test_a_database_without_flowfabric_ends_the_process_with_one_sentence(
    start: Start, empty_database: str
) -> None:
    process = start(dsn=empty_database)
    _, errors = process.communicate(timeout=20)
    assert process.returncode == 1
    assert "Error: " in errors
    assert "Traceback" not in errors


def test_work_survives_a_restart_of_the_server(server: Cluster, open_directory: Path) -> None:
    # Nobody restarts the server of the other tests; the wheel is there wherever these tests are.
    provider: ProviderName = "local" if server.server.provider == "local" else "wheel"
    data_dir = open_directory / "data"
    may_end = threading.Event()
    with start_server(
        provider=provider, data_dir=data_dir, keep=True, settings=THROW_AWAY_SETTINGS
    ) as before:
        dsn = before.dsn()
        migrate(dsn)
        worker = Worker(dsn, **FAST)

        @worker.handler("work")
        def work(ctx: SyncContext) -> int:
            may_end.wait(20)
            return ctx.attempt_index

        with Client(dsn) as client:
            execution_id = create(client, "work")
        run = Running(worker)
        run.wait_for(events.Started)
    may_end.set()
    run.wait_for(events.Trouble)
    with start_server(provider=provider, data_dir=data_dir, keep=True) as after:
        assert after.dsn() == dsn
        run.wait_for(events.Completed)
        run.stop()
        with Client(dsn) as client:
            assert result_of(client, execution_id) == b"0"


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """A directory that every user can enter, unlike pytest's own: the server may run as another one."""
    with tempfile.TemporaryDirectory(prefix="ff-") as directory:
        path = Path(directory)
        path.chmod(0o755)
        yield path


@pytest.mark.parametrize(
    ("target", "sentence"),
    [
        ("tests.worker.app", "'tests.worker.app' does not name a worker"),
        ("tests.worker.no_such:worker", "module tests.worker.no_such cannot be imported"),
        ("tests.worker.app:missing", "tests.worker.app has no worker called missing"),
        ("tests.worker.app:not_a_worker", "tests.worker.app has no worker called not_a_worker"),
        ("tests.worker.app:idle", "tests.worker.app:idle has no handlers"),
    ],
)
def test_a_wrong_target_is_one_sentence(target: str, sentence: str) -> None:
    done = CliRunner().invoke(cli, ["worker", target])
    assert done.exit_code == 1
    assert done.output.startswith(f"Error: {sentence}")
    assert done.output.count("\n") == 1
