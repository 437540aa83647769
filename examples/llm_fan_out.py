"""LLM fan-out: several models are asked at once, three answers are enough, and tokens are limited.

- A flow asks every model. Its last task starts with the third answer, and what is still running is cancelled.
- Tokens are set aside before a model is called, so that parallel workers together cannot pass the hard limit.
- The words of an answer are streamed, and anybody may follow them live.

The models are fake: no key and no network is needed. The first question is answered; for the second one the
budget has too little left, so it is not.

    flowfabric dev                                   # in one terminal; prints the connection string
    export FLOWFABRIC_DSN=postgresql://...           # in another one
    python examples/llm_fan_out.py
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

from flowfabric_client import AsyncClient, Flow
from flowfabric_client.errors import BudgetExceededError
from flowfabric_client.worker import Context, PermanentError, Worker

DSN = os.environ.get("FLOWFABRIC_DSN", "")
MODELS = ("ada", "blaise", "charles", "dorothy", "edsger")
ENOUGH = 3
WORDS = 20

worker = Worker(DSN, lanes=["models"], concurrency=len(MODELS))


async def fake_model(name: str, question: str) -> AsyncIterator[str]:
    """Say something word by word. One model is out of order, and one is slow."""
    if name == "dorothy":
        raise ConnectionError("dorothy is out of order")
    for number in range(WORDS):
        await asyncio.sleep(0.2 if name == "edsger" else 0.005)
        yield f"{question.split()[number % len(question.split())]} "


@worker.handler("ask")
async def ask(ctx: Context, payload: dict[str, Any]) -> None:
    """Let one model answer, and store the answer together with the end of the task."""
    try:
        async with ctx.reserve(payload["budget"], {"tokens": WORDS}) as reservation:
            words = []
            async for word in fake_model(payload["model"], payload["question"]):
                await ctx.stream(word)
                words.append(word)
            await reservation.settle({"tokens": len(words)})
    except BudgetExceededError as error:
        raise PermanentError(f"no {error.details['dimension']} left for {payload['model']}") from error
    async with ctx.transaction() as tx:
        await tx.connection.execute(
            "insert into answer values (%s, %s, %s)",
            [payload["flow"], payload["model"], "".join(words).strip()],
        )
        await ctx.complete_in(tx)


@worker.handler("choose")
async def choose(ctx: Context, payload: dict[str, Any]) -> dict[str, Any]:
    """Take the longest of the answers."""
    await ctx.report_usage(payload["budget"], {"choices": 1}, key="choice")
    async with ctx.transaction() as tx:
        found = await tx.connection.execute(
            "select text from answer where flow = %s order by length(text) desc", [payload["flow"]]
        )
        answers = await found.fetchall()
    return {"answers": len(answers), "best": answers[0][0]}


def question_flow(question: str, budget: str) -> Flow:
    """Ask every model; choose as soon as enough have answered."""
    flow = Flow(kind="question", lane="models")
    common = {"flow": str(flow.flow_id), "budget": budget, "question": question}
    for model in MODELS:
        flow = flow.task(f"ask-{model}", kind="ask", payload={**common, "model": model})
    asks = flow.names
    return flow.quorum("choose", k=ENOUGH, after=asks, cancel_remaining=True, payload=common)


async def ask_all(client: AsyncClient, question: str, budget: str) -> None:
    """Submit a question, follow one of the answers, and print what came of it."""
    submitted = await client.submit_flow(question_flow(question, budget).to_json())
    members = {member.name: member.execution_id for member in submitted}
    print(f"{question}\n  ada says:", end=" ")
    async for frame in client.tail_stream(members["ask-ada"]):
        print(frame.payload.decode(), end="", flush=True)
    ended = await client.wait(members["choose"])
    print(f"\n  {ended.state}: {(ended.result or b'not enough answers').decode()}")
    for usage in await client.get_budget_usage(budget):
        print(f"  {usage.dimension}: {usage.current_value} of {usage.hard_limit or 'any number'}")


async def main() -> None:
    """Ask two questions with one budget."""
    async with AsyncClient(DSN) as client:
        async with client.transaction() as tx:
            await tx.connection.execute(
                "create table if not exists answer (flow uuid, model text, text text)"
            )
        budget = f"tokens-{uuid4()}"
        await client.create_budget(
            budget,
            "lane",
            "models",
            dimensions=["tokens", "choices"],
            hard_limits=[WORDS * len(MODELS), 0],
            soft_limits=[0, 0],
        )
        working = asyncio.create_task(worker.run())
        await ask_all(client, "What is a durable execution good for", budget)
        await ask_all(client, "And why in a database", budget)
        worker.stop()
        await working


if __name__ == "__main__":
    asyncio.run(main())
