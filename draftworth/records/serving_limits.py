"""How long a winner may go on serving: written by a deploy, read by the measuring Job's pod.

A file of its own and no part of the run specification: with another specification the Job would be
another one, and measure again. Standard library only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class ServingLimits:
    """Whichever comes first ends it.

    serve_until_unix_s: None: as long as the budget lasts.
    budget_usd: from the end of the run on.
    usd_per_hour: of what each variant's servers would need, by its name; empty: it is paid in
        advance, and the budget is no limit.
    probe_seconds: from the start of one look to the next one's.
    """

    schema: str = "draftworth.serving-limits/1"
    serve_until_unix_s: float | None
    budget_usd: float
    usd_per_hour: Mapping[str, float]
    probe_seconds: float

    def __post_init__(self) -> None:
        amounts = {"budget_usd": self.budget_usd, "probe_seconds": self.probe_seconds}
        amounts |= {f"usd_per_hour.{name:.60}": usd for name, usd in self.usd_per_hour.items()}
        for name, value in amounts.items():
            if not value > 0:
                raise ValueError(f"{name}: given {value}, allowed: above 0")

    def ends_at_unix_s(self, variant: str, since_unix_s: float) -> float:
        """When a winner that has served since then has to go."""
        spent_at_unix_s = math.inf
        if self.usd_per_hour:
            spent_at_unix_s = since_unix_s + 3600 * self.budget_usd / self.usd_per_hour[variant]
        until_unix_s = self.serve_until_unix_s
        return spent_at_unix_s if until_unix_s is None else min(spent_at_unix_s, until_unix_s)
