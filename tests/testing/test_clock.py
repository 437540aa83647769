"""The engine's clock in the hands of a test."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from flowfabric_client.testing import FlowFabric

NEW_YEAR = datetime(2030, 1, 1, tzinfo=UTC)
NEW_YEAR_MS = 1_893_456_000_000


@pytest.mark.parametrize(
    "when", [NEW_YEAR, NEW_YEAR_MS, datetime(2030, 1, 1, 2, tzinfo=timezone(timedelta(hours=2)))]
)
def test_time_stands_where_it_was_frozen(flowfabric: FlowFabric, when: datetime | int) -> None:
    assert flowfabric.freeze_time(when) == NEW_YEAR
    assert flowfabric.now == NEW_YEAR
    assert flowfabric.now_ms == NEW_YEAR_MS
    created = flowfabric.client.create_execution("echo").execution_id
    described = flowfabric.client.describe_execution(created)
    assert described is not None
    assert described.created_at_ms == NEW_YEAR_MS


@pytest.mark.parametrize("by", [timedelta(seconds=90), 90_000])
def test_frozen_time_moves_by_what_it_is_told(flowfabric: FlowFabric, by: timedelta | int) -> None:
    flowfabric.freeze_time(NEW_YEAR)
    assert flowfabric.advance(by) == NEW_YEAR + timedelta(seconds=90)


def test_time_freezes_at_the_present_and_runs_again(flowfabric: FlowFabric) -> None:
    before = flowfabric.now
    frozen = flowfabric.freeze_time()
    assert frozen >= before
    assert flowfabric.now == frozen
    flowfabric.advance(timedelta(days=1))
    assert flowfabric.unfreeze_time() < frozen + timedelta(days=1)


def test_running_time_can_be_moved_too(flowfabric: FlowFabric) -> None:
    before = flowfabric.now
    assert flowfabric.advance(timedelta(days=1)) >= before + timedelta(days=1)


def test_a_time_without_a_zone_is_refused(flowfabric: FlowFabric) -> None:
    with pytest.raises(ValueError, match="has no time zone"):
        flowfabric.freeze_time(datetime(2030, 1, 1))


def test_time_does_not_go_back_by_advancing(flowfabric: FlowFabric) -> None:
    with pytest.raises(Exception, match="out_of_range"):
        flowfabric.advance(timedelta(seconds=-1))
