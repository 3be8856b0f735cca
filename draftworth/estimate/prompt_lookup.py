"""Replays n-gram drafting (prompt lookup) over existing outputs, without a model.

Each step takes the last `longest` tokens of prompt and output, and searches for an earlier
occurrence of them; if there is none, it searches for the last `longest - 1` tokens, and so on down
to `shortest`. It proposes the tokens that followed the earliest occurrence. So if the target is
greedy, token ids alone determine the steps of every window.

Source: vLLM 0.32, `v1/spec_decode/ngram_proposer.py`; a test compares it with this module.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import fsum
from typing import Protocol

from draftworth.analysis.acceptance import acceptance_of
from draftworth.records.readings import Output, TokenIds


class Tokenizer(Protocol):
    """Makes token ids of outputs and their prompts, as the target's server makes them."""

    def token_ids(self, outputs: Sequence[Output], *, enable_thinking: bool) -> list[TokenIds]:
        """Return the ids in the order of `outputs`; enable_thinking: for the chat template."""


@dataclass(frozen=True, order=True)
class LookupLengths:
    """How many of the last tokens are looked up: vLLM's prompt_lookup_min and prompt_lookup_max."""

    shortest: int
    longest: int

    def __str__(self) -> str:
        low, high = self.shortest, self.longest
        return f"{low}" if low == high else f"{low} to {high}"


def match_ends(tokens: Sequence[int], lengths: LookupLengths) -> list[int | None]:
    """Return, for n = 0 to len(tokens), the index of the token that is proposed after n tokens.

    A step that has the first n of `tokens` proposes the token at this index and those after it.
    None: nothing is proposed, because the last of these n tokens do not occur earlier.
    """
    ends: list[int | None] = [None]
    earliest: dict[tuple[int, ...], int] = {}
    for count in range(1, len(tokens) + 1):
        end = None
        for length in range(lengths.shortest, min(lengths.longest, count) + 1):
            before = earliest.setdefault(tuple(tokens[count - length : count]), count)
            # `length` grows in this loop, so the longest n-gram that occurred earlier is the last
            # one that sets `end`.
            end = before if before < count else end
        ends.append(end)
    return ends


@dataclass(frozen=True, kw_only=True)
class LookedUp:
    """One output of the target and its prompt, as token ids, for a replay of n-gram drafting.

    lengths: how many of the last tokens each step looks up.
    """

    prompt_class: str
    case: str
    prompt_id: str
    prompt_ids: Sequence[int]
    output_ids: Sequence[int]
    lengths: LookupLengths

    @property
    def tokens_after_first(self) -> int:
        return max(0, len(self.output_ids) - 1)

    def step_after(self, yielded: int, checked: int) -> int:
        """Return how many tokens a step yields after the first `yielded` output tokens.

        checked: the most drafted tokens that the step checks.
        """
        tokens, position = self._tokens, len(self.prompt_ids) + yielded
        accepted, end = 0, self._ends[position]
        most = 0 if end is None else min(checked, position - end, len(tokens) - position)
        while accepted < most and tokens[(end or 0) + accepted] == tokens[position + accepted]:
            accepted += 1
        return min(accepted + 1, len(tokens) - position)

    def steps(self, checked: int) -> Iterator[int]:
        """Yield how many tokens each step yields, if it checks at most `checked` drafted tokens.

        The output's first token belongs to no step, because the prefill yields it.
        """
        yielded = 1
        while yielded < len(self.output_ids):
            step = self.step_after(yielded, checked)
            yield step
            yielded += step

    @cached_property
    def _tokens(self) -> tuple[int, ...]:
        return (*self.prompt_ids, *self.output_ids)

    @cached_property
    def _ends(self) -> list[int | None]:
        return match_ends(self._tokens, self.lengths)


def looked_up(
    outputs: Sequence[Output],
    tokenizer: Tokenizer,
    lengths: LookupLengths,
    *,
    enable_thinking: bool,
) -> list[LookedUp]:
    """Return the outputs and prompts as token ids, for a replay with these lookup lengths.

    enable_thinking: a variable of the chat template. Errors: see `token_ids` of the tokenizer.
    """
    token_ids = tokenizer.token_ids(outputs, enable_thinking=enable_thinking)
    return [
        LookedUp(
            prompt_class=output.prompt_class,
            case=output.case,
            prompt_id=output.prompt_id,
            prompt_ids=ids.prompt_ids,
            output_ids=ids.output_ids,
            lengths=lengths,
        )
        for output, ids in zip(outputs, token_ids, strict=True)
    ]


def tokens_per_step(
    outputs: Sequence[LookedUp], weights: Mapping[str, float], *, checked: int
) -> float:
    """Return the mean tokens per step over all classes that have a weight.

    weights: each class's share of the output tokens. checked: the most drafted tokens that a step
    checks.
    """
    by_class = acceptance_of(outputs, [checked])
    means = {name: o.tokens_per_step.value for name, (o,) in by_class.items() if name in weights}
    total = fsum(weights[name] for name in means)
    return total / fsum(weights[name] / tokens for name, tokens in means.items())
