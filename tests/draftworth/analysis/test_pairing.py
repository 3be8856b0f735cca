"""Which requests make a pair, and which clusters a pair belongs to."""

from typing import Any

from draftworth.analysis.pairing import MANY_CASES, Traffic, counting, paired
from draftworth.records.load_shapes import ConcurrencyLoad
from draftworth.records.results import BlockResult
from tests.support.blocks import make_block, make_failed_record, make_record

LOAD = ConcurrencyLoad(concurrency=4)
TRAFFIC = Traffic(weights={"structured": 0.5, "chat": 0.5}, load=LOAD)


def both(case: str = "count", **overrides: Any) -> list[BlockResult]:
    return [make_block(variant=name, case=case, **overrides) for name in ("baseline", "k7")]


def test_pairs_are_of_all_classes_at_one_load() -> None:
    other = ConcurrencyLoad(concurrency=1)
    blocks = [*both(), *both(prompt_class="chat"), *both(load=other, round=2)]
    pairs = paired(blocks, TRAFFIC, variant="k7", baseline="baseline")
    assert [pair.prompt_class for pair in pairs] == ["structured"] * 3 + ["chat"] * 3


def test_only_prompts_of_both_sides_are_pairs() -> None:
    records = [make_record(i) for i in range(4)]
    blocks = [
        make_block(variant="baseline", requests=tuple(records)),
        make_block(variant="k7", requests=(*records[1:3], make_failed_record(3))),
    ]
    pairs = paired(blocks, TRAFFIC, variant="k7", baseline="baseline")
    assert [pair.plain.prompt_id for pair in pairs] == ["prompt-1", "prompt-2", "prompt-3"]
    assert len(counting(pairs)) == 2


def test_few_cases_are_strata_many_the_sample() -> None:
    few = [block for i in range(MANY_CASES - 1) for block in both(f"case-{i}")]
    many = [*few, *both("one more")]
    sampled = [
        {
            (p.place.stratum, p.place.prompt)
            for p in paired(blocks, TRAFFIC, variant="k7", baseline="baseline")
        }
        for blocks in (few, many)
    ]
    assert ("structured/case-0", "case-0/prompt-0") in sampled[0]
    assert sampled[1] == {
        ("structured", case) for case in (*(f"case-{i}" for i in range(MANY_CASES - 1)), "one more")
    }


def test_equal_rounds_of_two_runs_are_no_pairs() -> None:
    """Both requests of a pair are from the same run and repetition."""
    blocks = [
        block for run in ("one", "other") for n in (1, 2) for block in both(run_id=run, round=n)
    ]
    blocks += both(run_id="one", round=3, repetition=2)
    pairs = paired(blocks, Traffic.of(TRAFFIC.groups[0]), variant="k7", baseline="baseline")
    assert len(pairs) == 5 * 3
    assert {pair.place.repetition for pair in pairs} == {"one/1", "one/2", "other/1"}
    assert len({pair.place.block for pair in pairs}) == 5
    alone = [b for b in blocks if (b.run_id, b.variant) in (("one", "k7"), ("other", "baseline"))]
    assert not paired(alone, TRAFFIC, variant="k7", baseline="baseline")
