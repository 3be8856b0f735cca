"""Readings: how well a model predicts each token of a target's outputs, as JSON Lines.

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

    id: unique among all outputs that a model reads in one pass.
    asked: the prompt: `messages` (and `tools`) for the chat template, or the text `prompt`.
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
    """An output of the target for which it is known how many tokens a draft's steps would yield.

    tokens_after_first: number of output tokens without the first one, which the prefill yields.
    step_after: returns the number of output tokens of the step that follows the first `yielded`
        output tokens (1 to `tokens_after_first`), if it checks at most `checked` drafted tokens.
    steps: yields the number of output tokens of each step.
    """

    @property
    def prompt_class(self) -> str: ...
    @property
    def case(self) -> str: ...
    @property
    def prompt_id(self) -> str: ...
    @property
    def tokens_after_first(self) -> int: ...

    def step_after(self, yielded: int, checked: int) -> int: ...
    def steps(self, checked: int) -> Iterator[int]: ...


@dataclass(frozen=True, kw_only=True)
class Reading:
    """The result of one model's pass over one output.

    hits: a character for each output token after the first: `1` if it is the model's most likely
        next token, else `0`.
    log_likelihood: the output's log-likelihood under the model: the sum over its tokens, in nats.
    entropy, variance: if each token were sampled from the model's distribution at its position,
        the log-likelihood would have the mean -`entropy` (nats) and the variance `variance`
        (nats squared). Both are sums over all output tokens.
    farthest: the largest difference of log-likelihoods, in nats, between the model's most likely
        token at a position and the output's token there.
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

    def step_after(self, yielded: int, checked: int) -> int:
        """Return how many tokens a step yields after the first `yielded` output tokens."""
        # `hits` begins after the first output token.
        hits = self.hits[yielded - 1 : yielded + checked]
        return next(steps_of([hit == "1" for hit in hits], checked=checked))

    def steps(self, checked: int) -> Iterator[int]:
        """Yield the number of output tokens of each step that checks `checked` drafted tokens."""
        return steps_of([hit == "1" for hit in self.hits], checked=checked)


@dataclass(frozen=True, kw_only=True)
class PassSettings:
    """The settings of a model's pass over outputs, as `estimate/teacher_forcing.py` reads them.

    They are the first line of that program's input.
    model: folder of the model whose predictions are read off (the target or a draft).
    target: folder with the tokenizer of the target, whose outputs they are.
    folder: the folder for files of readings.
    precision: type of the model's weights, as PyTorch calls it; "auto": that of the checkpoint.
    temperature: divides the model's logits. enable_thinking: a variable of the chat template.
    fixed_length: all outputs have a fixed length, so the server drew no token that ends an output.
    """

    model: str
    target: str
    folder: str
    precision: str
    temperature: float
    enable_thinking: bool
    fixed_length: bool


@dataclass(frozen=True, kw_only=True)
class TokenLimits:
    """Limits of the process that turns prompts and outputs into token ids.

    A tokenizer of 150,000 tokens is loaded in 1 s and 0.5 GiB, and makes a million token ids in a
    few seconds. A line of a prompt file cannot reach the limit `tokens`: it has fewer bytes.

    seconds, memory_bytes: limits of the process. tokens: limit for each prompt and each output.
    tokens_in_all: limit for all prompts and outputs together.
    """

    seconds: float = 600.0
    memory_bytes: int = 4 * 2**30
    tokens: int = 2**22
    tokens_in_all: int = 2**26

    def __str__(self) -> str:
        return (
            f"{self.seconds:g} s, {self.memory_bytes / 2**30:g} GiB, {self.tokens:,} tokens of a "
            f"prompt and {self.tokens_in_all:,} of all"
        )


@dataclass(frozen=True, kw_only=True)
class TokenizingSettings:
    """The first input line of `draftworth/estimate/tokenizing.py`; lines with outputs follow.

    target: folder with the tokenizer. enable_thinking: a variable of the chat template.
    """

    target: str
    enable_thinking: bool
    limits: TokenLimits


@dataclass(frozen=True, kw_only=True)
class TokenIds:
    """An output and its prompt as token ids: a line that `estimate/tokenizing.py` prints."""

    prompt_ids: tuple[int, ...]
    output_ids: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Pass:
    """The first line of a file of readings: the model, the outputs and the settings of the pass.

    model: folder name of the model. model_sha256: hash of its weights and configuration.
    tokenizer_sha256: hash of the target's tokenizer and chat template, which make the tokens.
    outputs_sha256: hash of the outputs as JSON lines.
    temperature: divides the model's logits; 1 for greedy outputs. options: other settings, by name.
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
