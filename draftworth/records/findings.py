"""What a complete run found: its verdict and its step-cost card, beside `run.json`.

`step_costs.json` beside the `verdict.json` of a complete run. A forecast for other prompts or loads
reads it: how long a step takes depends on the server, on how many requests are in it and on how
long they are, and hardly on what they say. Standard library only.

The measuring pod writes it before `run.json`, the capacity controller quotes it in the mail that
says that the run is over. The report says the same and more. Standard library only.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from draftworth.errors import UserInputError
from draftworth.records.codec import RecordError, dump_json, dump_record, load_object, load_record
from draftworth.records.load import Load
from draftworth.records.servers import ServingFacts
from draftworth.untrusted import TooLargeError, one_line, read_file

STEP_COSTS_FILE = "step_costs.json"

# What shows a step: a chunk, a token of a server that yields one a step, or the server's own count.
StepsBy = Literal["chunks", "tokens", "verification steps"]


@dataclass(frozen=True, kw_only=True)
class StepCost:
    """One variant at one load, over all its prompt classes.

    mean_context_tokens: of a step: the request's input tokens and half of its output; None: the
        server counts no input tokens.
    step_latency_s: sum of (last chunk - first chunk) / sum of steps, with its 95% interval; None:
        chunks came merged, and the server does not count its steps.
    requests, steps: that it was computed of.
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
    """`step_costs.json`.

    content_sha256: of everything else in the card, by which it can be named.
    serving: None: nobody knows what serves these endpoints.
    """

    schema: str = "draftworth.step-costs/2"
    content_sha256: str = ""
    run_id: str
    experiment: str
    serving: ServingFacts | None
    costs: tuple[StepCost, ...]

    def sealed(self) -> StepCostCard:
        """The same card with the hash of its content."""
        return replace(self, content_sha256=_sha256_of_content(dump_record(self)))


def _sha256_of_content(data: bytes) -> str:
    """The hash of a card as it is written, so keys that another version wrote are part of it."""
    content = {**load_object(data), "content_sha256": ""}
    return hashlib.sha256(dump_json(content)).hexdigest()


def read_step_costs(path: Path) -> StepCostCard:
    """Read a card: a file, or the folder of the run that it is in.

    Raises:
        UserInputError: there is none, it is no card of this version, or it was changed.
    """
    file = path / STEP_COSTS_FILE if path.is_dir() else path
    shown = one_line(str(file))
    try:
        data = read_file(file)
        card = load_record(StepCostCard, data)
    except OSError as error:
        raise UserInputError(
            f"{shown}: no step-cost card there ({error.strerror}); allowed: {STEP_COSTS_FILE}, or "
            "the folder of a complete run, which holds it"
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


VERDICT_SCHEMA = "draftworth.verdict/2"
# All runs of a results bucket lie below this folder.
RUNS_FOLDER = "runs"
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
        return f"{RUNS_FOLDER}/{self.run_id}/{VERDICT_FILE}"
