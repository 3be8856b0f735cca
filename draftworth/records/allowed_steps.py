"""The file `allowed_steps.json`: in which steps a run's own outputs could have been yielded.

The outputs and the draft determine these steps (`draftworth/estimate/replayed_run.py`). An engine
that took more of them lost drafted tokens (`draftworth/analysis/engine_loss.py`). `estimate`, and
of n-gram drafting `compare`, writes the file into the run's folder.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from draftworth.records.codec import Checked
from draftworth.records.findings import read_beside
from draftworth.records.results import Count, Positive
from draftworth.untrusted import MIB

ALLOWED_STEPS_FILE = "allowed_steps.json"
# The file has 300 bytes for each request, so this suffices for 200,000 requests.
LIMIT_BYTES = 64 * MIB


@dataclass(frozen=True, kw_only=True)
class RequestSteps(Checked):
    """The fewest steps that yield a request's output with its draft, and what its steps accepted.

    tokens: output tokens after the first, which the prefill yields.
    steps: number of steps if each accepts every drafted token that is also the output's token.
    taken_as_allowed: whether the request can have taken exactly these steps.
    taken_at_least: the fewest steps that could have yielded its chunks, each of one or more steps;
        0: it is not known whether a step has one chunk, or the server counts each request's steps.
    accepted: for n = 0, 1, ..., the number of steps that the request took and that accepted at
        least n drafted tokens; the first is the number of all its steps. Empty: its chunks do not
        show each step.
    acceptable: for n = 1, 2, ..., of those steps that accepted at least n - 1 drafted tokens, the
        number in which the n-th drafted token is the output's token too. Empty with `accepted`.
    """

    request_id: str
    tokens: Positive
    steps: Positive
    taken_as_allowed: bool
    taken_at_least: Count = 0
    accepted: tuple[int, ...] = ()
    acceptable: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        falls = all(more >= fewer >= 0 for more, fewer in pairwise(self.accepted))
        reached = zip(self.accepted, self.acceptable, strict=False)
        if not falls or not all(0 <= able <= steps for steps, able in reached):
            raise ValueError(
                "accepted, acceptable: allowed: numbers of steps, none above that before it"
            )
        if len(self.accepted) != len(self.acceptable) + bool(self.accepted):
            raise ValueError("accepted: allowed: one number more than in acceptable, or none")


@dataclass(frozen=True, kw_only=True)
class VariantSteps(Checked):
    """The allowed steps of a variant's requests. draft: the draft model, or n-gram drafting."""

    variant: str
    draft: str
    requests: tuple[RequestSteps, ...]


@dataclass(frozen=True, kw_only=True)
class AllowedSteps(Checked):
    """`allowed_steps.json`: the allowed steps of the requests of a run's variants."""

    schema: str = "draftworth.allowed-steps/1"
    run_id: str
    variants: tuple[VariantSteps, ...]


def read_allowed_steps(folder: Path, run_id: str) -> tuple[AllowedSteps, ...]:
    """Return the run's `AllowedSteps`; () without a file; UserInputError: the file is wrong."""
    path, limit = folder / ALLOWED_STEPS_FILE, LIMIT_BYTES
    record = read_beside(AllowedSteps, path, run_id, what="allowed steps", limit_bytes=limit)
    return (record,) if record else ()
