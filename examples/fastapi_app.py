"""FastAPI: a request creates work in the transaction of its own rows; the worker lives in the same process.

    pip install fastapi uvicorn
    flowfabric dev                                   # in one terminal; prints the connection string
    export FLOWFABRIC_DSN=postgresql://...           # in another one
    uvicorn --app-dir examples fastapi_app:app
    curl -X POST localhost:8000/reports -H 'content-type: application/json' -d '{"subject": "whales"}'
    curl localhost:8000/reports/1

One process for both is the simplest deployment. To scale them apart, leave `running_worker` out of the
lifespan and start `flowfabric worker fastapi_app:worker` as often as you like.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, HTTPException
from pydantic import BaseModel

from flowfabric_client import AsyncClient
from flowfabric_client.worker import Context, Worker

DSN = os.environ.get("FLOWFABRIC_DSN", "")

worker = Worker(DSN, lanes=["reports"])


class ReportRequest(BaseModel):
    """What a report is about."""

    subject: str


class Report(BaseModel):
    """A report, as far as it has come."""

    id: int
    subject: str
    text: str | None


class WriteReport(BaseModel):
    """The payload of the work: validated when it is created and again when it is run."""

    report_id: int
    subject: str


@worker.handler("write_report")
async def write_report(ctx: Context, payload: WriteReport) -> None:
    """Write it, and commit that together with the end of the execution."""
    text = f"Everything about {payload.subject}."
    async with ctx.transaction() as tx:
        await tx.connection.execute("update report set text = %s where id = %s", [text, payload.report_id])
        await ctx.complete_in(tx)


@asynccontextmanager
async def running_worker() -> AsyncIterator[None]:
    """The worker in the event loop of the application; it drains when the application stops."""
    running = asyncio.create_task(worker.run())
    try:
        yield
    finally:
        worker.stop()
        await running


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """A client for the requests and a worker for what they ask for."""
    async with AsyncClient(DSN) as client:
        async with client.transaction() as tx:
            await tx.connection.execute(
                "create table if not exists report (id integer generated always as identity primary key,"
                " subject text not null, text text)"
            )
        app.state.client = client
        async with running_worker():
            yield


app = FastAPI(lifespan=lifespan)


@app.post("/reports", status_code=202)
async def ask_for_report(request: ReportRequest) -> Report:
    """Store the report and ask for its text: one commit."""
    async with app.state.client.transaction() as tx:
        inserted = await tx.connection.execute(
            "insert into report (subject) values (%s) returning id", [request.subject]
        )
        (report_id,) = await inserted.fetchone()
        work = WriteReport(report_id=report_id, subject=request.subject)
        await tx.create_execution("write_report", payload=work.model_dump_json().encode(), lane_id="reports")
    return Report(id=report_id, subject=request.subject, text=None)


@app.get("/reports/{report_id}")
async def read_report(report_id: int) -> Report:
    """The report, as far as it has come."""
    async with app.state.client.transaction() as tx:
        found = await tx.connection.execute("select id, subject, text from report where id = %s", [report_id])
        row = await found.fetchone()
    if row is None:
        raise HTTPException(404, "There is no such report.")
    return Report(id=row[0], subject=row[1], text=row[2])
