"""Decides by the widths of intervals when a group (a prompt class at a load) needs no more rounds.

It needs none if the confidence intervals of its cost ratios (a variant's cost per token / the
baseline's) were narrow enough after two rounds in a row. Two rounds are needed, because one narrow
interval may be luck: in simulated runs that stop at their first narrow interval, only 91% of the
intervals hold the true ratio, not 95%. Only the widths decide, not the ratios: a run that stopped
as soon as a ratio looked good would find too many good ratios (`benchmarks/calibration.py`), unless
its intervals are made wider for that (`decided`).
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from draftworth.analysis.shortfall import Shortfall, shortfall
from draftworth.analysis.statistics import Estimate
from draftworth.analysis.summary import Group
from draftworth.measuring.run_specification import RunSpec
from draftworth.measuring.stopping import StoppingRule
from draftworth.report.reason_sentences import words_of
from draftworth.report.sentences import shortfall_words

# How many rounds in a row must end with narrow intervals.
NARROW_ROUNDS = 2


@dataclass(kw_only=True)
class Precision(StoppingRule):
    """Ends the rounds of a group when the intervals of its cost ratios are narrow enough."""

    _narrow: Counter[Group] = field(default_factory=Counter)

    @classmethod
    def looks(cls, _spec: RunSpec) -> int:
        return 1

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
        ratios = self._ratios(group)
        missing = {v: shortfall(ratio, target_width=target) for v, ratio in ratios.items()}
        if not missing:
            return True
        if wide := {v: lacks for v, lacks in missing.items() if lacks is None or lacks}:
            self._narrow[group] = 0
            return self._is_at_its_best(group, ratios, wide, requests)
        self._narrow[group] += 1
        if not self.is_reached(group):
            return False
        widths = [ratio.relative_width or 0.0 for ratio in ratios.values() if ratio]
        if widths:
            self._say(group, f"the interval of the cost ratio is {max(widths):.1%} wide", requests)
        return True

    def report_missing(self, group: Group) -> None:
        """Report the width of a group's intervals, and what is missing for the wanted width.

        Where more requests would be no cure, report what has to be mended instead.
        """
        target = self.spec.sampling.target_interval_width
        for variant, ratio in self._ratios(group).items():
            if obstacle := self._compared(group, variant).obstacle:
                self.progress(f"{group.label}: {variant} is not decided: {words_of(obstacle)}")
                continue
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
        ratios: Mapping[str, Estimate | None],
        wide: Mapping[str, Shortfall | None],
        requests: int,
    ) -> bool:
        """Return whether further rounds would hardly narrow a group's intervals, and say so.

        ratios: by variant, its cost ratio; None: it cannot be computed yet. wide: how much more
            must be measured until the interval is narrow enough (None: there is no interval), for
            each variant of which it is not. requests: how many requests of each case and variant
            the group has measured.
        """
        target = self.spec.sampling.target_interval_width
        of_wide = [ratios[variant] for variant in wide]
        if not self._are_at_their_best(group, of_wide, requests=requests, target_width=target):
            return False
        variant, lacks = next((variant, lacks) for variant, lacks in wide.items() if lacks)
        narrows = "more rounds would hardly narrow the interval"
        if obstacle := self._compared(group, variant).obstacle:
            doubt, _, _ = words_of(obstacle).partition("; ")
            self._say(group, f"{doubt}; {narrows}", requests)
        else:
            self._say(group, f"{narrows}; {shortfall_words(lacks, target)}", requests)
        return True
