"""What the demo and its workers agree on."""

from flowfabric_client.flow import Flow

LANE = "demo"
LEASE_TTL_MS = 1_500
WORKERS = ("ada", "grace", "barbara")
DRAFTS = 6
QUORUM = 4
THUMBNAILS = 300
TEXT = "A stale worker can change nothing, because the database compares its fence on every write."

BUDGET = "draft-tokens"
RESERVED_TOKENS = 100
USED_TOKENS = 90
# Room for five drafts, finished or not: the sixth is refused.
TOKEN_LIMIT = 500

TABLES = """
create schema demo;
create table demo.inbox (execution_id text primary key, waitpoint_id uuid not null, token text not null);
create table demo.article (text text not null);
"""


def article() -> Flow:
    """One source, several drafts, the first four of which are enough, a person, a publication."""
    flow = Flow(namespace="demo", lane=LANE).task("collect")
    drafts = [f"draft-{number}" for number in range(1, DRAFTS + 1)]
    for number, name in enumerate(drafts):
        # Of different lengths, so that they do not all end at once.
        payload = {"author": name, "seconds": 1.6 + 0.2 * number}
        flow = flow.task(name, kind="draft", after=["collect"], payload=payload)
    return (
        flow.quorum("choose", k=QUORUM, after=drafts, payload_from=drafts, cancel_remaining=True)
        .task("approve", after=["choose"], payload_from=["choose"])
        .task("publish", after=["approve"], payload_from=["approve"])
    )
