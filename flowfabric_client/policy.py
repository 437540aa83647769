"""Policies: retries, time limits, quota, budgets and the other rules of one execution.

    from flowfabric_client import Backoff, Policy, Retry

    policy = Policy(retry_policy=Retry(5, backoff=Backoff.fixed(2_000)), budget_ids=["llm"])
    client.create_execution("ask_model", policy=policy)

A `Policy` is a mapping with the fields of the policy document, so it can be given wherever a mapping can, and
a `Retry` wherever a retry policy can. A field that is not given is left out of the document and has the
default of the engine. docs/policies.md tells what every field means.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any, ClassVar, Literal

_LARGEST_NUMBER = 2**53 - 1
# 1000 years.
_LONGEST_MS = 31_536_000_000_000
_DEFAULT_JITTER = 0.2

# The kinds of fields, by the engine's names for them.
_NUMBER = {"kind": "number"}
_DURATION = {"kind": "duration"}
_FRACTION = {"kind": "fraction"}
_TEXT = {"kind": "text"}
_TEXTS = {"kind": "texts"}
_CAPABILITIES = {"kind": "capabilities"}
_BACKOFF_TYPE = {"kind": "word", "legal": ("exponential", "fixed")}
_OF_EXPONENTIAL = {"kind": "number", "variant": "exponential"}
_DELAY_OF_EXPONENTIAL = {"kind": "duration", "variant": "exponential"}
_DELAY_OF_FIXED = {"kind": "duration", "variant": "fixed"}


class _Document(Mapping[str, Any]):
    """A JSON object that is made of the fields that have a value."""

    __slots__ = ()
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def __post_init__(self) -> None:
        for member in fields(self):
            value = getattr(self, member.name)
            if value is None and member.default is not MISSING:
                continue
            if member.metadata["kind"] in ("texts", "capabilities"):
                value = _texts(member.name, value)
                object.__setattr__(self, member.name, value)
            _check(member, value)
            variant = member.metadata.get("variant")
            if variant not in (None, getattr(self, "type", None)):
                raise ValueError(f"{member.name} belongs to a back-off of type {variant}")

    def __getitem__(self, key: str) -> Any:
        value = getattr(self, key) if key in self.__dataclass_fields__ else None
        if value is None or value == ():
            raise KeyError(key)
        if isinstance(value, _Document):
            return value.to_json()
        return list(value) if isinstance(value, tuple) else value

    def __iter__(self) -> Iterator[str]:
        return (name for name in self.__dataclass_fields__ if getattr(self, name) not in (None, ()))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def to_json(self) -> dict[str, Any]:
        """The document as plain dictionaries and lists."""
        return {name: self[name] for name in self}


def _texts(name: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        raise TypeError(f"{name} takes several texts, as in {name}=[{value!r}]")
    texts = tuple(value)
    for text in texts:
        if not isinstance(text, str):
            raise TypeError(f"{name} takes texts, not {text!r}")
    return texts


def _check(member: Field[Any], value: Any) -> None:
    name, facts = member.name, member.metadata
    match facts["kind"]:
        case "number" | "duration" | "fraction" as kind:
            largest = {"number": _LARGEST_NUMBER, "duration": _LONGEST_MS, "fraction": 1}[kind]
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise TypeError(f"{name} must be a number, not {value!r}")
            if not (math.isfinite(value) and 0 <= value <= largest):
                raise ValueError(f"{name} must be between 0 and {largest}, not {value}")
        case "word":
            if value not in facts["legal"]:
                raise ValueError(f"{name} must be one of {', '.join(facts['legal'])}, not {value!r}")
        case "text":
            if not isinstance(value, str):
                raise TypeError(f"{name} must be a text, not {value!r}")
        case "object":
            if not isinstance(value, facts["document"]):
                raise TypeError(f"{name} must be a {facts['document'].__name__}, not {value!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff(_Document):
    """How long a retry waits: `Backoff.fixed(...)` or `Backoff.exponential(...)`, as `Backoff()` is."""

    type: Literal["exponential", "fixed"] = field(default="exponential", metadata=_BACKOFF_TYPE)
    initial_delay_ms: float | None = field(default=None, metadata=_DELAY_OF_EXPONENTIAL)
    """Before the first retry; 1000 by default."""
    max_delay_ms: float | None = field(default=None, metadata=_DELAY_OF_EXPONENTIAL)
    """No retry waits longer; 60 000 by default."""
    multiplier: float | None = field(default=None, metadata=_OF_EXPONENTIAL)
    """By how much each delay is longer than the last one; 2 by default."""
    delay_ms: float | None = field(default=None, metadata=_DELAY_OF_FIXED)
    """Before every retry; 1000 by default."""
    jitter: float | None = field(default=_DEFAULT_JITTER, metadata=_FRACTION)
    """The part of a delay, from 0 to 1, of which a random share is taken off."""

    @classmethod
    def exponential(
        cls,
        initial_delay_ms: float | None = None,
        *,
        max_delay_ms: float | None = None,
        multiplier: float | None = None,
        jitter: float | None = _DEFAULT_JITTER,
    ) -> Backoff:
        """Wait longer before each retry."""
        return cls(
            initial_delay_ms=initial_delay_ms, max_delay_ms=max_delay_ms, multiplier=multiplier, jitter=jitter
        )

    @classmethod
    def fixed(cls, delay_ms: float | None = None, *, jitter: float | None = _DEFAULT_JITTER) -> Backoff:
        """Wait equally long before each retry."""
        return cls(type="fixed", delay_ms=delay_ms, jitter=jitter)


@dataclass(frozen=True, slots=True)
class Retry(_Document):
    """How often an attempt that failed is followed by another."""

    max_retries: int = field(metadata=_NUMBER)
    """Attempts after the first; 0 for none."""
    backoff: Backoff | None = field(default=Backoff(), metadata={"kind": "object", "document": Backoff})
    """How long each waits; None for 1000 ms without jitter."""
    retryable_categories: Sequence[str] = field(default=(), metadata=_TEXTS)
    """Retry only failures of these categories; all but `permanent` by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts(_Document):
    """How long an attempt may take."""

    attempt_timeout_ms: int | None = field(default=None, metadata=_DURATION)
    """The execution expires when an attempt takes longer; no limit by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Routing(_Document):
    """Which workers may run the execution."""

    required_capabilities: Sequence[str] = field(default=(), metadata=_CAPABILITIES)
    """Only workers that have all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Streams(_Document):
    """What is kept of the execution when it has ended."""

    retention_ttl_ms: int | None = field(default=None, metadata=_DURATION)
    """How long an ended execution is kept; the setting `default_retention_ms` by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy(_Document):
    """The rules of one execution, given at its creation."""

    routing_requirements: Routing | None = field(
        default=None, metadata={"kind": "object", "document": Routing}
    )
    """Which workers may run it."""
    retry_policy: Retry | None = field(default=None, metadata={"kind": "object", "document": Retry})
    """How often it is retried; never by default."""
    timeout_policy: Timeouts | None = field(default=None, metadata={"kind": "object", "document": Timeouts})
    """How long an attempt may take."""
    max_reclaim_count: int | None = field(default=None, metadata=_NUMBER)
    """How often its lease may be taken over before it fails."""
    max_replay_count: int | None = field(default=None, metadata=_NUMBER)
    """How often it may be replayed; 10 by default."""
    max_signals_per_execution: int | None = field(default=None, metadata=_NUMBER)
    """How many signals it takes; 0 for any number."""
    dedup_window_ms: int | None = field(default=None, metadata=_DURATION)
    """How long its idempotency key counts; 86 400 000 by default."""
    stream_policy: Streams | None = field(default=None, metadata={"kind": "object", "document": Streams})
    """What is kept of it when it has ended."""
    budget_ids: Sequence[str] = field(default=(), metadata=_TEXTS)
    """The budgets that it spends; while one is used up it does not start."""
    quota_policy_id: str | None = field(default=None, metadata=_TEXT)
    """The quota that it starts under."""
