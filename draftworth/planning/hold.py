"""What a deploy on hold (`aws.hold`) costs, and how long it takes: it starts no accelerator."""

from __future__ import annotations

from dataclasses import dataclass

from draftworth.planning.assumptions import CASES, Assumptions, Bounds, assumption_data
from draftworth.planning.durations import Durations
from draftworth.planning.resolved import ResolvedNeuron


@dataclass(frozen=True, kw_only=True)
class Hold:
    """The deploy on hold of an experiment, in the best and in the worst case.

    minutes: from the start of the deploy until all checkpoints are staged. Not counted are the
        minutes that the canaries take then.
    nat_gib: the GiB of checkpoints that pass the NAT gateway.
    """

    minutes: Bounds
    nat_gib: Bounds

    @classmethod
    def of(cls, experiment: ResolvedNeuron, assumed: Assumptions) -> Hold | None:
        """Return what a first deploy on hold takes; None: the experiment is not on hold."""
        if not experiment.spec.aws.hold:
            return None
        best, worst = (Durations(experiment=experiment, assumed=assumed, case=c) for c in CASES)
        return cls(
            minutes=Bounds(_minutes(best), _minutes(worst)),
            nat_gib=Bounds(best.staged_gib(), worst.staged_gib()),
        )

    @property
    def nat_usd(self) -> Bounds:
        return self.nat_gib.times(assumption_data().nat_gateway_traffic.usd_per_gib)

    @property
    def usd(self) -> Bounds:
        """US dollars until all is staged: NAT gateway, cluster and CPU nodes."""
        standing = self.minutes.times(assumption_data().standing_usd_per_hour / 60)
        return Bounds(standing.best + self.nat_usd.best, standing.worst + self.nat_usd.worst)


def _minutes(durations: Durations) -> float:
    return durations.assumption("deploy_minutes") + durations.stage_minutes()
