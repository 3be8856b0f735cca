"""Which outputs are read, and what is refused before or after they are."""

from __future__ import annotations

from typing import Any

import pytest

from draftworth.errors import UserInputError
from draftworth.estimating.outputs import check_classes, check_lengths, outputs_of_run
from draftworth.records.load import ConcurrencyLoad
from draftworth.records.reading import Run
from draftworth.records.readings import Output, Reading
from tests.support.blocks import make_block, make_run


def output(prompt_class: str) -> Output:
    return Output(
        id=prompt_class,
        prompt_class=prompt_class,
        case="case",
        prompt_id="p",
        asked={"prompt": "x"},
        text="y",
    )


def reading(prompt_class: str, hits: str) -> Reading:
    return Reading(
        id=prompt_class,
        prompt_class=prompt_class,
        case="case",
        prompt_id="p",
        hits=hits,
        log_likelihood=-1.0,
        entropy=1.0,
        variance=1.0,
    )


def run_at(*lengths: int | None) -> Run:
    def block(length: int | None) -> Any:
        load = ConcurrencyLoad(concurrency=1, input_tokens=length)
        return make_block(variant="baseline", load=load)

    blocks = tuple(block(length) for length in lengths)
    return Run(result=make_run(*blocks), blocks=blocks)


def test_classes_without_outputs_are_named() -> None:
    check_classes(["a", "b"], [output("a"), output("b")])

    with pytest.raises(UserInputError, match=r"no outputs of classes b, c: .*next: .*answers of"):
        check_classes(["a", "b", "c"], [output("a")])


def test_classes_whose_outputs_have_one_token_are_named() -> None:
    check_lengths(["a"], [reading("a", ""), reading("a", "1")])

    with pytest.raises(UserInputError, match=r"outputs of class b: given: none longer than one"):
        check_lengths(["a", "b"], [reading("a", "1"), reading("b", "")])
    with pytest.raises(UserInputError, match=r"outputs of classes a, b: .*next: give longer"):
        check_lengths(["a", "b"], [reading("a", ""), reading("b", "")])


def test_a_run_with_prompts_made_for_its_loads_alone_says_so() -> None:
    with pytest.raises(UserInputError, match=r"input_tokens of 512, 2,000.*next: measure with a"):
        outputs_of_run(run_at(2000, 512), {}, [])

    with pytest.raises(UserInputError, match="transcripts are missing"):
        outputs_of_run(run_at(512, None), {}, [])
