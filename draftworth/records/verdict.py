"""The verdict of a run that is complete, beside its `run.json`: for who wants the answer alone.

The measuring pod writes it before `run.json`, the capacity controller quotes it in the mail that
says that the run is over. The report says the same and more. Standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

VERDICT_SCHEMA = "draftworth.verdict/2"
VERDICT_FILE = "verdict.json"
# Below a run's folder: the report that the measuring Job writes when the run is over.
REPORT_FOLDER = "report"
REPORT_PAGE = "report.html"

Judgement = Literal[
    "cheaper per token",
    "no difference",
    "dearer",
    "within the limits",
    "outside the limits",
    "inconclusive",
]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One variant against a baseline in one traffic: a prompt class or the traffic mix, at a load.

    cost_ratio: variant / baseline of the cost of an output token, with its 95% interval; None:
        there is none.
    sentence: the same for people.
    noise_floor_low, noise_floor_high: the 95% interval of the same ratio of two servers without
        speculation; None: not measured. clears_noise_floor: whether a verdict on the cost lies
        beside it; None: there is either not.
    """

    traffic: str
    load: str
    variant: str
    baseline: str
    judgement: Judgement
    cost_ratio: float | None
    cost_ratio_low: float | None
    cost_ratio_high: float | None
    sentence: str
    noise_floor_low: float | None = None
    noise_floor_high: float | None = None
    clears_noise_floor: bool | None = None


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """`verdict.json`: the answer in one sentence, what it rests on, and what to know before that.

    findings: of the traffic mix first, in the order of the report.
    notes: the highest rates within the limits, and what a reader must know before believing.
    """

    schema: str = VERDICT_SCHEMA
    run_id: str
    experiment: str
    headline: str
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]

    @property
    def key(self) -> str:
        """Its object key in a results bucket."""
        return f"runs/{self.run_id}/{VERDICT_FILE}"
