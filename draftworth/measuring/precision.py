"""How well the cost ratios are known so far: whether a class needs another round."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from draftworth.analysis.pairing import Traffic, paired
from draftworth.analysis.ratios import log_cost_ratio
from draftworth.analysis.shortfall import Shortfall, more_rounds_help, shortfall
from draftworth.analysis.statistics import Estimate
from draftworth.analysis.summary import Group
from draftworth.measuring.run_specification import RunSpec
from draftworth.records.results import BlockResult


@dataclass(frozen=True, kw_only=True)
class Precision:
    """Compares the intervals of the cost ratios with the width that the specification wants.

    Only widths are looked at, never which way a ratio lies: a run that stops when it likes what it
    sees would be right less often than it says. What looking at widths costs is in the calibration
    (`benchmarks/calibration.py`).
    """

    spec: RunSpec
    progress: Callable[[str], None]

    def is_enough(self, blocks: Sequence[BlockResult], group: Group, *, requests: int) -> bool:
        """Whether a group needs no more than the requests it has of each case and variant.

        Never with less than what `min_requests` asks of one repetition.
        """
        if requests < self.spec.sampling.min_requests / self.spec.repetitions:
            return False
        target = self.spec.sampling.target_interval_width
        missing = [
            (ratio, shortfall(ratio, target_width=target))
            for ratio in self._ratios(blocks, group).values()
        ]
        if all(lacks is not None and not lacks for _, lacks in missing):
            widths = [ratio.relative_width or 0.0 for ratio, _ in missing if ratio]
            if widths:
                self._say(group, f"cost ratio known to {max(widths):.1%}", requests)
            return True
        return self._is_at_its_best(group, missing, requests)

    def width(self, blocks: Sequence[BlockResult], group: Group) -> float:
        """Of the widest interval of a group, relative; infinite where there is one to come."""
        widths = [r.relative_width if r else None for r in self._ratios(blocks, group).values()]
        return max((math.inf if width is None else width for width in widths), default=0.0)

    def report_missing(self, blocks: Sequence[BlockResult], group: Group) -> None:
        """Report how well a group is known that got all its requests, and what more would take."""
        target = self.spec.sampling.target_interval_width
        for variant, ratio in self._ratios(blocks, group).items():
            width = ratio.relative_width if ratio else None
            known = f"known to {width:.1%}" if width is not None else "not known"
            lacks = shortfall(ratio, target_width=target)
            more = f"; {lacks.words(target)}" if lacks else ""
            self.progress(f"{group.label}: cost ratio of {variant} {known}{more}")

    def _is_at_its_best(
        self,
        group: Group,
        missing: Sequence[tuple[Estimate | None, Shortfall | None]],
        requests: int,
    ) -> bool:
        """Whether every interval that is too wide is so because of the prompts, which have all
        been sent, or because of the repetitions, which rounds do not change."""
        target = self.spec.sampling.target_interval_width
        cases = [case for case in self.spec.cases if case.prompt_class == group.prompt_class]
        if any(requests < len(case.prompts) for case in cases):
            return False
        wide = [(ratio, lacks) for ratio, lacks in missing if lacks is None or lacks]
        if any(ratio is None or more_rounds_help(ratio, target_width=target) for ratio, _ in wide):
            return False
        words = next(lacks.words(target) for _, lacks in wide if lacks)
        self._say(group, f"more rounds would hardly narrow the interval; {words}", requests)
        return True

    def _say(self, group: Group, text: str, requests: int) -> None:
        self.progress(f"{group.label}: {text} after {requests} requests a case and variant")

    def _ratios(self, blocks: Sequence[BlockResult], group: Group) -> Mapping[str, Estimate | None]:
        traffic, baseline = Traffic.of(group), self.spec.baseline
        found = {
            endpoint.variant: log_cost_ratio(
                paired(blocks, traffic, variant=endpoint.variant, baseline=baseline), traffic
            )
            for endpoint in self.spec.variants
            if not endpoint.is_baseline
        }
        return {variant: ratio.estimate() if ratio else None for variant, ratio in found.items()}
