"""Installations in the middle of everything: as a release left them, and after the upgrade."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg
import pytest

from flowfabric_client.install import migrate
from tests.support.cluster import Cluster, Connection
from tests.upgrade.baseline import Baseline, baselines
from tests.upgrade.world import World


@dataclass
class Template:
    """A database to clone: a schema and data of every kind."""

    baseline: Baseline
    name: str
    world: World


@dataclass
class Installation:
    """A database of the test."""

    baseline: Baseline
    world: World
    dsn: str
    db: Connection


@pytest.fixture(scope="session", params=baselines(), ids=lambda baseline: f"schema-{baseline.schema_version}")
def _old(request: pytest.FixtureRequest, server: Cluster) -> Template:
    baseline: Baseline = request.param
    name = server.create_database()
    baseline.install(server.dsn(name))
    with psycopg.connect(server.dsn(name), autocommit=True) as db:
        return Template(baseline, name, World.build(db))


@pytest.fixture(scope="session")
def _upgraded(server: Cluster, _old: Template) -> Template:
    name = server.create_database(_old.name)
    migrate(server.dsn(name))
    return Template(_old.baseline, name, _old.world)


@contextmanager
def _clone(server: Cluster, template: Template) -> Iterator[Installation]:
    with server.database(template.name) as dsn, psycopg.connect(dsn, autocommit=True) as db:
        yield Installation(template.baseline, template.world, dsn, db)


@pytest.fixture
def old(server: Cluster, _old: Template) -> Iterator[Installation]:
    """Each released schema in turn, with data of every kind."""
    with _clone(server, _old) as installation:
        yield installation


@pytest.fixture
def upgraded(server: Cluster, _upgraded: Template) -> Iterator[Installation]:
    """The same after the upgrade to the current schema."""
    with _clone(server, _upgraded) as installation:
        yield installation
