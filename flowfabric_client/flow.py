"""A whole graph of executions, built name by name and submitted in one call.

    from flowfabric_client import Flow, Policy, Retry

    order = (
        Flow(namespace="shop")
        .task("ask-a", kind="quote", payload={"vendor": "a"})
        .task("ask-b", kind="quote", payload={"vendor": "b"})
        .any_of("choose", after=["ask-a", "ask-b"], payload_from=["ask-a", "ask-b"], cancel_remaining=True)
        .task("buy", after=["choose"], policy=Policy(retry_policy=Retry(2)))
    )
    members = client.submit_flow(order.to_json())

A flow is a value: every method returns a new one. A task can wait only for tasks that were added before it,
so a cycle cannot be written. The id is minted here, so a submission whose answer was lost can be sent again.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypedDict, Unpack
from uuid import UUID, uuid4

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,127}")


class TaskOptions(TypedDict, total=False):
    """What any task may be given; whatever is left out is the engine's default."""

    kind: str
    """Which handler runs it; its name if not given."""
    payload: Any
    """What the handler gets: bytes as they are, anything else as JSON."""
    encoding: str
    """A hint how to read the payload."""
    lane: str
    """The queue it waits in, if not the flow's."""
    priority: int
    policy: Mapping[str, Any]
    tags: Mapping[str, str]
    delay_until_ms: int
    deadline_at_ms: int
    creator: str
    execution_id: str
    """An id of your own, on the partition of the flow; derived from the name if not given."""
    payload_from: Iterable[str]
    """Those of the tasks it waits for whose result replaces its payload."""


_MEMBER_KEYS = {
    "encoding": "payload_encoding",
    "priority": "priority",
    "policy": "policy",
    "tags": "tags",
    "delay_until_ms": "delay_until_ms",
    "deadline_at_ms": "execution_deadline_at_ms",
    "creator": "creator_identity",
    "execution_id": "execution_id",
}


@dataclass(frozen=True, slots=True)
class _Task:
    member: Mapping[str, Any]
    edges: tuple[Mapping[str, str], ...]
    join: Mapping[str, Any] | None

    @property
    def name(self) -> str:
        return str(self.member["name"])


@dataclass(frozen=True, slots=True)
class Flow:
    """A graph of tasks, not yet submitted."""

    namespace: str = "default"
    kind: str = "dag"
    lane: str = "default"
    """The lane of every task that names no other."""
    tags: Mapping[str, str] = field(default_factory=dict)
    flow_id: UUID = field(default_factory=uuid4)
    _tasks: tuple[_Task, ...] = field(default=(), repr=False)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the tasks, in the order in which they were added."""
        return tuple(task.name for task in self._tasks)

    def task(self, name: str, *, after: Iterable[str] = (), **options: Unpack[TaskOptions]) -> Flow:
        """Add a task that starts when all of `after` have succeeded, and is skipped when one does not."""
        return self._with(name, after, options, None)

    def any_of(
        self,
        name: str,
        *,
        after: Iterable[str],
        cancel_remaining: bool = False,
        **options: Unpack[TaskOptions],
    ) -> Flow:
        """Add a task that starts with the first success of `after`, and is skipped when there can be none.

        The others run on, unless they are to be cancelled then.
        """
        return self._with(name, after, options, _join("any_of", cancel_remaining))

    def quorum(
        self,
        name: str,
        *,
        k: int,
        after: Iterable[str],
        cancel_remaining: bool = False,
        **options: Unpack[TaskOptions],
    ) -> Flow:
        """Add a task that starts with the k-th success of `after`, and is skipped when there can be none.

        The others run on, unless they are to be cancelled then.
        """
        upstreams = tuple(after)
        if not 1 <= k <= len(upstreams):
            raise ValueError(f"{name}: a quorum of {k} cannot be reached by {len(upstreams)} tasks.")
        return self._with(name, upstreams, options, {**_join("quorum", cancel_remaining), "k": k})

    def to_json(self) -> dict[str, Any]:
        """The document that `submit_flow` takes."""
        if not self._tasks:
            raise ValueError("A flow needs at least one task.")
        document: dict[str, Any] = {
            "flow_id": str(self.flow_id),
            "flow_kind": self.kind,
            "namespace": self.namespace,
            "defaults": {"lane_id": self.lane},
            "members": [dict(task.member) for task in self._tasks],
            "edges": [dict(edge) for task in self._tasks for edge in task.edges],
            "joins": {task.name: dict(task.join) for task in self._tasks if task.join is not None},
        }
        if self.tags:
            document["tags"] = dict(self.tags)
        return document

    def _with(
        self, name: str, after: Iterable[str], options: TaskOptions, join: Mapping[str, Any] | None
    ) -> Flow:
        upstreams = _names(name, "after", after)
        known = set(self.names)
        if not _NAME.fullmatch(name):
            raise ValueError(
                f"{name!r} cannot name a task: 1 to 128 letters, digits, '_', '.', ':' or '-', of which the "
                "first is a letter, a digit or '_'."
            )
        if name in known:
            raise ValueError(f"There is a task {name!r} already.")
        for upstream in upstreams:
            if upstream not in known:
                raise ValueError(
                    f"{name} cannot wait for {upstream!r}: no task of that name was added before it."
                )
        if len(set(upstreams)) < len(upstreams):
            raise ValueError(f"{name} waits for the same task twice.")
        if join is not None and not upstreams:
            raise ValueError(f"{name} has nothing to wait for.")
        passing = _names(name, "payload_from", options.get("payload_from", ()))
        for upstream in passing:
            if upstream not in upstreams:
                raise ValueError(
                    f"{name} cannot take its payload from {upstream!r}: it does not wait for it."
                )
        edges = tuple(
            {"upstream": upstream, "downstream": name}
            | ({"data_passing_ref": "result"} if upstream in passing else {})
            for upstream in upstreams
        )
        return replace(self, _tasks=(*self._tasks, _Task(_member(name, options), edges, join)))


def _join(kind: str, cancel_remaining: bool) -> dict[str, Any]:
    return {"kind": kind, "on_satisfied": "cancel_remaining" if cancel_remaining else "let_run"}


def _names(task: str, argument: str, names: Iterable[str]) -> tuple[str, ...]:
    if isinstance(names, str):
        raise TypeError(f"{task}: {argument} takes several names, as in {argument}=[{names!r}].")
    return tuple(names)


def _member(name: str, options: TaskOptions) -> dict[str, Any]:
    given: dict[str, Any] = dict(options)
    if unknown := sorted(given.keys() - TaskOptions.__annotations__.keys()):
        raise TypeError(f"{name}: a task has no option {unknown[0]!r}.")
    member: dict[str, Any] = {"name": name, "execution_kind": given.get("kind", name)}
    if "lane" in given:
        member["lane_id"] = given["lane"]
    if "payload" in given:
        member |= _payload(name, given["payload"])
    member |= {_MEMBER_KEYS[option]: value for option, value in given.items() if option in _MEMBER_KEYS}
    if "policy" in member:
        # A document holds no mappings but dictionaries.
        member["policy"] = dict(member["policy"])
    return member


def _payload(name: str, payload: Any) -> dict[str, Any]:
    if isinstance(payload, bytes | bytearray | memoryview):
        return {"payload_base64": b64encode(payload).decode("ascii")}
    try:
        # A copy, so that a payload that is changed later does not change the flow.
        return {"payload": json.loads(json.dumps(payload, allow_nan=False))}
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name}: the payload is neither bytes nor JSON: {error}.") from error
