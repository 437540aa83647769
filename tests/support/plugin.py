"""The pytest plugin of this repository: the server of a run, and pgTAP files as tests."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cluster import Cluster, HarnessError
from tests.support.pgtap import find_psql, run_pgtap

_CLUSTER = pytest.StashKey[Cluster]()
_CLUSTER_FAILURE = pytest.StashKey[str]()


def pytest_configure(config: pytest.Config) -> None:
    # A shell starts background jobs with SIGINT ignored, and programs started by a test would inherit that.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.addinivalue_line("markers", "gate: a check of the sources that needs no server (tools/lint)")
    if os.environ.get("FLOWFABRIC_TEST_DSN") and config.getoption("numprocesses", None):
        raise pytest.UsageError(
            "FLOWFABRIC_TEST_DSN names one server, and parallel tests need one each: use -n 0."
        )


def pytest_unconfigure(config: pytest.Config) -> None:
    cluster = config.stash.get(_CLUSTER, None)
    if cluster is not None:
        cluster.stop()


def cluster_of(config: pytest.Config) -> Cluster:
    """The server of this test process; the first test that needs it starts it."""
    if failure := config.stash.get(_CLUSTER_FAILURE, None):
        raise HarnessError(failure)
    if _CLUSTER not in config.stash:
        try:
            config.stash[_CLUSTER] = Cluster.start()
        except Exception as error:
            # Every other test would try again, wait as long, and fail alike.
            config.stash[_CLUSTER_FAILURE] = str(error)
            raise
    return config.stash[_CLUSTER]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # The gates take longest, so a parallel run that starts with them does not end waiting for them.
    items.sort(key=lambda item: item.get_closest_marker("gate") is None)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> PgTapFile | None:
    in_suite = file_path.is_relative_to(parent.config.rootpath / "pgtap")
    is_test = in_suite and file_path.suffix == ".sql" and file_path.name != "helpers.sql"
    return PgTapFile.from_parent(parent, path=file_path) if is_test else None


class PgTapFile(pytest.File):
    """A pgTAP file: one test."""

    def collect(self) -> Iterator[pytest.Item]:
        yield PgTapItem.from_parent(self, name="pgtap")


class PgTapError(Exception):
    """The file did not pass; the message holds every reason."""


class PgTapItem(pytest.Item):
    """The run of a pgTAP file in a database of its own."""

    def runtest(self) -> None:
        cluster = cluster_of(self.config)
        with cluster.database(cluster.pgtap_template) as dsn:
            run = run_pgtap(self.path, dsn=dsn, psql=find_psql(cluster.bin_dir))
        if run.problems:
            self.add_report_section("call", "TAP", run.output)
            raise PgTapError("\n\n".join(run.problems))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: object = None) -> str:
        if isinstance(excinfo.value, PgTapError | HarnessError):
            return str(excinfo.value)
        return str(super().repr_failure(excinfo))

    def reportinfo(self) -> tuple[Path, int | None, str]:
        return self.path, None, str(self.path.relative_to(self.config.rootpath))
