"""What cannot be started ends in one sentence and leaves nothing behind."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from flowfabric_client.dev import (
    DevServerError,
    PostgresServer,
    ServerAlreadyRunningError,
    ServerStartError,
    start_server,
)
from tests.dev.support import FAST, IS_ROOT, first_line, python, query

Prepare = Callable[[Path], None]


def contents(directory: Path) -> list[str]:
    return sorted(entry.name for entry in directory.iterdir())


@pytest.mark.parametrize("home_exists", [False, True])
def test_a_server_that_does_not_start_shows_its_log_and_leaves_nothing(
    workspace: Path, home_exists: bool
) -> None:
    home = workspace / "above" / "home"
    if home_exists:
        home.mkdir(parents=True)
    before = sorted(workspace.rglob("*"))
    with pytest.raises(ServerStartError) as refusal:
        start_server(data_dir=home, provider="local", settings={"no_such_setting": "1"})
    sentence, _, log = str(refusal.value).partition("\nServer log:\n")
    assert sentence.endswith('did not start: unrecognized configuration parameter "no_such_setting".')
    assert 'FATAL:  unrecognized configuration parameter "no_such_setting"' in log
    assert log == refusal.value.log
    assert sorted(workspace.rglob("*")) == before


def test_a_port_in_use_is_refused_before_anything_is_made(workspace: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(DevServerError, match=f"^Port {port} cannot be used: Address already in use\\.$"):
            start_server(data_dir=workspace / "home", port=port)
    assert contents(workspace) == []


def test_one_data_directory_has_one_server(running: PostgresServer) -> None:
    with pytest.raises(ServerAlreadyRunningError) as refusal:
        start_server(data_dir=running.data_dir)
    assert refusal.value.dsn == running.dsn()
    assert str(refusal.value) == f"A server already runs on {running.data_dir}: connect with {running.dsn()}"
    assert query(running, "select 1") == (1,)


def test_a_read_only_directory_is_refused(workspace: Path) -> None:
    home = workspace / "home"
    home.mkdir(mode=0o555)
    program = (
        "import sys; from pathlib import Path; from flowfabric_client.dev import *\n"
        "try: start_server(data_dir=Path(sys.argv[1]), provider='wheel')\n"
        "except DevServerError as error: print(error)"
    )
    process = python("-c", program, str(home), unprivileged=True)
    sentence = f"The server cannot be started in {home}/run: Permission denied.\n"
    assert first_line(process) == sentence
    process.wait(10)
    assert contents(home) == []


@pytest.mark.parametrize(
    ("prepare", "complaint"),
    [
        (lambda path: path.write_text("a file"), "Not a directory"),
        (lambda path: (path / "thesis").mkdir(parents=True), "holds something else than a server of ours"),
    ],
)
def test_a_directory_of_others_is_refused_untouched(
    workspace: Path, prepare: Prepare, complaint: str
) -> None:
    prepare(workspace / "home")
    before = sorted(workspace.rglob("*"))
    with pytest.raises(DevServerError, match=complaint):
        start_server(data_dir=workspace / "home")
    assert sorted(workspace.rglob("*")) == before


def test_a_directory_of_another_user_is_refused(workspace: Path) -> None:
    foreign = Path("/usr")
    if IS_ROOT:
        foreign = workspace / "home"
        foreign.mkdir()
        os.chown(foreign, 65534, 65534)
    with pytest.raises(DevServerError, match=f"^The data directory {foreign} belongs to user \\w+; run as"):
        start_server(data_dir=foreign)


@pytest.mark.skipif(not IS_ROOT, reason="only root lends an account")
def test_a_directory_that_the_servers_account_cannot_enter_is_refused(workspace: Path) -> None:
    workspace.chmod(0o700)
    with pytest.raises(DevServerError, match=r"^User \w+, who is to run the server, cannot enter /.*home\.$"):
        start_server(data_dir=workspace / "home")
    assert contents(workspace) == []
    assert workspace.stat().st_mode & 0o777 == 0o700


def test_kept_data_survive_every_refusal(workspace: Path) -> None:
    home = workspace / "home"
    start_server(data_dir=home, provider="wheel", version=16, settings=FAST).stop()
    with pytest.raises(DevServerError, match=r"was made by PostgreSQL 16, not 18\.$"):
        start_server(data_dir=home, version=18)
    with pytest.raises(DevServerError, match=r"holds a kept server, so it is not thrown away\.$"):
        start_server(data_dir=home, keep=False)
    with pytest.raises(ServerStartError, match="PostgreSQL 16 did not start: invalid value for parameter"):
        start_server(data_dir=home, settings={"shared_buffers": "nonsense"})
    with start_server(data_dir=home) as server:
        assert query(server, "show server_version_num")[0].startswith("16")


def test_settings_of_our_own_are_refused() -> None:
    with pytest.raises(DevServerError, match=r"made by flowfabric itself: listen_addresses, port\.$"):
        start_server(provider="local", settings={"port": "1", "listen_addresses": "*"})


def test_an_old_version_cannot_be_demanded() -> None:
    with pytest.raises(DevServerError, match=r"is too old: FlowFabric needs 14 or later\.$"):
        start_server(version=13)


def test_an_interpreter_that_cannot_run_the_supervisor_is_reported(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    with pytest.raises(DevServerError, match="/nonexistent/python: No such file or directory"):
        start_server(data_dir=workspace / "home", provider="local")
    assert contents(workspace) == []
