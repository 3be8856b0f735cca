"""The step-cost card of a complete run, `step_costs.json`: how long a decoding step takes.

A forecast for other prompts or loads reads it: the time of a step depends on the server, on the
number of requests in the step and on their length, and hardly on their text.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from draftworth.errors import UserInputError
from draftworth.records.codec import RecordError, dump_json, dump_record, load_object, load_record
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

    content_sha256: the hash of all other content of the file, which shows later changes.
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
    """Return the SHA-256 of the content of a `step_costs.json` in hexadecimal.

    data: the file's bytes. Its field `content_sha256` is emptied first. Keys that this version does
        not know are hashed too.
    """
    content = {**load_object(data), "content_sha256": ""}
    return hashlib.sha256(dump_json(content)).hexdigest()


def read_step_costs(path: Path) -> StepCostCard:
    """Read the step latencies of a run from its `step_costs.json`.

    path: this file, or the folder of the run.
    UserInputError is raised if the file is missing or wrong, or was changed after it was written.
    """
    file = path / STEP_COSTS_FILE if path.is_dir() else path
    printed_path = one_line(str(file))
    try:
        data = read_file(file)
        card = load_record(StepCostCard, data)
    except OSError as error:
        raise UserInputError(
            f"{printed_path}: no step-cost card there ({error.strerror}); allowed: "
            f"{STEP_COSTS_FILE}, or the folder of a complete run"
        ) from error
    except (RecordError, TooLargeError) as error:
        raise UserInputError(
            f"{printed_path}: no step-cost card of this version: {error}"
        ) from error
    if card.content_sha256 != _sha256_of_content(data):
        raise UserInputError(
            f"{printed_path}: content_sha256: given "
            f"{one_line(card.content_sha256, characters=64)!r}, allowed: the hash of the card's "
            "content: it was changed after the run wrote it; copy it again from the run's folder"
        )
    return card
