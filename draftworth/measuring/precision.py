"""Decides when a group (a prompt class at a load) needs no further round.

It needs none if the confidence intervals of its cost ratios (a variant's cost per token / the
baseline's) were narrow enough after two rounds in a row. Two rounds are needed, because one narrow
interval may be luck: in simulated runs that stop at their first narrow interval, only 91% of the
intervals hold the true ratio, not 95%. Only the widths decide, not the ratios: a run that stopped
as soon as a ratio looked good would find too many good ratios (`benchmarks/calibration.py`).
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from draftworth.analysis.pairing import Traffic, paired
from draftworth.analysis.ratios import log_cost_ratio
from draftworth.analysis.shortfall import Shortfall, more_rounds_help, shortfall
from draftworth.analysis.statistics import Estimate
from draftworth.analysis.summary import Group
from draftworth.measuring.run_specification import RunSpec
from draftworth.records.results import BlockResult
from draftworth.report.sentences import shortfall_words

# How many rounds in a row must end with narrow intervals.
NARROW_ROUNDS = 2


@dataclass(kw_only=True)
class Precision:
    """How precisely the groups of a run are measured: how wide their cost ratios' intervals are.

    blocks: all blocks measured so far; the list grows with every round.
    """

    spec: RunSpec
    progress: Callable[[str], None]
    blocks: Sequence[BlockResult]
    _narrow: Counter[Group] = field(default_factory=Counter)

    def is_reached(self, group: Group) -> bool:
        """Return whether a group's intervals were narrow after its last `NARROW_ROUNDS` rounds."""
        return self._narrow[group] >= NARROW_ROUNDS

    def needs_no_more(self, group: Group, *, requests: int) -> bool:
        """Return whether a group needs no further rounds; is called once after each of its rounds.

        It needs none if its intervals were narrow enough at the last `NARROW_ROUNDS` calls, or if
        further rounds would hardly narrow them.
        requests: how many requests of each case and variant the group has measured.
        """
        target = self.spec.sampling.target_interval_width
        missing = [
            (ratio, shortfall(ratio, target_width=target)) for ratio in self._ratios(group).values()
        ]
        if not missing:
            return True
        if any(lacks is None or lacks for _, lacks in missing):
            self._narrow[group] = 0
            return self._is_at_its_best(group, missing, requests)
        self._narrow[group] += 1
        if not self.is_reached(group):
            return False
        widths = [ratio.relative_width or 0.0 for ratio, _ in missing if ratio]
        if widths:
            self._say(group, f"the interval of the cost ratio is {max(widths):.1%} wide", requests)
        return True

    def width(self, group: Group) -> float:
        """Return the width of the group's widest interval, as a share of its cost ratio.

        Infinite if a ratio has no interval yet; 0 without any ratio.
        """
        widths = [ratio.relative_width if ratio else None for ratio in self._ratios(group).values()]
        return max((math.inf if width is None else width for width in widths), default=0.0)

    def report_missing(self, group: Group) -> None:
        """Report the width of a group's intervals, and what is missing for the wanted width."""
        target = self.spec.sampling.target_interval_width
        for variant, ratio in self._ratios(group).items():
            width = ratio.relative_width if ratio else None
            width_words = (
                "has no interval" if width is None else f"has an interval {width:.1%} wide"
            )
            lacks = shortfall(ratio, target_width=target)
            more = f"; {shortfall_words(lacks, target)}" if lacks else ""
            self.progress(f"{group.label}: the cost ratio of {variant} {width_words}{more}")

    def _is_at_its_best(
        self,
        group: Group,
        missing: Sequence[tuple[Estimate | None, Shortfall | None]],
        requests: int,
    ) -> bool:
        """Return whether further rounds would hardly narrow a group's intervals.

        Then the group needs more prompts or repetitions instead.
        missing: for each cost ratio: its estimate (None: it cannot be computed yet), and how much
            more must be measured until its interval is narrow enough (None: it has no interval).
        requests: how many requests of each case and variant the group has measured.
        """
        target = self.spec.sampling.target_interval_width
        cases = [case for case in self.spec.cases if case.prompt_class == group.prompt_class]
        if any(requests < len(case.prompts) for case in cases):
            return False
        wide = [(ratio, lacks) for ratio, lacks in missing if lacks is None or lacks]
        if any(ratio is None or more_rounds_help(ratio, target_width=target) for ratio, _ in wide):
            return False
        words = next(shortfall_words(lacks, target) for _, lacks in wide if lacks)
        self._say(group, f"more rounds would hardly narrow the interval; {words}", requests)
        return True

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
