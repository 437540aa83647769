"""An installed wheel migrates a database: no checkout, no network."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from flowfabric_client.install import SqlSources
from tests.support.cluster import REPOSITORY, Cluster

APPLICATION_TEST = """
import sys

import flowfabric_client
from flowfabric_client.worker import Context


def test_a_job_runs(flowfabric):
    worker = flowfabric.worker()

    @worker.handler("job")
    async def job(ctx: Context) -> None:
        pass

    flowfabric.client.create_execution("job")
    assert [run.outcome for run in flowfabric.run_until_idle(worker)] == ["completed"]
    assert flowfabric_client.__file__.startswith(sys.prefix)
"""


@pytest.fixture(scope="module")
def installed_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The root of an environment in which nothing but our wheel is installed."""
    work = tmp_path_factory.mktemp("wheel")
    build = [
        sys.executable,
        "-m",
        "build",
        "--wheel",
        "--no-isolation",
        "--outdir",
        str(work),
        str(REPOSITORY),
    ]
    subprocess.run(build, check=True, capture_output=True, text=True)
    (wheel,) = work.glob("*.whl")
    environment = work / "environment"
    venv.create(environment, with_pip=False)
    site_packages = Path(sysconfig.get_path("purelib", vars={"base": str(environment)}))
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(environment),
        "install",
        "--quiet",
        "--no-index",
        "--no-deps",
    ]
    subprocess.run([*pip, str(wheel)], check=True, capture_output=True, text=True)
    # The dependencies are lent by the environment of the tests; our package comes first, from the wheel.
    (site_packages / "lent.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return environment


def run(environment: Path, cwd: Path, *args: str, **variables: str) -> subprocess.CompletedProcess[str]:
    env = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "PG", "FLOWFABRIC"))
    }
    return subprocess.run(
        [str(environment / "bin" / args[0]), *args[1:]],
        cwd=cwd,
        env={**env, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_wheel_installs_the_engine_from_its_own_files(
    installed_wheel: Path, empty_database: str, tmp_path: Path
) -> None:
    where = run(
        installed_wheel,
        tmp_path,
        "python",
        "-c",
        "from flowfabric_client._sql import SqlSources; print(SqlSources.shipped().plpgsql_dir)",
    )
    assert Path(where.stdout.strip()).is_relative_to(installed_wheel.resolve()), where.stderr

    migrated = run(installed_wheel, tmp_path, "flowfabric", "migrate", "--dsn", empty_database, "--json")
    assert migrated.returncode == 0, migrated.stdout + migrated.stderr
    report = json.loads(migrated.stdout)
    assert report["changed"]
    assert report["digest"] == SqlSources.shipped().digest(with_test_clock=False)

    status = run(installed_wheel, tmp_path, "flowfabric", "status", "--dsn", empty_database)
    assert status.returncode == 0, status.stdout + status.stderr


def test_pytest_finds_the_fixture_of_the_wheel(
    installed_wheel: Path, server: Cluster, tmp_path: Path
) -> None:
    (tmp_path / "test_application.py").write_text(APPLICATION_TEST, encoding="utf-8")
    tested = run(installed_wheel, tmp_path, "python", "-m", "pytest", "-q", FLOWFABRIC_TEST_DSN=server.dsn())
    assert tested.returncode == 0, tested.stdout + tested.stderr


def test_the_wheel_holds_the_sql_and_nothing_of_the_tests(installed_wheel: Path) -> None:
    (package,) = installed_wheel.glob("lib/*/site-packages/flowfabric_client")
    shipped = SqlSources.shipped()
    for directory in (shipped.migrations_dir, shipped.plpgsql_dir):
        in_wheel = package / "_sql_files" / directory.name
        relative = {path.relative_to(directory) for path in directory.rglob("*.sql")}
        assert {path.relative_to(in_wheel) for path in in_wheel.rglob("*.sql")} == relative
    assert not (package.parent / "tests").exists()
