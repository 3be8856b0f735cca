"""Predictions are compared over the same requests, and step by step if the chunks show steps."""

from typing import Any

import pytest

from draftworth.estimate.predictions import predictions_of
from draftworth.records.likelihoods import Prediction
from draftworth.records.reading import Run
from draftworth.records.readings import Reading
from draftworth.records.transcripts import Transcript
from tests.support.blocks import make_block, make_record, make_run
from tests.support.readings import make_output, make_reading

VARIANT = "qwen3-1.7b-k7"


def reading(hits: str) -> Reading:
    output = make_output(prompt_class="structured", case="count", prompt_id="prompt-0")
    return make_reading(hits, of=output)


def found(
    hits: str, chunks: tuple[int, ...], *, checked: int = 2, **record: Any
) -> list[Prediction]:
    request = make_record(number_output_tokens=len(hits) + 1, **record)
    block = make_block(requests=(request,))
    run = Run(result=make_run(block), blocks=(block,))
    transcript = Transcript(request_id=request.request_id, chunk_tokens=chunks)
    return list(
        predictions_of(run, {request.request_id: transcript}, [reading(hits)], {VARIANT: checked})
    )


def test_steps_that_are_the_predicted_ones() -> None:
    (prediction,) = found("110110", (1, 3, 3))

    assert (prediction.predicted, prediction.measured, prediction.difference) == (3.0, 3.0, 0.0)
    assert (prediction.requests, prediction.shown, prediction.same_sequence) == (1, 1, 1)


def test_as_many_steps_of_other_lengths_agree_in_the_mean_alone() -> None:
    (prediction,) = found("110110", (1, 2, 4))

    assert prediction.difference == 0.0
    assert (prediction.shown, prediction.same_sequence) == (1, 0)


def test_a_server_that_took_more_steps_shows() -> None:
    (prediction,) = found("110110", (1, 2, 2, 2))

    assert prediction.difference == pytest.approx(0.5)


def test_merged_chunks_show_no_steps_and_the_servers_own_count_is_taken() -> None:
    (prediction,) = found("110110", (1, 6), verification_steps=2)

    assert prediction.measured == 3.0
    assert (prediction.shown, prediction.same_sequence) == (0, 0)


def test_a_prompt_whose_output_was_not_read_is_not_compared() -> None:
    assert found("110110", (1, 3, 3), prompt_id="another") == []


def test_a_failed_request_is_not_compared() -> None:
    assert found("110110", (1, 3, 3), excluded="late") == []


def test_an_output_of_one_token_predicts_nothing() -> None:
    assert found("", (1, 1)) == []
