"""Handlers that report what they used, and set it aside before they use it."""

from __future__ import annotations

from contextlib import suppress

import pytest

from flowfabric_client import Client
from flowfabric_client.errors import BudgetExceededError
from flowfabric_client.worker import Context, Worker, events
from tests.worker.flavours import Flavour
from tests.worker.support import FAST, create, lose_an_answer, result_of, running


@pytest.fixture(autouse=True)
def budget(client: Client) -> None:
    """A budget of 100 tokens, of which 80 are worth a warning."""
    client.create_budget("llm", "lane", "default", dimensions=["tokens"], hard_limits=[100], soft_limits=[80])


def usage(client: Client) -> tuple[int, int]:
    """What is used, and what is set aside."""
    (dimension,) = client.get_budget_usage("llm")
    return dimension.current_value, dimension.reserved_value


def test_usage_is_booked_once_per_key_and_never_beyond_a_hard_limit(
    database: str, client: Client, flavour: Flavour
) -> None:
    worker = Worker(database, **FAST)

    @worker.handler("work")
    @flavour
    async def work(ctx: Context) -> list[str]:
        reports = [
            await ctx.report_usage("llm", {"tokens": 30}, key="prompt"),
            await ctx.report_usage("llm", {"tokens": 30}, key="prompt"),
            await ctx.report_usage("llm", {"tokens": 30}),
            await ctx.report_usage("llm", {"tokens": 30}),
            await ctx.report_usage("llm", {"tokens": 30}),
        ]
        assert (reports[-1].dimension, reports[-1].limit_value) == ("tokens", 100)
        return [report.outcome for report in reports]

    ids = [create(client, "work")]
    with running(worker) as run:
        run.wait_for(events.Completed)
        assert usage(client) == (90, 0)
        client.reset_budget("llm")
        # The key is the execution's own: another one books again.
        ids.append(create(client, "work"))
        run.wait_for(events.Completed, 2)
    expected = b'["ok", "already_applied", "ok", "soft_breach", "hard_breach"]'
    assert [result_of(client, execution_id) for execution_id in ids] == [expected] * 2
    assert usage(client) == (90, 0)


def test_usage_whose_answer_was_lost_is_booked_once(
    database: str, client: Client, monkeypatch: pytest.MonkeyPatch, flavour: Flavour
) -> None:
    lose_an_answer(monkeypatch, flavour.client, "report_usage_and_check")
    worker = Worker(database, **FAST)

    @worker.handler("work")
    @flavour
    async def work(ctx: Context) -> str:
        return (await ctx.report_usage("llm", {"tokens": 30})).outcome

    execution_id = create(client, "work")
    with running(worker) as run:
        run.wait_for(events.Completed)
    assert result_of(client, execution_id) == b"already_applied"
    assert usage(client) == (30, 0)


def test_a_reservation_is_settled_or_given_back(database: str, client: Client, flavour: Flavour) -> None:
    worker = Worker(database, **FAST)
    seen: list[tuple[int, int]] = []

    @worker.handler("work")
    @flavour
    async def work(ctx: Context) -> dict[str, object]:
        async with ctx.reserve("llm", {"tokens": 60}) as reservation:
            seen.append(usage(client))
            settled = await reservation.settle({"tokens": 25})
            seen.append(usage(client))
        async with ctx.reserve("llm", {"tokens": 75}):
            seen.append(usage(client))
        seen.append(usage(client))
        with suppress(ZeroDivisionError):
            async with ctx.reserve("llm", {"tokens": 10}):
                seen.append(usage(client))
                _ = 1 / 0
        seen.append(usage(client))
        try:
            async with ctx.reserve("llm", {"tokens": 76}):
                seen.append((-1, -1))
        except BudgetExceededError as error:
            return {"settled": settled.outcome, **error.details}
        return {}

    execution_id = create(client, "work")
    with running(worker) as run:
        run.wait_for(events.Completed)
    assert seen == [(0, 60), (25, 0), (25, 75), (25, 0), (25, 10), (25, 0)]
    assert result_of(client, execution_id) == (
        b'{"settled": "settled", "budget_id": "llm", "dimension": "tokens", "current_usage": 25,'
        b' "reserved_usage": 0, "limit_value": 100, "action": "fail"}'
    )


@pytest.mark.parametrize("method", ["reserve_budget", "settle_reservation", "release_reservation"])
def test_a_reservation_survives_a_lost_answer(
    database: str, client: Client, monkeypatch: pytest.MonkeyPatch, flavour: Flavour, method: str
) -> None:
    answers = lose_an_answer(monkeypatch, flavour.client, method)
    worker = Worker(database, **FAST)

    @worker.handler("work")
    @flavour
    async def work(ctx: Context) -> None:
        async with ctx.reserve("llm", {"tokens": 60}) as reservation:
            await reservation.settle({"tokens": 25})
        async with ctx.reserve("llm", {"tokens": 60}):
            pass

    create(client, "work")
    with running(worker) as run:
        run.wait_for(events.Completed)
    assert [answer.outcome for answer in answers][:2] in (
        ["reserved", "already_reserved"],
        ["settled", "already_settled"],
        ["released", "already_released"],
    )
    assert usage(client) == (25, 0)


def test_suspending_gives_a_reservation_back(database: str, client: Client, flavour: Flavour) -> None:
    client.seed_waitpoint_hmac_secret("k1")
    worker = Worker(database, **FAST)

    @worker.handler("work")
    @flavour
    async def work(ctx: Context) -> None:
        async with ctx.reserve("llm", {"tokens": 60}):
            await ctx.suspend("question")

    create(client, "work")
    with running(worker) as run:
        run.wait_for(events.WasSuspended)
        assert run.all(events.LeaseWasLost) == []
    assert usage(client) == (0, 0)


def test_completing_in_a_transaction_gives_a_reservation_back(
    database: str, client: Client, flavour: Flavour
) -> None:
    worker = Worker(database, **FAST)

    @worker.handler("work")
    @flavour
    async def work(ctx: Context) -> None:
        async with ctx.reserve("llm", {"tokens": 60}), ctx.transaction() as tx:
            await ctx.complete_in(tx)

    create(client, "work")
    with running(worker) as run:
        run.wait_for(events.Completed)
        assert run.all(events.LeaseWasLost) == []
    assert usage(client) == (0, 0)
