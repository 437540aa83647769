"""`flowfabric dev` as a person or a script meets it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from io import StringIO
from pathlib import Path
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner
from rich.console import Console

from flowfabric_client.commands.dev import _announce, dev
from flowfabric_client.dev import PostgresServer
from tests.dev.support import first_line, is_running, python, query, server_pid


def run_dev(*arguments: str) -> tuple[subprocess.Popen[str], dict[str, Any]]:
    process = python("-m", "flowfabric_client", "dev", "--json", *arguments)
    facts: dict[str, Any] = json.loads(first_line(process))
    return process, facts


def test_ctrl_c_ends_it_with_success_and_the_next_run_finds_the_data(workspace: Path) -> None:
    home = str(workspace / "home")
    for run in (1, 2):
        process, facts = run_dev("--data-dir", home)
        pid = server_pid(home)
        assert facts["data_dir"] == home
        assert query(facts["dsn"], "select current_database()") == ("flowfabric",)
        assert query(facts["dsn"], "select flowfabric.ff_now_ms() > 0") == (True,)
        assert query(facts["dsn"], "select count(*) from flowfabric.ff_list_waitpoint_hmac_kids()") == (1,)
        with psycopg.connect(facts["dsn"]) as connection:
            connection.execute("create table if not exists run (n int)")
            connection.execute("insert into run values (%s)", [run])
        assert query(facts["dsn"], "select sum(n) from run") == ({1: 1, 2: 3}[run],)
        # A terminal sends Ctrl-C to the whole group; the server must not take it for itself.
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(60) == 0
        assert not is_running(pid)
        log = (workspace / "home" / "server.log").read_text()
        assert "received fast shutdown request" in log
        assert "database system is shut down" in log


def test_an_ephemeral_server_leaves_nothing_and_heeds_sigterm() -> None:
    process, facts = run_dev("--ephemeral", "--provider", "wheel", "--pg-version", "16")
    assert (facts["version"], facts["provider"]) == (16, "wheel")
    process.terminate()
    assert process.wait(60) == 0
    assert not Path(facts["data_dir"]).exists()


def test_text_for_people_says_what_to_paste_and_a_second_run_says_it_again(workspace: Path) -> None:
    home = workspace / "home"
    process = python("-m", "flowfabric_client", "dev", "--data-dir", str(home))
    assert process.stdout is not None
    output = ""
    while "Ctrl-C" not in output:
        line = process.stdout.readline()
        assert line, output
        output += line
    assert "creating a data directory of PostgreSQL" in output
    assert "creating database flowfabric" in output
    assert re.search(r"^  server  the package of \[embedded\] in /.*/bin$", output, re.MULTILINE)
    assert f"  data    {home}, kept between runs\n" in output
    pasted = re.search(r"^  export FLOWFABRIC_DSN='(postgresql://.*)'$", output, re.MULTILINE)
    assert pasted is not None
    assert query(pasted[1], "select current_database()") == ("flowfabric",)

    second = CliRunner().invoke(dev, ["--data-dir", str(home)])
    assert second.exit_code == 1
    assert second.stderr == f"Error: A server already runs on {home}: connect with {pasted[1]}\n"

    os.kill(server_pid(home), signal.SIGINT)
    assert process.wait(60) == 1
    assert process.stderr is not None
    complaint = process.stderr.read()
    assert complaint.startswith("Error: The server ended by itself.\nServer log:\n")
    assert "database system is shut down" in complaint


@pytest.mark.parametrize(
    ("arguments", "environment", "exit_code", "complaint"),
    [
        (
            [],
            {"FLOWFABRIC_TEST_DSN": "host=127.0.0.1 port=1"},
            1,
            "Error: The server of FLOWFABRIC_TEST_DSN ",
        ),
        (["--pg-version", "13"], {}, 1, "Error: PostgreSQL 13 as demanded is too old"),
        (["--ephemeral", "--data-dir", "/nonexistent"], {}, 2, "Usage: "),
        (
            ["--ephemeral", "--provider", "container"],
            {},
            1,
            "Error: No Postgres can be had from provider cont",
        ),
        (
            ["--data-dir", "/dev/null/x"],
            {},
            1,
            "Error: The server cannot be started in /dev/null/x: Not a dir",
        ),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(
    arguments: list[str], environment: dict[str, str], exit_code: int, complaint: str
) -> None:
    result = CliRunner().invoke(dev, arguments, env=environment)
    assert result.exit_code == exit_code
    assert result.stderr.startswith(complaint)
    assert result.stderr.count("\n") == 1 or exit_code == 2


def test_the_server_of_embedded_is_chosen_or_the_reason_said(running: PostgresServer) -> None:
    process, facts = run_dev("--ephemeral")
    process.terminate()
    assert process.wait(60) == 0
    assert (facts["provider"], "wheel" in facts["passed_over"]) == ("wheel", False)

    out = StringIO()
    _announce(running, "dsn", Console(file=out, width=500, markup=False), as_json=False, is_kept=False)
    assert f"  server  programs of this machine in {running.bin_dir}\n" in out.getvalue()
    assert f"  data    {running.data_dir}, thrown away at the end\n" in out.getvalue()
    assert "[embedded]" not in out.getvalue()
    if running.version not in {16, 18}:
        process, facts = run_dev("--ephemeral", "--pg-version", str(running.version))
        process.terminate()
        assert process.wait(60) == 0
        assert facts["provider"] == "local"
        assert facts["passed_over"]["wheel"].startswith(
            f"no server programs of PostgreSQL {running.version} were found"
        )


def test_a_server_of_embedded_that_cannot_serve_is_told_why(
    running: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "passed_over", {"wheel": "it holds PostgreSQL 18"})
    out = StringIO()
    _announce(running, "dsn", Console(file=out, width=500, markup=False), as_json=False, is_kept=True)
    assert "not the package of [embedded]: it holds PostgreSQL 18\n" in out.getvalue()
    assert f"{running.data_dir}, kept between runs\n" in out.getvalue()
