"""Servers that are started here: what they are, where they listen, what stays of them."""

from __future__ import annotations

import multiprocessing
import os
import pwd
import socket
import time
from pathlib import Path

import psycopg
import pytest

from flowfabric_client.dev import PostgresServer, ProviderName, start_server
from flowfabric_client.dev.home import default_data_dir
from tests.dev.support import FAST, IS_ROOT, first_line, is_running, python, query, server_pid


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.parametrize(("provider", "version"), [("local", None), ("wheel", 16), ("wheel", 18)])
def test_a_throw_away_server_starts_serves_and_leaves_nothing(
    provider: ProviderName, version: int | None
) -> None:
    with start_server(provider=provider, version=version, settings=FAST) as server:
        pid = server_pid(server.data_dir)
        assert server.provider == provider
        assert version in (None, server.version)
        assert query(server, "show server_version_num")[0].startswith(str(server.version))
        assert query(server, "select current_user, inet_server_addr()") == ("postgres", None)
        assert query(server, "show listen_addresses") == ("",)
        assert query(server, "show fsync") == ("off",)
        assert query(server, "show server_encoding") == ("UTF8",)
        assert query(server, "select datcollate from pg_database where datname = 'postgres'") == ("C",)
        assert server.bin_dir is not None
        assert (server.bin_dir / "postgres").is_file()
        assert "ready to accept connections" in server.log_tail()
        # It has copies of all our descriptors and delays nothing.
        forked_child = multiprocessing.get_context("fork").Process(target=time.sleep, args=[60])
        forked_child.start()
    assert forked_child.is_alive()
    forked_child.kill()
    forked_child.join()
    assert not is_running(pid)
    assert server.data_dir is not None
    assert not server.data_dir.exists()
    server.stop()


def test_a_kept_data_directory_is_served_again_by_its_own_version(workspace: Path) -> None:
    home = workspace / "not" / "yet" / "there"
    with start_server(data_dir=home, provider="wheel", version=18) as server:
        assert [query(server, f"show {name}")[0] for name in FAST] == ["on", "on", "on"]
        with psycopg.connect(server.dsn()) as connection:
            connection.execute("create table kept as select 7 as n")
    with start_server(data_dir=home) as server:
        assert (server.version, server.provider, server.data_dir) == (18, "wheel", home)
        assert query(server, "select n from kept") == (7,)
        assert "database system was shut down" in server.log_tail()
    assert "ready to accept connections" in (home / "server.log.old").read_text()


def test_a_port_is_open_to_the_holder_of_the_password_only(workspace: Path) -> None:
    port = free_port()
    with start_server(data_dir=workspace / "home", provider="local", port=port) as server:
        assert query(server, "select host(inet_server_addr()), inet_server_port()") == ("127.0.0.1", port)
        secret = (workspace / "home" / "password").read_text()
        assert (workspace / "home" / "password").stat().st_mode & 0o077 == 0
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            psycopg.connect(server.dsn().replace(secret, "guess"))
        first_dsn = server.dsn("flowfabric")
    with start_server(data_dir=workspace / "home", port=port) as server:
        assert server.dsn("flowfabric") == first_dsn
        assert query(server, "select 1") == (1,)


@pytest.mark.parametrize("name", ['with space, comma and "quote"', "long-" * 25])
def test_any_path_can_be_a_data_directory(workspace: Path, name: str) -> None:
    with start_server(data_dir=workspace / name, provider="local", settings=FAST) as server:
        (socket_dir,) = query(server, "select trim('\"' from current_setting('unix_socket_directories'))")
        assert query(server, "select 1") == (1,)
    # A socket directory elsewhere would be litter.
    assert not Path(socket_dir).exists() or Path(socket_dir).is_relative_to(workspace)


def test_nobody_else_can_reach_the_socket_or_the_log(running: PostgresServer) -> None:
    assert running.data_dir is not None
    assert (running.data_dir / "run").stat().st_mode & 0o777 == 0o700
    assert (running.data_dir / "pgdata").stat().st_mode & 0o777 == 0o700
    assert (running.data_dir / "server.log").stat().st_mode & 0o777 == 0o600
    assert running.data_dir.stat().st_uid == os.geteuid()
    assert running.data_dir.stat().st_mode & 0o066 == 0


def test_a_forked_child_cannot_stop_its_parents_server(running: PostgresServer) -> None:
    child = multiprocessing.get_context("fork").Process(target=running.stop)
    child.start()
    child.join(10)
    assert child.exitcode == 0
    assert query(running, "select 1") == (1,)


@pytest.mark.parametrize("provider", ["local", "wheel"])
def test_an_unprivileged_user_runs_the_server_as_himself(provider: str) -> None:
    program = (
        "import os, sys\n"
        "from flowfabric_client.dev import start_server\n"
        "with start_server(provider=sys.argv[1], settings={'fsync': 'off'}) as server:\n"
        "    assert os.geteuid() != 0\n"
        "    assert (server.data_dir / 'pgdata').stat().st_uid == os.geteuid()\n"
        "    assert 'ready to accept connections' in server.log_tail()\n"
        "    print(server.provider)"
    )
    process = python("-c", program, provider, unprivileged=True)
    assert first_line(process) == f"{provider}\n"
    assert process.wait(30) == 0


@pytest.mark.skipif(not IS_ROOT, reason="only root lends an account")
def test_root_lends_the_account_nobody_where_there_is_no_postgres(monkeypatch: pytest.MonkeyPatch) -> None:
    getpwnam = pwd.getpwnam

    def without_postgres(name: str) -> pwd.struct_passwd:
        if "postgres" in name:
            raise KeyError(name)
        return getpwnam(name)

    monkeypatch.setattr(pwd, "getpwnam", without_postgres)
    with start_server(provider="wheel", settings=FAST) as server:
        assert server.data_dir is not None
        assert (server.data_dir / "pgdata").owner() == "nobody"
        assert query(server, "select 1") == (1,)


def test_the_default_data_directory_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", "/somewhere/data")
    assert default_data_dir() == Path("/somewhere/data/flowfabric/dev")
    monkeypatch.delenv("XDG_DATA_HOME")
    base = Path("/var/lib") if IS_ROOT else Path.home() / ".local/share"
    assert default_data_dir() == base / "flowfabric/dev"
