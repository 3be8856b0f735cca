"""Traffic, and the pairs of requests that compare two variants in it.

A pair is the same prompt in the same round, to the baseline and to a variant; so both had the same
work within the same minutes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from draftworth.analysis.clustering import Sample
from draftworth.analysis.summary import Group
from draftworth.records.load import Load
from draftworth.records.results import BlockResult, RequestRecord

# A class of so many cases speaks of cases like these; one of fewer of these cases alone, because a
# case was chosen, not drawn, and one case's prompts have much in common.
MANY_CASES = 8
TRAFFIC_MIX = "traffic mix"


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """What a verdict speaks of, at one load.

    weights: prompt classes by name, with their parts of the output tokens.
    """

    weights: Mapping[str, float]
    load: Load

    @classmethod
    def of(cls, group: Group) -> Traffic:
        """One prompt class alone."""
        return cls(weights={group.prompt_class: 1.0}, load=group.load)

    @property
    def groups(self) -> tuple[Group, ...]:
        """A group for each class."""
        return tuple(Group(prompt_class=name, load=self.load) for name in self.weights)

    @property
    def name(self) -> str:
        """The class, or that it is a mix of several."""
        return TRAFFIC_MIX if len(self.weights) > 1 else next(iter(self.weights))

    @property
    def label(self) -> str:
        """`structured at c4`."""
        return f"{self.name} at {self.load.label}"


@dataclass(frozen=True, kw_only=True)
class Pair:
    """One prompt's requests to both variants in one round.

    stratum: the class, and the case where it is not itself one of many. prompt: the prompt, or the
    case where cases are what was drawn. repetition: the run, and which of its repetitions.
    """

    prompt_class: str
    case: str
    stratum: str
    prompt: str
    block: str
    repetition: str
    plain: RequestRecord
    drafted: RequestRecord

    def sample(self, value: float) -> Sample:
        """A value of this pair."""
        return Sample(
            stratum=self.stratum,
            prompt=self.prompt,
            block=self.block,
            repetition=self.repetition,
            case=self.case,
            value=value,
        )


def paired(
    blocks: Sequence[BlockResult], traffic: Traffic, *, variant: str, baseline: str
) -> tuple[Pair, ...]:
    """All pairs of requests in the traffic, whether they count or not.

    Matched by run, repetition, case, round, prompt and its occurrence in the block: rounds are
    numbered over a run's repetitions, and in every run from 1.
    """
    return tuple(
        pair
        for group in traffic.groups
        for pair in _paired(
            group.prompt_class, group.blocks(blocks, baseline), group.blocks(blocks, variant)
        )
    )


def counting(pairs: Iterable[Pair]) -> tuple[Pair, ...]:
    """Those of which both requests have figures that count."""
    return tuple(pair for pair in pairs if pair.plain.counts and pair.drafted.counts)


def samples_of(
    blocks: Sequence[BlockResult], group: Group, variant: str
) -> list[tuple[Sample, RequestRecord]]:
    """Every request of a variant in a group, with where it comes from; the value is not set."""
    own = group.blocks(blocks, variant)
    strata = _Strata.of(group.prompt_class, {block.case for block in own})
    return [
        (
            Sample(
                stratum=strata.stratum(block.case),
                prompt=strata.prompt(block.case, record.prompt_id),
                block=_block_name(block.case, repetition_of(block), block.round),
                repetition=repetition_of(block),
                case=block.case,
                value=0.0,
            ),
            record,
        )
        for block in own
        for record in block.requests
    ]


def repetition_of(block: BlockResult) -> str:
    """Which start of the servers a block is of, unique over runs."""
    return f"{block.run_id}/{block.repetition}"


def _block_name(case: str, repetition: str, number: int) -> str:
    return f"{case}/{repetition}/{number}"


@dataclass(frozen=True)
class _Strata:
    """How a class's requests are sampled: prompts of chosen cases, or cases."""

    prompt_class: str
    cases_are_drawn: bool

    @classmethod
    def of(cls, prompt_class: str, cases: Iterable[str]) -> _Strata:
        return cls(prompt_class, len(set(cases)) >= MANY_CASES)

    def stratum(self, case: str) -> str:
        return self.prompt_class if self.cases_are_drawn else f"{self.prompt_class}/{case}"

    def prompt(self, case: str, prompt_id: str) -> str:
        return case if self.cases_are_drawn else f"{case}/{prompt_id}"


def _paired(
    prompt_class: str, plain_blocks: list[BlockResult], drafted_blocks: list[BlockResult]
) -> Iterator[Pair]:
    plain, drafted = _by_identity(plain_blocks), _by_identity(drafted_blocks)
    both = sorted(plain.keys() & drafted.keys())
    strata = _Strata.of(prompt_class, (case for case, *_ in both))
    for key in both:
        case, prompt_id, repetition, number, _ = key
        yield Pair(
            prompt_class=prompt_class,
            case=case,
            stratum=strata.stratum(case),
            prompt=strata.prompt(case, prompt_id),
            block=_block_name(case, repetition, number),
            repetition=repetition,
            plain=plain[key],
            drafted=drafted[key],
        )


def _by_identity(
    blocks: Iterable[BlockResult],
) -> dict[tuple[str, str, str, int, int], RequestRecord]:
    found: dict[tuple[str, str, str, int, int], RequestRecord] = {}
    for block in blocks:
        occurrences: defaultdict[str, int] = defaultdict(int)
        repetition = repetition_of(block)
        for record in block.requests:
            occurrence = occurrences[record.prompt_id]
            found[block.case, record.prompt_id, repetition, block.round, occurrence] = record
            occurrences[record.prompt_id] += 1
    return found
