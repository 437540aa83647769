"""What flows do, said a second time: a model of spec 30 in Python that shares nothing with the engine.

`evaluate` is the declarative half: without cancel_remaining the ends of all members follow from the graph.
`Model` is the operational half: one event after another, as the engine handles them, cancels and replays too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

ENDED = {
    "success": "completed",
    "failed": "failed",
    "cancelled": "cancelled",
    "expired": "expired",
    "skipped": "skipped",
}
OUTCOME_OF = {state: outcome for outcome, state in ENDED.items()}


@dataclass(frozen=True)
class Join:
    """How a member judges its upstreams."""

    kind: str = "all_of"
    k: int | None = None
    on_satisfied: str | None = None

    def needed(self, inputs: int) -> int:
        """How many upstreams must succeed."""
        return {"all_of": inputs, "any_of": 1, "quorum": self.k or 0}[self.kind]

    def document(self) -> dict[str, object]:
        """The join as a document of ff_submit_flow says it."""
        said = {"kind": self.kind, "k": self.k, "on_satisfied": self.on_satisfied}
        return {key: value for key, value in said.items() if value is not None}


@dataclass(frozen=True)
class Graph:
    """Members in topological order, the upstreams of each, and its join."""

    members: Sequence[str]
    upstreams: Mapping[str, Sequence[str]]
    joins: Mapping[str, Join]

    @property
    def edges(self) -> list[tuple[str, str]]:
        return [(up, down) for down in self.members for up in self.upstreams[down]]


def evaluate(graph: Graph, plan: Mapping[str, str]) -> dict[str, str]:
    """The state in which every member ends, whatever the order in which members do what they plan."""
    states: dict[str, str] = {}
    for name in graph.members:
        upstreams = graph.upstreams[name]
        successes = sum(states[up] == "completed" for up in upstreams)
        can_run = successes >= graph.joins[name].needed(len(upstreams))
        states[name] = ENDED[plan[name]] if can_run else "skipped"
    return states


@dataclass
class Verdict:
    """The join of one member, as far as it has got."""

    edges: dict[str, str]
    """Upstream to outcome; `open` while the edge is not resolved."""
    state: str = "pending"

    def count(self, *outcomes: str) -> int:
        return sum(outcome in outcomes for outcome in self.edges.values())

    def numbers(self) -> tuple[int, int, int, int, str]:
        """Edges, successes, losses, skips and verdict."""
        return (
            len(self.edges),
            self.count("success"),
            self.count("failed", "cancelled", "expired"),
            self.count("skipped"),
            self.state,
        )


@dataclass
class Model:
    """The state of a flow. Members have names; `order` has their ids, by which the engine orders them."""

    graph: Graph
    order: Mapping[str, str]
    states: dict[str, str] = field(init=False)
    verdicts: dict[str, Verdict] = field(init=False)

    def __post_init__(self) -> None:
        self.verdicts = {
            name: Verdict(dict.fromkeys(ups, "open")) for name, ups in self.graph.upstreams.items() if ups
        }
        self.states = {
            name: "waiting_children" if name in self.verdicts else "waiting" for name in self.graph.members
        }

    def may(self, name: str, outcome: str) -> bool:
        """Whether a member can end this way now: a worker must have claimed it, an operator need not."""
        if outcome in ("success", "failed"):
            return self.states[name] == "waiting"
        return self.states[name] not in OUTCOME_OF

    def end(self, name: str, outcome: str) -> None:
        """End a member, and whoever ends because of it."""
        self.states[name] = ENDED[outcome]
        ended = [name]
        for upstream in ended:  # grows while it is walked: first come, first served
            for child in self._children_waiting_for(upstream):
                ended += self._resolve(upstream, child)

    def replay(self, name: str) -> None:
        """Open an ended member again, and its join if that is not satisfied."""
        verdict = self.verdicts.get(name)
        if verdict is None or verdict.state == "satisfied":
            self.states[name] = "waiting"
            return
        for upstream, outcome in verdict.edges.items():
            if verdict.state == "impossible" and outcome != "success":
                verdict.edges[upstream] = "open"
            if verdict.edges[upstream] == "open" and self.states[upstream] == "completed":
                verdict.edges[upstream] = "success"
        satisfied = verdict.count("success") >= self._needed(name)
        verdict.state = "satisfied" if satisfied else "pending"
        self.states[name] = "waiting" if satisfied else "waiting_children"

    def _needed(self, name: str) -> int:
        return self.graph.joins[name].needed(len(self.verdicts[name].edges))

    def _children_waiting_for(self, upstream: str) -> list[str]:
        waiting = [child for child, verdict in self.verdicts.items() if verdict.edges.get(upstream) == "open"]
        return sorted(waiting, key=self.order.__getitem__)

    def _resolve(self, upstream: str, child: str) -> list[str]:
        """Tell a child how its upstream ended; return who ends because of that."""
        verdict, join = self.verdicts[child], self.graph.joins[child]
        verdict.edges[upstream] = OUTCOME_OF[self.states[upstream]]
        if verdict.state != "pending":
            return []
        ended: list[str] = []
        if verdict.count("success") >= self._needed(child):
            verdict.state = "satisfied"
            if self.states[child] == "waiting_children":
                self.states[child] = "waiting"
        elif verdict.count("success", "open") < self._needed(child):
            verdict.state = "impossible"
            if self.states[child] not in OUTCOME_OF:
                self.states[child] = "skipped"
                ended.append(child)
        else:
            return []
        if join.on_satisfied == "cancel_remaining":
            for sibling in sorted(verdict.edges, key=self.order.__getitem__):
                if self.states[sibling] not in OUTCOME_OF:
                    self.states[sibling] = "cancelled"
                    ended.append(sibling)
        return ended
