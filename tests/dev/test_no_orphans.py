"""Whatever becomes of the process that started a server, the server does not outlive it."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.dev.support import eventually, first_line, is_running, python

OWNER = """
import json, os, sys, time
from pathlib import Path
from flowfabric_client.dev import start_server
data_dir = Path(sys.argv[1]) if len(sys.argv) > 1 else None
server = start_server(data_dir=data_dir, provider="local", settings={"fsync": "off"})
heir = os.fork() if sys.argv[2:] == ["fork"] else None
if heir == 0:
    time.sleep(60)
pid = int((server.data_dir / "pgdata" / "postmaster.pid").read_text().splitlines()[0])
supervisor = server._process._process.pid
facts = {"pid": pid, "supervisor": supervisor, "data_dir": str(server.data_dir), "heir": heir}
print(json.dumps(facts), flush=True)
"""
THEN_SLEEP = "time.sleep(60)"


def start_owner(*arguments: str, then: str = THEN_SLEEP) -> tuple[subprocess.Popen[str], dict[str, Any]]:
    process = python("-c", OWNER + then, *arguments)
    facts: dict[str, Any] = json.loads(first_line(process))
    assert is_running(facts["pid"])
    return process, facts


def is_unlocked(directory: Path) -> bool:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


def test_a_killed_owner_leaves_no_server_and_no_directory() -> None:
    owner, facts = start_owner()
    owner.kill()
    assert owner.wait(5) == -signal.SIGKILL
    assert eventually(lambda: not is_running(facts["pid"]))
    assert eventually(lambda: not is_running(facts["supervisor"]))
    assert not Path(facts["data_dir"]).exists()


def test_a_killed_owner_leaves_a_kept_data_directory_shut_down_cleanly(workspace: Path) -> None:
    # The forked child lives on with a copy of the owner's end of the pipe.
    owner, facts = start_owner(str(workspace / "home"), "fork")
    try:
        owner.kill()
        assert eventually(lambda: not is_running(facts["supervisor"]))
        assert not is_running(facts["pid"])
        assert is_running(facts["heir"])
    finally:
        os.kill(facts["heir"], signal.SIGKILL)
        owner.wait(5)
    assert "database system is shut down" in (workspace / "home" / "server.log").read_text()
    assert (workspace / "home" / "pgdata" / "PG_VERSION").exists()


def test_an_owner_that_forgets_to_stop_leaves_no_server() -> None:
    owner, facts = start_owner(then="")
    assert owner.wait(10) == 0
    assert eventually(lambda: not is_running(facts["supervisor"]))
    assert not is_running(facts["pid"])
    assert not Path(facts["data_dir"]).exists()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process that its parent has died")
def test_a_killed_supervisor_leaves_no_server(workspace: Path) -> None:
    owner, facts = start_owner(str(workspace / "home"))
    os.kill(facts["supervisor"], signal.SIGKILL)
    assert eventually(lambda: not is_running(facts["pid"]))
    owner.kill()
    owner.wait(5)


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGINT])
def test_an_owner_that_ends_while_the_data_directory_is_made_leaves_none(
    workspace: Path, signum: signal.Signals
) -> None:
    for number in range(10):
        home = workspace / f"home{number}"
        home.mkdir()
        owner = python("-c", OWNER, str(home))
        assert eventually((home / "pgdata.new" / "PG_VERSION").exists)
        os.killpg(owner.pid, signum)
        ended = owner.wait(10)
        if not (home / "pgdata").exists():
            break
        # On a busy machine the directory may be finished before the signal arrives: that is another test.
    assert ended in (-signum, 1)
    assert eventually(lambda: not (home / "pgdata.new").exists())
    assert not (home / "pgdata").exists()
    # The lock on the directory is the supervisor's, who goes last.
    assert eventually(lambda: is_unlocked(home))
