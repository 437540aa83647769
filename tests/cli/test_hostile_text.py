"""Text that comes from elsewhere: it is shown, and commands neither the terminal nor the renderer."""

from __future__ import annotations

import json

import pytest

from flowfabric_client.client import Client
from flowfabric_client.commands._text import plain, preview, readable, relative, span
from tests.cli.support import CommandLine, create, running, write

ESCAPE = "\x1b[2J\x1b]0;owned\x07\r\x08\x9b31m"
MARKUP = "[red]not_red[/red][link=http://x]:smile:"
TURNED = "abc\u202edcb\u2066"
NAME = f"{MARKUP}{TURNED}"


def test_what_is_not_printable_is_shown_as_an_escape() -> None:
    assert plain(ESCAPE) == r"\x1b[2J\x1b]0;owned\x07\r\x08\x9b31m"
    assert plain(TURNED) == r"abc\u202edcb\u2066"
    assert plain("Zoë 日本 🙂") == "Zoë 日本 🙂"
    assert plain("a\nb\tc\r", keep="\n\t") == "a\nb\tc\\r"
    assert plain("\udc80") == r"\udc80"


def test_bytes_are_text_if_they_can_be() -> None:
    assert readable("Zoë".encode()) == "Zoë"
    assert readable(b"\xff\x00") == {"base64": "/wA="}
    assert preview(b"\xff\x00") == "2 bytes that are no text"
    # A character that the preview cuts in two does not make the whole of it binary.
    assert preview("é".encode() * 1500).startswith("é" * 1000)
    assert preview(b"a" * 1999 + "é".encode()).endswith("a ... (2001 bytes)")


@pytest.mark.parametrize(
    ("ms", "shown"),
    [
        (0, "0ms"),
        (999, "999ms"),
        (1000, "1s"),
        (60_000, "1m"),
        (200_000, "3m 20s"),
        (3_600_000, "1h"),
        (90_000_000, "1d 1h"),
    ],
)
def test_a_duration_has_its_two_largest_units(ms: int, shown: str) -> None:
    assert span(ms) == shown


def test_an_instant_is_shown_by_its_distance() -> None:
    assert relative(0, 60_000) == "1m ago"
    assert relative(60_000, 0) == "in 1m"
    assert relative(500, 0) == "now"


@pytest.fixture
def hostile(client: Client) -> str:
    """A database full of text that wants to be more than text; the execution that has most of it."""
    client.register_lane(MARKUP)
    client.set_lane_state(MARKUP, "active")
    client.set_lane_state(MARKUP, "paused", reason=ESCAPE)
    client.set_lane_state("default", "active")
    client.register_worker(NAME, NAME, lanes=["default"])
    client.drain_worker(NAME, reason=NAME)
    client.create_budget(NAME, "tenant", "7", dimensions=["x"], hard_limits=[5], soft_limits=[0])
    client.create_quota_policy(NAME, 60, 1, 1)
    handle = running(client, NAME, instance=NAME, payload=f"{ESCAPE}{NAME}".encode(), tags={"app.x": ESCAPE})
    client.update_progress(**handle.arguments(), progress_pct=1, progress_message=ESCAPE)
    write(client, handle, ESCAPE.encode())
    cancelled = create(client, NAME)
    client.cancel_execution(cancelled, f"{ESCAPE}{NAME}", source="operator_override")
    client.replay_execution(cancelled, reason=ESCAPE, requested_by=NAME)
    client.cancel_execution(cancelled, f"{ESCAPE}{NAME}", source="operator_override")
    return handle.execution_id


@pytest.mark.parametrize("is_terminal", [False, True], ids=["pipe", "terminal"])
def test_no_command_lets_it_through(
    hostile: str, flowfabric: CommandLine, client: Client, is_terminal: bool
) -> None:
    (cancelled,) = client.list_executions(public_state="cancelled")
    env = {"FORCE_COLOR": "1", "COLUMNS": "60"} if is_terminal else {}
    seen = ""
    for args in (
        ("executions", "list"),
        ("executions", "show", hostile),
        ("executions", "show", cancelled.execution_id),
        ("why", hostile),
        ("why", cancelled.execution_id),
        ("lanes", "list"),
        ("lanes", "show", MARKUP),
        ("workers", "list"),
        ("workers", "show", NAME),
        ("budgets", "list"),
        ("budgets", "show", NAME),
        ("quotas", "list"),
        ("quotas", "show", NAME),
        ("events",),
        ("events", "lease"),
        ("events", "operator"),
        ("events", "worker"),
        ("top", "--once"),
        ("lanes", "show", ESCAPE),
        ("workers", "drain", ESCAPE),
    ):
        result = flowfabric.run(*args, env=env)
        for forbidden in ("\x1b[2J", "\x1b]", "\x07", "\x08", "\x9b", "\u202e", "\u2066"):
            assert forbidden not in result.output, args
        assert is_terminal or "\x1b" not in result.output, args
        seen += result.stdout
    if not is_terminal:
        assert MARKUP in seen
        assert plain(ESCAPE) in seen


def test_json_keeps_it_as_it_is(hostile: str, flowfabric: CommandLine) -> None:
    printed = flowfabric.text("executions", "show", hostile, "--json")
    assert printed.isascii()
    assert "\x1b" not in printed
    found = json.loads(printed)
    assert (found["payload"], found["execution_kind"]) == (f"{ESCAPE}{NAME}", NAME)


def test_a_narrow_terminal_cuts_no_id(hostile: str, flowfabric: CommandLine) -> None:
    narrow = {"FORCE_COLOR": "1", "NO_COLOR": "1", "COLUMNS": "40"}
    for args in (("executions", "list"), ("executions", "show", hostile), ("workers", "show", NAME)):
        assert hostile in flowfabric.text(*args, env=narrow)


def test_a_list_leaves_columns_out_where_the_terminal_is_narrow(
    flowfabric: CommandLine, client: Client
) -> None:
    create(client, "send_mail", lane_id="mail")

    def lines(columns: int) -> list[str]:
        env = {"FORCE_COLOR": "1", "NO_COLOR": "1", "COLUMNS": str(columns)}
        return flowfabric.text("executions", "list", env=env).splitlines()

    assert "priority" in lines(200)[0]
    assert "priority" not in lines(80)[0]
    assert all(len(line) <= 80 for line in lines(80)[1:])
    assert "send_mail" in lines(80)[1]
