"""A draft must have the token ids of its target."""

import dataclasses

import pytest

from draftworth.records.checkpoints import ReadyModel
from draftworth.records.deployment import DraftTokenizer
from lambdas.capacity_controller.observing import tokenizer_mismatch
from tests.lambdas.capacity_controller.plans import TARGET, make_ready

READY = make_ready(TARGET, vocabulary="3" * 64)


def with_tokenizer(model: str, fingerprint: str | None) -> ReadyModel:
    return dataclasses.replace(READY, model=model, tokenizer_fingerprint=fingerprint)


def test_a_mismatch_names_both_models_and_what_to_do() -> None:
    text = tokenizer_mismatch(READY, with_tokenizer("acme/other", "4" * 64), "own")
    assert text is not None
    for part in ("Qwen/Qwen3-32B at main", "acme/other at main", "333333", "444444", "next: "):
        assert part in text


@pytest.mark.parametrize(
    ("draft", "vocabulary", "mismatch"),
    [
        (None, "own_or_none", False),
        (None, "own", True),
        ("4" * 64, "own_or_none", True),
        ("3" * 64, "own_or_none", False),
        ("3" * 64, "own", False),
    ],
)
def test_only_a_head_may_come_without_a_tokenizer_and_no_draft_with_another(
    draft: str | None, vocabulary: DraftTokenizer, mismatch: bool
) -> None:
    text = tokenizer_mismatch(READY, with_tokenizer("acme/head", draft), vocabulary)
    assert (text is not None) is mismatch


def test_two_models_without_tokenizers_cannot_be_said_to_agree() -> None:
    text = tokenizer_mismatch(with_tokenizer("acme/a", None), with_tokenizer("acme/b", None), "own")
    assert text is not None
    assert "acme/a at main (commit " in text
    assert "has no tokenizer.json and no vocab.json" in text
