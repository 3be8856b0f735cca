"""Lengths of outputs of requests that did not fail, with finish reasons; lengths of prompts."""

import pytest

from draftworth.analysis.summary import OutputLengths, output_lengths, wrong_input_tokens
from draftworth.records.load_shapes import ConcurrencyLoad
from tests.support.blocks import make_failed_record, make_record
from tests.support.present import present


def test_lengths_and_ends_exclude_failed_requests() -> None:
    records = [
        make_record(0, number_output_tokens=600),
        make_record(1, number_output_tokens=30, finish_reason="stop"),
        make_record(2, number_output_tokens=45, finish_reason="stop", excluded="late"),
        make_record(3, number_output_tokens=50, finish_reason=None),
        make_failed_record(4),
    ]
    ends = {"stop": 2, "length": 1, "not told": 1}
    assert output_lengths(records) == OutputLengths(fewest=30, median=47.5, most=600, ends=ends)


def test_a_server_without_token_counts_has_no_lengths() -> None:
    assert output_lengths([make_record(number_output_tokens=None), make_failed_record()]) is None


def test_a_server_with_many_reasons_fills_no_table() -> None:
    lengths = present(
        output_lengths([make_record(finish_reason=f"reason {n}") for n in range(100)])
    )
    assert len(lengths.ends) == 6
    assert lengths.ends["other"] == 95


@pytest.mark.parametrize(
    ("intended", "counted", "wrong"),
    [(64, 64, None), (64, 66, None), (2000, 2300, 2300), (None, 64, None), (64, None, None)],
)
def test_prompts_of_unintended_length_are_detected(
    intended: int | None, counted: int | None, wrong: float | None
) -> None:
    load = ConcurrencyLoad(concurrency=1, input_tokens=intended)
    assert wrong_input_tokens([make_record(number_input_tokens=counted)], load) == wrong
