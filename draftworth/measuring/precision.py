"""How well the speedups are known from the blocks so far: whether a class needs another round."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from draftworth.analysis.statistics import Estimate, requests_short
from draftworth.analysis.summary import Group
from draftworth.analysis.verdict import itl_speedup
from draftworth.measuring.run_specification import RunSpec
from draftworth.records.results import BlockResult


@dataclass(frozen=True, kw_only=True)
class Precision:
    """Compares the intervals of the speedups with the width that the specification wants."""

    spec: RunSpec
    progress: Callable[[str], None]

    def is_enough(self, blocks: Sequence[BlockResult], group: Group, *, requests: int) -> bool:
        """Whether a group needs no more than the requests it has of each case and variant."""
        if requests < self.spec.sampling.min_requests:
            return False
        widths = [_width(speedup) for speedup in self._speedups(blocks, group).values()]
        known = [width for width in widths if width is not None]
        widest = max(known, default=0.0)
        if len(known) < len(widths) or widest > self.spec.sampling.target_interval_width:
            return False
        if known:
            self.progress(
                f"{group.label}: speedup known to {widest:.1%} after {requests} requests a case "
                "and variant"
            )
        return True

    def report_missing(self, blocks: Sequence[BlockResult], group: Group) -> None:
        """Report how well a group is known that got all its requests, and what more would take."""
        target = self.spec.sampling.target_interval_width
        for variant, speedup in self._speedups(blocks, group).items():
            missing = requests_short(speedup, target_width=target)
            width = _width(speedup)
            known = f"known to {width:.1%}" if width is not None else "not known"
            more = f"; about {missing} more requests for {target:.0%}" if missing else ""
            self.progress(f"{group.label}: speedup of {variant} {known}{more}")

    def _speedups(self, blocks: Sequence[BlockResult], group: Group) -> dict[str, Estimate | None]:
        baseline = self.spec.baseline
        return {
            endpoint.variant: itl_speedup(
                blocks, group, variant=endpoint.variant, baseline=baseline
            )
            for endpoint in self.spec.endpoints
            if not endpoint.is_baseline
        }


def _width(speedup: Estimate | None) -> float | None:
    return speedup.relative_width if speedup else None
