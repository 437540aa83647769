"""Commands that go on: they show what happens while it happens, and end as they are told."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from psycopg.conninfo import make_conninfo

from flowfabric_client import rows
from flowfabric_client.client import Client
from flowfabric_client.handle import Handle
from tests.cli.support import CommandLine, create, failed, running, write
from tests.support.cluster import Connection
from tests.support.concurrency import DEADLINE_S, in_background, wait_until


class Process:
    """A command in a process of its own, as a shell would start it."""

    def __init__(self, dsn: str, *args: str, terminal: int | None = None) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "flowfabric_client", *args],
            env={**os.environ, "FLOWFABRIC_DSN": dsn, "TERM": "xterm", "COLUMNS": "60", "LINES": "20"},
            stdin=terminal if terminal is not None else subprocess.DEVNULL,
            stdout=terminal if terminal is not None else subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def line(self) -> str:
        """The next line of standard output; waits for it."""
        assert self._process.stdout is not None
        found = in_background(self._process.stdout.readline).result()
        assert found, self._process.communicate()
        return found

    def interrupt(self) -> None:
        self._process.send_signal(signal.SIGINT)

    def end(self) -> tuple[int, str]:
        """Wait for the end; the exit code and standard error."""
        _, stderr = self._process.communicate(timeout=DEADLINE_S)
        return self._process.returncode, stderr

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


class Terminal:
    """A terminal with nobody in front of it."""

    def __init__(self, keyboard: int, device: int) -> None:
        self._keyboard = keyboard
        self.device = device
        self.shown = b""

    def read(self) -> bytes:
        """Everything that was shown so far."""
        while select.select([self._keyboard], [], [], 0)[0]:
            self.shown += os.read(self._keyboard, 65536)
        return self.shown

    def press(self, key: bytes) -> None:
        os.write(self._keyboard, key)


@contextmanager
def terminal() -> Iterator[Terminal]:
    keyboard, device = pty.openpty()
    try:
        yield Terminal(keyboard, device)
    finally:
        os.close(keyboard)
        os.close(device)


@contextmanager
def process(dsn: str, *args: str, terminal: int | None = None) -> Iterator[Process]:
    started = Process(dsn, *args, terminal=terminal)
    try:
        yield started
    finally:
        started.kill()


def test_run_shows_progress_and_output_and_prints_the_result(flowfabric: CommandLine, client: Client) -> None:
    watched = in_background(
        lambda: flowfabric.run("run", "greet", '{"to": "Ada"}', "--tag", "app.order=42", "--lane", "mail")
    )
    handle = take(client, "mail")
    client.update_progress(**handle.arguments(), progress_pct=40, progress_message="half way")
    write(client, handle, b"Hello")
    client.complete_execution(**handle.arguments(), result=b"\xffHello Ada\n")

    result = watched.result()
    assert result.exit_code == 0
    assert result.stdout_bytes == b"\xffHello Ada\n"
    assert handle.execution_id in result.stderr
    assert "delta: Hello" in result.stderr
    assert "completed" in result.stderr
    context = client.read_execution_context(handle.execution_id)
    assert (context.input_payload, context.tags) == (b'{"to": "Ada"}', {"app.order": "42"})


def test_run_as_json_is_a_line_for_everything_that_happens(database: str, client: Client) -> None:
    with process(database, "run", "greet", "--json") as run:
        assert json.loads(run.line())["type"] == "created"
        handle = take(client)
        client.update_progress(**handle.arguments(), progress_pct=40)
        seen = [json.loads(run.line())]
        while seen[-1].get("progress_pct") != 40:
            seen.append(json.loads(run.line()))
        assert seen[-1]["public_state"] == "active"
        write(client, handle, b"Hello")
        frame = json.loads(run.line())
        assert (frame["type"], frame["payload"]) == ("frame", "Hello")
        client.complete_execution(**handle.arguments(), result=b"done")
        while seen[-1]["type"] != "ended":
            seen.append(json.loads(run.line()))
        assert (seen[-1]["outcome"], seen[-1]["result"]) == ("success", "done")
        assert run.end() == (0, "")


@pytest.mark.parametrize("outcome", ["failed", "cancelled"])
def test_run_ends_with_1_if_the_execution_was_not_completed(
    flowfabric: CommandLine, client: Client, outcome: str
) -> None:
    watched = in_background(lambda: flowfabric.run("run", "greet"))
    handle = take(client)
    if outcome == "failed":
        client.fail_execution(**handle.arguments(), failure_reason="no paper")
    else:
        client.cancel_execution(handle.execution_id, "no paper", source="operator_override")
    result = watched.result()
    assert result.exit_code == 1
    assert result.stdout == ""
    assert "no paper" in result.stderr
    assert outcome in result.stderr


def test_ctrl_c_stops_watching_and_the_execution_goes_on(database: str, client: Client) -> None:
    with process(database, "run", "greet", "--json") as run:
        execution_id = json.loads(run.line())["execution_id"]
        assert json.loads(run.line())["public_state"] == "waiting"
        run.interrupt()
        assert run.end() == (130, "")
    assert client.read_execution_state(execution_id) == "waiting"


def test_run_stops_watching_at_its_timeout(flowfabric: CommandLine, client: Client) -> None:
    result = flowfabric.run("run", "greet", "--timeout", "10ms")
    assert result.exit_code == 5
    (created,) = client.list_executions()
    assert created.public_state == "waiting"
    assert f"flowfabric why '{created.execution_id}'" in result.stderr
    *_, last = flowfabric.lines("run", "greet", "--timeout", "10ms", exit_code=5)
    assert client.read_execution_state(last["execution_id"]) == "waiting"


def test_run_detached_prints_the_id_and_reads_its_payload_from_standard_input(
    flowfabric: CommandLine, client: Client
) -> None:
    args = ("run", "greet", "-", "--detach", "--key", "order-42", "--delay", "1h", "--priority", "3")
    execution_id = flowfabric.text(*args, input=b"\xff\x00").strip()
    (again,) = flowfabric.lines(*args, input=b"other")
    assert again["execution_id"] == execution_id
    found = client.describe_execution(execution_id)
    assert found is not None
    assert (found.public_state, found.priority) == ("delayed", 3)
    assert client.read_execution_context(execution_id).input_payload == b"\xff\x00"


def take(client: Client, lane: str = "default") -> Handle:
    """Claim the next execution of a lane, as a worker does."""
    claims: list[rows.ClaimedExecution] = []

    def claim() -> bool:
        claims.extend(client.claim_next([lane], "ada", "ada-1"))
        return bool(claims)

    wait_until(claim, f"something was there to claim in lane {lane}")
    return Handle.of(claims[0])


def test_events_are_printed_from_the_start_with_filters(flowfabric: CommandLine, client: Client) -> None:
    first, second = failed(client), failed(client)
    assert [event["execution_id"] for event in flowfabric.lines("events")] == [first, second]
    assert flowfabric.text("events").count("failed") == 2
    (only,) = flowfabric.lines("events", "--execution", second)
    assert (only["stream"], only["outcome"]) == ("completion", "failed")
    (one,) = flowfabric.lines("events", "--limit", "1")
    assert [event["execution_id"] for event in flowfabric.lines("events", "--from", one["cursor"])] == [
        second
    ]
    assert {event["event_type"] for event in flowfabric.lines("events", "lease", "--type", "acquired")} == {
        "acquired"
    }
    assert flowfabric.text("events", "signal") == ""


def test_events_are_followed_over_a_lost_connection_until_ctrl_c(
    database: str, client: Client, db: Connection
) -> None:
    failed(client)
    with process(database, "events", "--follow", "--json", "--from", "start") as events:
        events.line()
        for _ in range(2):
            db.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where datname = current_database() and pid <> pg_backend_pid()"
                " and pid <> all (%s)",
                [[connection_pid(client)]],
            )
            execution_id = failed(client)
            assert json.loads(events.line())["execution_id"] == execution_id
        events.interrupt()
        exit_code, stderr = events.end()
    assert exit_code == 130
    assert "Traceback" not in stderr


def connection_pid(client: Client) -> int:
    with client.transaction() as tx:
        return tx.connection.info.backend_pid


def test_tick_in_a_loop_does_what_becomes_due_over_a_lost_connection_until_ctrl_c(
    database: str, client: Client, db: Connection
) -> None:
    with process(database, "tick", "--loop", "--interval", "50ms", "--json") as tick:
        for _ in range(2):
            execution_id = create(client)
            client.issue_grant_and_claim(execution_id, 1)
            while json.loads(tick.line())["scanner"] != "lease_expiry":
                pass
            found = client.describe_execution(execution_id)
            assert found is not None
            assert found.ownership_state == "lease_expired_reclaimable"
            db.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'flowfabric'"
            )
        tick.interrupt()
        exit_code, stderr = tick.end()
    assert exit_code == 130
    assert "Trying again: " in stderr
    assert "Traceback" not in stderr


def test_top_shows_lanes_running_work_and_workers_once(flowfabric: CommandLine, client: Client) -> None:
    client.register_worker("ada", "ada-1", lanes=["mail"])
    handle = running(client, "render", lane_id="mail")
    client.update_progress(**handle.arguments(), progress_pct=40)
    create(client, lane_id="mail")
    failed(client)
    shown = flowfabric.text("top", "--once")
    for fact in ("mail", "render", "40%", handle.execution_id, "ada-1", "otherwise ended 1/min"):
        assert fact in shown

    found = flowfabric.json("top", "--once")
    (lane,) = (lane for lane in found["lanes"] if lane["lane_id"] == "mail")
    assert (lane["waiting"], lane["running"]) == (1, 1)
    assert found["running"][0]["execution_id"] == handle.execution_id
    assert found["workers"][0]["leases"] == 1
    assert found["completed_per_minute"]["failed"] == 1


def test_top_without_a_terminal_prints_frame_after_frame(database: str) -> None:
    with process(database, "top", "--interval", "100ms", "--json") as top:
        first, second = json.loads(top.line()), json.loads(top.line())
        assert second["at_ms"] > first["at_ms"]
        top.interrupt()
        assert top.end() == (130, "")


@pytest.mark.parametrize(("is_key", "exit_code"), [(True, 0), (False, 130)], ids=["q", "ctrl-c"])
def test_top_on_a_small_terminal_ends_when_it_is_told(
    database: str, client: Client, is_key: bool, exit_code: int
) -> None:
    for number in range(30):
        create(client, lane_id=f"lane-{number}")
    with terminal() as screen, process(database, "top", "--interval", "100ms", terminal=screen.device) as top:
        wait_until(lambda: b"lane-" in screen.read(), "top has drawn something")
        assert b"\x1b[?1049h" in screen.shown
        # Whatever is drawn fits: a screen of 20 lines never shows all of the lanes.
        assert screen.shown.count(b"lane-") < 30
        if is_key:
            screen.press(b"q")
        else:
            top.interrupt()
        ended = in_background(top.end)
        # The process cannot end before somebody has read what it wrote last.
        wait_until(lambda: bool(screen.read()) and ended.is_done, "top ended")
        assert ended.result() == (exit_code, "")


def test_a_statement_timeout_ends_a_command_with_5(database: str, client: Client, db: Connection) -> None:
    execution_id = create(client)
    impatient = CommandLine(make_conninfo(database, options="-c statement_timeout=200"))
    with db.transaction():
        db.execute("select from flowfabric.ff_exec_core for update")
        assert "statement timeout" in impatient.error("cancel", execution_id, exit_code=5)
    assert client.read_execution_state(execution_id) == "waiting"
