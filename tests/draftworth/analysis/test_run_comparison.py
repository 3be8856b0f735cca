"""Two runs side by side, and runs that may not be put side by side."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from draftworth.analysis.run_comparison import changes, overlap
from draftworth.analysis.statistics import Estimate
from draftworth.errors import UserInputError
from draftworth.report.contents import change_sentence
from tests.draftworth.report.runs import (
    make_drafted_block,
    make_facts,
    make_plain_block,
    make_run,
)
from tests.support.blocks import make_record


def known(low: float | None, high: float | None) -> Estimate:
    return Estimate(value=2.0, low=low, high=high, prompts=8, samples=8)


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (known(2.1, 2.5), True),
        (known(2.2, 2.5), True),
        (known(2.3, 2.5), False),
        (known(1.0, 1.5), False),
        (known(None, None), None),
        (None, None),
    ],
)
def test_overlap_of_intervals(other: Estimate | None, expected: bool | None) -> None:
    assert overlap(known(1.8, 2.2), other) is expected
    assert overlap(other, known(1.8, 2.2)) is expected


def test_the_same_run_twice_shows_no_difference() -> None:
    for change in changes(make_facts(), make_facts()):
        assert change.difference == 0
        assert change.overlap is True
        assert "no difference is shown" in change_sentence(change)


def test_a_speedup_that_changed_is_told() -> None:
    slower = tuple(
        make_record(i, request_id=f"run/2-{i}", inter_token_latency_s=0.009) for i in range(8)
    )
    other = make_run(
        blocks=(
            make_plain_block(1, "structured"),
            make_drafted_block(2, "structured", requests=slower),
            make_plain_block(3, "open_ended"),
            make_drafted_block(4, "open_ended"),
        )
    )
    structured, open_ended = changes(make_facts(), make_facts(other))
    assert structured.overlap is False
    assert structured.difference == pytest.approx(2.06 - 1.15, abs=0.02)
    assert "the speedup changed" in change_sentence(structured)
    assert open_ended.overlap is True


def test_the_speedup_of_a_variant_that_only_one_run_has_is_not_compared() -> None:
    run = make_run(variants=("baseline", "k7", "k3"))
    assert {c.label for c in changes(make_facts(run), make_facts())} == {
        "structured at c4, k7",
        "open_ended at c4, k7",
    }


@pytest.mark.parametrize(
    ("overrides", "reason"),
    [
        ({"experiment": "other"}, "experiment 'built' and 'other'"),
        ({"variants": ("plain", "k7"), "baseline": "plain"}, "baseline 'baseline' and 'plain'"),
        ({"variants": ("baseline", "k3")}, "no speculative variant in both"),
        (
            {"blocks": (make_plain_block(1, "structured"),)},
            "only in the first open_ended/count at c4, only in the second nothing",
        ),
    ],
)
def test_runs_of_different_things_are_refused(overrides: dict[str, Any], reason: str) -> None:
    other = make_facts(make_run(**overrides))
    with pytest.raises(UserInputError, match=reason):
        changes(make_facts(), other)


def test_other_cases_of_the_same_class_are_refused() -> None:
    run = make_run()
    other = replace(run, blocks=tuple(replace(b, case="other") for b in run.blocks))
    with pytest.raises(UserInputError, match=r"only in the second .*/other at c4"):
        changes(make_facts(run), make_facts(other))
