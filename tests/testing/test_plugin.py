"""The pytest plugin in projects that are not this one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from flowfabric_client import dev, pytest_plugin
from tests.support.cluster import Cluster

CONFTEST = """
    import psycopg
    import pytest


    @pytest.fixture(scope="session")
    def flowfabric_setup():
        def make_tables(dsn):
            with psycopg.connect(dsn) as connection:
                connection.execute("create table mail (id bigint generated always as identity, address text)")

        return make_tables
"""
JOBS = """
    from flowfabric_client.worker import Context, Worker

    worker = Worker("postgresql://production.invalid/app")


    @worker.handler("send_mail")
    async def send_mail(ctx: Context, payload: str) -> None:
        if ctx.attempt_index == 0:
            raise ConnectionError("the mail server is away")
        async with ctx.transaction() as tx:
            await tx.connection.execute("insert into mail (address) values (%s)", [payload])
            await ctx.complete_in(tx)
"""
TESTS = """
    from datetime import timedelta

    import psycopg
    import pytest

    import jobs

    POLICY = {"retry_policy": {"max_retries": 1, "backoff": {"type": "fixed", "delay_ms": 600_000}}}


    @pytest.mark.parametrize("number", range(2))
    def test_a_mail_is_sent_after_ten_minutes(flowfabric, number):
        flowfabric.client.create_execution("send_mail", payload=b"ada@example.org", policy=POLICY)
        flowfabric.freeze_time()
        assert [run.outcome for run in flowfabric.run_until_idle(jobs.worker)] == ["retrying"]
        flowfabric.advance(timedelta(minutes=10))
        assert [run.outcome for run in flowfabric.run_until_idle(jobs.worker)] == ["completed"]
        with psycopg.connect(flowfabric.dsn) as connection:
            assert connection.execute("select address from mail").fetchall() == [("ada@example.org",)]
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A project with one worker and its tests, that knows nothing of ours."""
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(jobs=JOBS, test_jobs=TESTS)
    for variable in [name for name in os.environ if name.startswith(("FLOWFABRIC", "PYTEST_XDIST"))]:
        monkeypatch.delenv(variable)
    return pytester


def test_the_tests_of_an_application_run_in_parallel_processes(
    project: pytest.Pytester, server: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLOWFABRIC_TEST_DSN", server.dsn())
    result = project.runpytest_subprocess("-n", "2")
    result.assert_outcomes(passed=2)


def test_a_test_that_gets_no_server_is_told_what_to_install(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dev, "PROVIDERS", ("env",))
    result = project.runpytest_inprocess()
    result.assert_outcomes(errors=2)
    message = (
        "No Postgres can be had: FLOWFABRIC_TEST_DSN is not set; install * flowfabric-client[[]embedded[]]."
    )
    result.stdout.fnmatch_lines([message])


def test_the_plugin_can_be_switched_off(project: pytest.Pytester) -> None:
    result = project.runpytest_inprocess("-p", "no:flowfabric")
    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines(["*fixture 'flowfabric' not found*"])


def test_loading_the_plugin_loads_no_driver(tmp_path: Path) -> None:
    plugin = pytest_plugin.__name__
    script = f"import sys, {plugin}; print({{'flowfabric_client.client', 'psycopg'}} & set(sys.modules))"
    loaded = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert loaded.stdout.strip() == "set()"
