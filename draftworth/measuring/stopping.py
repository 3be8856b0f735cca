"""What a run asks, after each round, to know whether a group needs a further one.

A group is a prompt class at a load. There are two answers: the group is measured precisely enough
(`precise`), or its verdict is decided (`decided`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from draftworth.analysis.control import without_control
from draftworth.analysis.pairing import Traffic, paired
from draftworth.analysis.prefix_cache import ColdEvidence
from draftworth.analysis.ratios import log_cost_ratio
from draftworth.analysis.shortfall import more_rounds_help
from draftworth.analysis.statistics import CONFIDENCE, Estimate
from draftworth.analysis.summary import Group
from draftworth.decision.verdict import Comparison, compare
from draftworth.measuring.run_specification import RunSpec
from draftworth.records.results import BlockResult


@dataclass(kw_only=True)
class StoppingRule(ABC):
    """Decides when a group (a prompt class at a load) needs no further round.

    blocks: all blocks measured so far; the list grows with every round.
    """

    spec: RunSpec
    progress: Callable[[str], None]
    blocks: Sequence[BlockResult]

    @classmethod
    @abstractmethod
    def looks(cls, spec: RunSpec) -> int:
        """Return the most times that what an interval decides may end the rounds of a group.

        All intervals of the run's comparisons are made wider for that; 1: it never does.
        """

    @abstractmethod
    def is_reached(self, group: Group) -> bool:
        """Return whether a group had all that it needs when it was last asked for."""

    @abstractmethod
    def needs_no_more(self, group: Group, *, requests: int) -> bool:
        """Return whether a group needs no further rounds; is called once after each of its rounds.

        It needs none if it has what this rule wants, or if further rounds would hardly narrow its
        intervals. requests: how many requests of each case and variant the group has measured.
        """

    @abstractmethod
    def report_missing(self, group: Group) -> None:
        """Report what a group lacks at the end of a run."""

    def width(self, group: Group) -> float:
        """Return the width of the group's widest interval, as a share of its cost ratio.

        Infinite if a ratio has no interval yet; 0 without any ratio.
        """
        widths = [ratio.relative_width if ratio else None for ratio in self._ratios(group).values()]
        return max((math.inf if width is None else width for width in widths), default=0.0)

    def _are_at_their_best(
        self,
        group: Group,
        ratios: Sequence[Estimate | None],
        *,
        requests: int,
        target_width: float,
    ) -> bool:
        """Return whether further rounds would hardly narrow any of a group's cost ratios.

        Then the group needs more prompts or repetitions instead. Every prompt must be measured.
        ratios: None: a ratio cannot be computed yet. target_width: as in `more_rounds_help`.
        """
        cases = [case for case in self.spec.cases if case.prompt_class == group.prompt_class]
        if any(requests < len(case.prompts) for case in cases):
            return False
        return not any(
            ratio is None or more_rounds_help(ratio, target_width=target_width) for ratio in ratios
        )

    def _compared(
        self, group: Group, variant: str, *, confidence: float = CONFIDENCE
    ) -> Comparison:
        """Judge a variant of a group by what was measured so far, with the rules of the report."""
        spec = self.spec
        measured, control = without_control(self.blocks)
        return compare(
            measured,
            Traffic.of(group),
            variant=variant,
            baseline=spec.baseline,
            limits=spec.limits,
            price=spec.price,
            control=control,
            confidence=confidence,
            cold=ColdEvidence.of(spec.shape.prompt_cache, of_own_servers=not spec.class_weights),
        )

    def _say(self, group: Group, text: str, requests: int) -> None:
        self.progress(f"{group.label}: {text} after {requests} requests per case and variant")

    def _ratios(self, group: Group) -> Mapping[str, Estimate | None]:
        traffic, baseline = Traffic.of(group), self.spec.baseline
        log_ratios = {
            endpoint.variant: log_cost_ratio(
                paired(self.blocks, traffic, variant=endpoint.variant, baseline=baseline), traffic
            )
            for endpoint in self.spec.variants
            if not endpoint.is_baseline
        }
        return {
            variant: ratio.estimate() if ratio else None for variant, ratio in log_ratios.items()
        }
