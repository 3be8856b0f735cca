"""The step-cost card of a run: what a step of each server takes at each load.

`step_costs.json` beside the `verdict.json` of a complete run. A forecast for other prompts or loads
reads it: how long a step takes depends on the server, on how many requests are in it and on how
long they are, and hardly on what they say. Standard library only.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from draftworth.errors import UserInputError
from draftworth.records.codec import RecordError, dump_record, load_record
from draftworth.records.load import Load
from draftworth.records.serving_facts import ServingFacts
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
        return replace(self, content_sha256=self._computed_sha256())

    @property
    def is_whole(self) -> bool:
        """Whether nothing was changed since it was sealed."""
        return self.content_sha256 == self._computed_sha256()

    def _computed_sha256(self) -> str:
        return hashlib.sha256(dump_record(replace(self, content_sha256=""))).hexdigest()


def read_step_costs(path: Path) -> StepCostCard:
    """Read a card: a file, or the folder of the run that it is in.

    Raises:
        UserInputError: there is none, it is no card of this version, or it was changed.
    """
    file = path / STEP_COSTS_FILE if path.is_dir() else path
    shown = one_line(str(file))
    try:
        card = load_record(StepCostCard, read_file(file))
    except OSError as error:
        raise UserInputError(
            f"{shown}: no step-cost card there ({error.strerror}); allowed: {STEP_COSTS_FILE}, or "
            "the folder of a complete run, which holds it"
        ) from error
    except (RecordError, TooLargeError) as error:
        raise UserInputError(f"{shown}: no step-cost card of this version: {error}") from error
    if not card.is_whole:
        raise UserInputError(
            f"{shown}: content_sha256: given {one_line(card.content_sha256, characters=64)!r}, "
            "allowed: the hash of the card's content: it was changed after the run wrote it; copy "
            "it again from the run's folder"
        )
    return card
