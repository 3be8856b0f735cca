"""The findings of a complete run: `verdict.json` and `step_costs.json`, written before `run.json`.

The capacity controller quotes the verdict in its mail. A forecast for other prompts or loads reads
the step costs: the time of a step depends on the server, on the number of requests in it and on
their length, and hardly on their text.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, Protocol, TypeVar

from draftworth.errors import UserInputError
from draftworth.records.codec import RecordError, dump_json, dump_record, load_object, load_record
from draftworth.records.judgement import Judgement
from draftworth.records.load_shapes import Load
from draftworth.records.servers import ServingFacts
from draftworth.untrusted import TooLargeError, one_line, read_file

STEP_COSTS_FILE = "step_costs.json"

# How steps are counted (`metrics.steps`): by chunks; by tokens, if the server yields one token per
# step; by the server's own count of verification steps; or by its counters of tokens in a block.
StepsBy = Literal["chunks", "tokens", "verification steps", "counters"]


@dataclass(frozen=True, kw_only=True)
class StepCost:
    """The step latency of one variant at one load, over all prompt classes.

    mean_context_tokens: mean over steps of a request's input tokens + half of its output tokens;
        None: the server does not count input tokens, or no step was counted.
    step_latency_s: sum of (last chunk - first chunk) / sum of steps, with its 95% interval; None:
        several steps arrived in one chunk and the server does not count its steps, or no request
        was measured.
    requests, steps: how many requests and steps the latency was computed from.
    tokens_per_step: mean output tokens of a step, after the first chunk; None: no steps.
    """

    variant: str
    load: Load
    mean_context_tokens: float | None
    step_latency_s: float | None
    step_latency_low_s: float | None
    step_latency_high_s: float | None
    steps_by: StepsBy | None
    steps: int
    requests: int
    tokens_per_step: float | None


@dataclass(frozen=True, kw_only=True)
class StepCostCard:
    """`step_costs.json`: the step latencies of one run.

    content_sha256: the hash of all other content of the card.
    serving: the engine, target and devices that served; None: not known.
    """

    schema: str = "draftworth.step-costs/2"
    content_sha256: str = ""
    run_id: str
    experiment: str
    serving: ServingFacts | None
    costs: tuple[StepCost, ...]

    def sealed(self) -> StepCostCard:
        return replace(self, content_sha256=_sha256_of_content(dump_record(self)))


def _sha256_of_content(data: bytes) -> str:
    """Hash a card without its own hash; keys that this version does not know are included."""
    content = {**load_object(data), "content_sha256": ""}
    return hashlib.sha256(dump_json(content)).hexdigest()


def read_step_costs(path: Path) -> StepCostCard:
    """Read a card from its file or a run's folder; UserInputError: it is missing or was changed."""
    file = path / STEP_COSTS_FILE if path.is_dir() else path
    shown = one_line(str(file))
    try:
        data = read_file(file)
        card = load_record(StepCostCard, data)
    except OSError as error:
        raise UserInputError(
            f"{shown}: no step-cost card there ({error.strerror}); allowed: {STEP_COSTS_FILE}, or "
            "the folder of a complete run"
        ) from error
    except (RecordError, TooLargeError) as error:
        raise UserInputError(f"{shown}: no step-cost card of this version: {error}") from error
    if card.content_sha256 != _sha256_of_content(data):
        raise UserInputError(
            f"{shown}: content_sha256: given {one_line(card.content_sha256, characters=64)!r}, "
            "allowed: the hash of the card's content: it was changed after the run wrote it; copy "
            "it again from the run's folder"
        )
    return card


# The folder of all runs in a results bucket.
RUNS_FOLDER = "runs"
VERDICT_FILE = "verdict.json"
# The folder inside a run's folder with the report, which the measuring Job writes after the run.
REPORT_FOLDER = "report"
REPORT_PAGE = "report.html"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One variant compared with a baseline, for a prompt class or the traffic mix, at one load.

    cost_ratio: the variant's cost of an output token divided by the baseline's, with its 95%
        interval; None if it is not known.
    sentence: the finding in words.
    noise_floor_low, noise_floor_high: the 95% interval of the control's cost ratio (two servers
        without speculation); None if it was not measured.
    clears_noise_floor: whether the interval of `cost_ratio` is outside the noise floor; None: the
        two were not compared.
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


ClaimAnswer = Literal["reproduced", "not reproduced", "inconclusive", "not comparable"]


@dataclass(frozen=True, kw_only=True)
class ClaimFinding:
    """What a run says of the claim named `claim`; docs/claims.md says what each answer means."""

    claim: str
    answer: ClaimAnswer
    sentence: str


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """`verdict.json`: the run's answer in one sentence (`headline`), its findings, and notes.

    decision: what to serve, in one sentence; empty in files of earlier versions.
    findings: in the order of the report, those of the traffic mix first.
    notes: up to which load a variant is cheaper, or within the limits; doubts about the figures.
    """

    schema: str = "draftworth.verdict/2"
    run_id: str
    experiment: str
    decision: str = ""
    headline: str
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]

    @property
    def key(self) -> str:
        return f"{RUNS_FOLDER}/{self.run_id}/{VERDICT_FILE}"


class _HasRunId(Protocol):
    @property
    def run_id(self) -> str: ...


R = TypeVar("R", bound=_HasRunId)


def read_beside(kind: type[R], path: Path, run_id: str, *, what: str) -> R | None:
    """Read a record of type `kind` about a run; None if the file does not exist.

    UserInputError is raised if the file cannot be read as this record, or belongs to another run.
    what: the record in words, for the error message.
    """
    if not os.path.lexists(path):
        return None
    try:
        found = load_record(kind, read_file(path))
    except (OSError, RecordError, TooLargeError) as error:
        raise UserInputError(f"{path}: no {what} of this version: {error}") from error
    if found.run_id != run_id:
        raise UserInputError(f"{path}: {what} of run {found.run_id!r}, not of {run_id}")
    return found
