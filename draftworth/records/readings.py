"""What a model says of outputs that exist, and the outputs: JSON Lines, one line for each output.

A pass of a model over outputs of the target (teacher forcing, `draftworth/estimate`) shows for
every token whether the model would have said it, and how likely it was. Standard library only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from draftworth.records.codec import dump_record


@dataclass(frozen=True, kw_only=True)
class Output:
    """One output of the target, with what it answers.

    id: unique in its file. asked: `messages` (and `tools`) for the chat template, or `prompt`.
    token_ids: of the output; None where they are not known, and the text is tokenized again.
    """

    id: str
    prompt_class: str
    case: str
    prompt_id: str
    asked: Mapping[str, Any]
    text: str
    token_ids: tuple[int, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What one model says of one output.

    hits: a character for each output token after the first: `1` where it is the model's most likely
        next token, `0` where another one is.
    log_likelihood: of all output tokens, nats. entropy: the sum of the model's own entropies at
        their positions, nats; what is sampled from the model has, on average, a log-likelihood of
        minus that. variance: of the log-likelihood then, nats squared.
    farthest: how far any output token lies below the model's most likely one, nats; 0: each is it.
    """

    id: str
    prompt_class: str
    case: str
    prompt_id: str
    hits: str
    log_likelihood: float
    entropy: float
    variance: float
    farthest: float = 0.0

    def __post_init__(self) -> None:
        if not {*self.hits} <= {"0", "1"}:
            raise ValueError("hits: allowed: the characters 0 and 1")

    @property
    def flags(self) -> tuple[bool, ...]:
        """The hits, for arithmetic."""
        return tuple(hit == "1" for hit in self.hits)


@dataclass(frozen=True, kw_only=True)
class Pass:
    """The first line of a file of readings: what was read by what; another one is another file.

    model: folder name of the model; model_sha256: of its weights and configuration.
    tokenizer_sha256: of the target's tokenizer and chat template, which make the tokens.
    outputs_sha256: of the file that was read. temperature: of the model's distribution; greedy
    outputs are read at 1.
    """

    schema: str = "draftworth.readings/2"
    model: str
    model_sha256: str
    tokenizer_sha256: str
    outputs_sha256: str
    temperature: float
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def file_name(self) -> str:
        """Of its readings: other weights, tokens, outputs or settings have another file."""
        return f"{self.model}-{hashlib.sha256(dump_record(self)).hexdigest()[:16]}.readings.jsonl"
