"""Outputs of a target model, and readings of them, as JSON Lines with one line for each output.

A reading is the result of a model's pass over an output (teacher forcing, `draftworth/estimate`):
whether the model would have chosen each token, and how likely the tokens were.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from draftworth.records.codec import dump_record
from draftworth.speculation import steps_of


@dataclass(frozen=True, kw_only=True)
class Output:
    """One output of the target, with its prompt.

    id: unique in its file. asked: `messages` (and `tools`) for the chat template, or `prompt`.
    token_ids: the output's token ids; None: unknown, so the text is tokenized again.
    """

    id: str
    prompt_class: str
    case: str
    prompt_id: str
    asked: Mapping[str, Any]
    text: str
    token_ids: tuple[int, ...] | None = None


class Replayed(Protocol):
    """One output of the target, for which the steps of a way to draft are known.

    steps: yields the output tokens of each step, which checks so many drafts at most.
    """

    @property
    def prompt_class(self) -> str: ...
    @property
    def case(self) -> str: ...
    @property
    def prompt_id(self) -> str: ...
    @property
    def tokens_after_first(self) -> int: ...

    def steps(self, checked: int) -> Iterator[int]: ...


@dataclass(frozen=True, kw_only=True)
class Reading:
    """The result of one model's pass over one output.

    hits: a character for each output token after the first: `1` if it is the model's most likely
        next token, else `0`.
    log_likelihood: sum over all output tokens, in nats. entropy: sum of the entropies of the
        model's distributions at these tokens, in nats; an output sampled from the model has the
        expected log-likelihood -entropy. variance: variance of this log-likelihood (nats squared).
    farthest: the largest distance, in nats, of an output token from the model's most likely one.
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
    def tokens_after_first(self) -> int:
        return len(self.hits)

    def steps(self, checked: int) -> Iterator[int]:
        """Yield the output tokens of each step that checks so many drafts of this model."""
        return steps_of([hit == "1" for hit in self.hits], checked=checked)


@dataclass(frozen=True, kw_only=True)
class PassSettings:
    """What a pass is to do: the first line of the input of its program; outputs follow.

    model: folder of the model that reads. target: folder with the tokenizer of the outputs' model.
    folder: where files of readings are kept. precision: as PyTorch calls it, or "auto".
    temperature: of the model's distribution.
    fixed_length: the server could not end an output, so it never drew the tokens that end one.
    """

    model: str
    target: str
    folder: str
    precision: str
    temperature: float
    enable_thinking: bool
    fixed_length: bool


@dataclass(frozen=True, kw_only=True)
class Pass:
    """The first line of a file of readings: the model, the outputs and the settings of the pass.

    model: folder name of the model. model_sha256: hash of its weights and configuration.
    tokenizer_sha256: hash of the target's tokenizer and chat template, which make the tokens.
    outputs_sha256: hash of the file of outputs. temperature: temperature of the model's
    distribution; 1 for greedy outputs.
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
        return f"{self.model}-{hashlib.sha256(dump_record(self)).hexdigest()[:16]}.readings.jsonl"
