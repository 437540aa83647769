"""What a scenario is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from bench.lab import Lab, Metrics

T = TypeVar("T")


@dataclass(frozen=True)
class Scale:
    """How much is measured."""

    quick: bool

    def pick(self, quick: T, full: T) -> T:
        """One of two sizes."""
        return quick if self.quick else full


@dataclass(frozen=True)
class Seed:
    """How much is stored in the database of a case before anything is measured."""

    waiting: int
    finished: int


@dataclass(frozen=True)
class Case:
    """One variant of a scenario: its name, and what its measurement needs to know.

    A case with a seed is measured again and again in one database, which is expensive to make, and beside it
    in a reference that holds less; every other measurement has a fresh database.
    """

    name: str
    arguments: dict[str, Any]
    seed: Seed | None = None
    reference: Seed | None = None


class Scenario(ABC):
    """One question. Systems whose clients cannot do all of `tasks` have no answer to it."""

    name: ClassVar[str]
    title: ClassVar[str]
    tasks: ClassVar[tuple[str, ...]]
    metric: ClassVar[str]
    unit: ClassVar[str]
    higher_is_better: ClassVar[bool] = False
    # Whether a system's cases are compared with its own first case, beside the comparison with the floor. A
    # measurement that has made the comparison itself returns it as `to_reference`.
    compares_cases: ClassVar[bool] = False
    # Metrics that the table shows beside `metric`, by the names of bench/report.py.
    shows: ClassVar[tuple[str, ...]] = ()
    repeats: ClassVar[int] = 3

    @abstractmethod
    def cases(self, scale: Scale) -> Sequence[Case]:
        """What is measured of each system."""

    @abstractmethod
    def measure(self, lab: Lab, case: Case) -> Metrics:
        """One measurement. `metric` is among the results, whatever else there is."""
