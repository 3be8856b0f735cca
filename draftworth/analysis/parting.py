"""Whether greedy outputs part from the baseline's sooner than rounding lets right servers part.

A right server that checks several tokens at once rounds otherwise than one that makes them one by
one, and may say the other of two tokens that are nearly as likely; all after it differs then. So
outputs that differ show nothing by themselves, and a control, which computes in the shapes of the
baseline, rounds as that does. What rounding cannot do is to part outputs at one token after
another. Docs: docs/decisions/0025-whose-answers.md.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from draftworth.analysis.outputs import OutputPair, output_pairs
from draftworth.analysis.pairing import Pair, Traffic, counting, paired
from draftworth.analysis.statistics import at_least
from draftworth.analysis.summary import groups_of
from draftworth.records.likelihoods import FALSE_ALARMS
from draftworth.records.load import Load
from draftworth.records.reading import Run
from draftworth.records.results import CONTROL, BlockResult
from draftworth.records.transcripts import Transcripts

# Right servers part at most at this part of tokens: most outputs of 128 tokens that are known to
# differ by rounding alone make one or two of a hundred.
ROUNDING_PER_TOKEN = 0.05


@dataclass(frozen=True, kw_only=True)
class Parting:
    """A variant's greedy outputs beside the baseline's at a load, by token ids; one pair a prompt.

    differing: pairs that differ. tokens: compared in all pairs, up to the first difference.
    sooner, later: prompts whose outputs part sooner, or later, than those of the noise floor.
    floor: what that is, in words. alarms: false ones, in this part of right servers.
    """

    variant: str
    load: str
    prompts: int
    differing: int
    tokens: int
    sooner: int
    later: int
    floor: str
    alarms: float

    @property
    def is_the_targets(self) -> bool:
        """Nothing shows that they are not: they part no sooner than the floor, or than rounding."""
        beside_floor = at_least(self.sooner, self.sooner + self.later, 0.5)
        beside_rounding = at_least(self.differing, self.tokens, ROUNDING_PER_TOKEN)
        return max(beside_floor, beside_rounding) > self.alarms

    @property
    def words(self) -> str:
        """What is wrong, for a reader; empty where nothing is."""
        if self.is_the_targets:
            return ""
        return (
            f"{self.variant}: its answers are not the target's: at {self.load} {self.differing} of "
            f"{self.prompts} differ from the baseline's, at one token in "
            f"{self.tokens / self.differing:.0f}, sooner than {self.floor} and than rounding "
            f"explains (one in {1 / ROUNDING_PER_TOKEN:.0f})"
        )


def partings(
    run: Run, control: Sequence[BlockResult], transcripts: Transcripts, *, but: Collection[str]
) -> Iterator[Parting]:
    """Of every variant, load by load, where outputs are greedy and there is a noise floor.

    run: without its control. but: variants whose outputs a model has read, which says more.
    """
    baseline = run.result.baseline
    loads = _loads(run)
    for variant in run.result.variants if not run.result.temperature else ():
        for load, classes in loads.items() if variant not in {baseline, *but} else ():
            traffic = Traffic(weights=classes, load=load)
            pairs = counting(paired(run.blocks, traffic, variant=variant, baseline=baseline))
            equals = counting(paired(control, traffic, variant=CONTROL, baseline=baseline))
            own = _first_of_each(output_pairs(pairs, transcripts))
            floor, words = _floor(pairs, equals, transcripts)
            if own.keys() & floor.keys():
                sooner, later = _orders(own, floor)
                yield Parting(
                    variant=variant,
                    load=load.label,
                    prompts=len(own),
                    differing=sum(not pair.identical for pair in own.values()),
                    tokens=sum(pair.tokens or 0 for pair in own.values()),
                    sooner=sooner,
                    later=later,
                    floor=words,
                    alarms=FALSE_ALARMS / len(loads),
                )


def _loads(run: Run) -> dict[Load, dict[str, float]]:
    """Every load with its classes."""
    found: dict[Load, dict[str, float]] = {}
    for group in groups_of(run.blocks):
        found.setdefault(group.load, {})[group.prompt_class] = 1.0
    return found


def _floor(
    pairs: Sequence[Pair], equals: Sequence[Pair], transcripts: Transcripts
) -> tuple[dict[str, OutputPair], str]:
    """What should be as alike, and in words: the control, else the baseline's repeated answers."""
    if floor := _first_of_each(output_pairs(equals, transcripts)):
        return floor, "those of a second server without speculation"
    return _first_of_each(output_pairs(_repeats(pairs), transcripts)), "the baseline's own repeats"


def _orders(own: Mapping[str, OutputPair], floor: Mapping[str, OutputPair]) -> tuple[int, int]:
    """Prompts whose outputs part sooner than those of the floor, and later."""
    both = [(_place(own[prompt]), _place(floor[prompt])) for prompt in own.keys() & floor.keys()]
    return sum(o < f for o, f in both), sum(o > f for o, f in both)


def _first_of_each(outputs: Iterable[OutputPair]) -> dict[str, OutputPair]:
    """Of a prompt the first pair: a greedy server repeats itself."""
    found: dict[str, OutputPair] = {}
    for output in outputs:
        if output.tokens:
            found.setdefault(output.prompt, output)
    return found


def _repeats(pairs: Iterable[Pair]) -> Iterator[Pair]:
    """The baseline's answers to a prompt beside its own later ones."""
    by_prompt: dict[tuple[str, str, str], list[Pair]] = {}
    for pair in pairs:
        prompt = pair.prompt_class, pair.case, pair.plain.prompt_id
        by_prompt.setdefault(prompt, []).append(pair)
    for of_prompt in by_prompt.values():
        for one, other in pairwise(of_prompt):
            yield replace(one, drafted=other.plain)


def _place(output: OutputPair) -> float:
    """Of the first difference, in tokens; infinite where there is none."""
    return float("inf") if output.identical else float(output.tokens or 0)
