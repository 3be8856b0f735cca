"""What a token of each prompt costs with a variant, and two outputs that show why costs differ."""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from draftworth.analysis.pairing import Pair, counting
from draftworth.analysis.ratios import cost_amounts
from draftworth.records.transcripts import Transcripts


@dataclass(frozen=True, kw_only=True)
class PromptCost:
    """The cost of a token of one prompt with the variant / with the baseline, over all its pairs.

    One prompt has few pairs, so there is no interval.

    drafted_ids: the ids of the variant's requests with the prompt.
    """

    prompt_class: str
    case: str
    prompt: str
    cost_ratio: float
    drafted_ids: tuple[str, ...]

    @property
    def pairs(self) -> int:
        return len(self.drafted_ids)


@dataclass(frozen=True, kw_only=True)
class ExampleOutput:
    """The variant's output for one prompt."""

    of: PromptCost
    text: str


def prompt_costs(pairs: Iterable[Pair], *, factor: float) -> tuple[PromptCost, ...]:
    """Return the cost of each prompt, the prompt that gains most first.

    factor: the price of the variant's server / of the baseline's. Pairs with a request that failed,
    or without a count of its tokens, are left out.
    """
    by_prompt: defaultdict[tuple[str, str, str], list[Pair]] = defaultdict(list)
    for pair in counting(pairs):
        by_prompt[pair.prompt_class, pair.place.case, pair.plain.prompt_id].append(pair)
    costs = (_cost(*key, of_prompt, factor) for key, of_prompt in by_prompt.items())
    return tuple(sorted((c for c in costs if c), key=lambda c: c.cost_ratio))


def _cost(
    prompt_class: str, case: str, prompt: str, pairs: Sequence[Pair], factor: float
) -> PromptCost | None:
    amounts = [
        (plain, drafted, pair)
        for pair in pairs
        if (plain := cost_amounts(pair.plain)) and (drafted := cost_amounts(pair.drafted))
    ]
    plain_s, plain_tokens = _sums(plain for plain, _, _ in amounts)
    drafted_s, drafted_tokens = _sums(drafted for _, drafted, _ in amounts)
    if not (plain_s and plain_tokens and drafted_tokens):
        return None
    return PromptCost(
        prompt_class=prompt_class,
        case=case,
        prompt=prompt,
        cost_ratio=factor * (drafted_s / drafted_tokens) / (plain_s / plain_tokens),
        drafted_ids=tuple(pair.drafted.request_id for _, _, pair in amounts),
    )


def _sums(amounts: Iterable[tuple[float, float]]) -> tuple[float, float]:
    seconds, tokens = zip(*amounts, strict=True) if (amounts := list(amounts)) else ((), ())
    return math.fsum(seconds), math.fsum(tokens)


def example_outputs(
    costs: Sequence[PromptCost], transcripts: Transcripts
) -> Iterator[ExampleOutput]:
    """Yield an output of the prompt that gains most, and one of the prompt that loses most.

    If none loses, it is the one that gains least. A prompt is left out whose output is not kept,
    and nothing is yielded of a single prompt.
    """
    for cost in (costs[0], costs[-1]) if len(costs) > 1 else ():
        texts = (transcripts[name].text for name in cost.drafted_ids if name in transcripts)
        if text := next(filter(None, texts), ""):
            yield ExampleOutput(of=cost, text=text)
