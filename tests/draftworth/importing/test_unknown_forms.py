"""A log that was not read is answered with its keys, and with what would read it."""

import json
from pathlib import Path
from typing import Any

import pytest

from draftworth.errors import PromptSetError
from draftworth.importing.prompt_sets import ImportOrder, read_log
from tests.draftworth.importing.example_logs import EXAMPLES, LOGS

QUESTION = {"role": "user", "content": "my number is 5"}

WITH = "`draftworth prompts import` with "


def refusal(source: Path, form: str) -> str:
    order = ImportOrder(source=source, format=form, out=source / "out", prompt_class="mine")
    with pytest.raises(PromptSetError) as refused:
        read_log(order, lambda records: None)
    return str(refused.value)


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_known_form_is_named(name: str) -> None:
    assert f"; next: --format {EXAMPLES[name][0]}, which reads " in refusal(LOGS / name, "sharegpt")


@pytest.mark.parametrize(
    ("record", "keys", "step"),
    [
        (
            {"call": {"turns": [QUESTION], "reply": {"role": "assistant", "content": "x"}}},
            "call.turns.0.role, call.turns.0.content, call.reply.role, call.reply.content",
            "--map messages=call.turns --map output=call.reply; or --format, one of openai-jsonl,",
        ),
        (
            {"log": [{"Question": "my number is 5", "answer": "my number is 5"}]},
            "log.0.Question, log.0.answer",
            "--map prompt=log.0.Question --map output=log.0.answer; or --format",
        ),
        (
            {"said": "my number is 5", "my number is 5": 1},
            "said",
            "--map prompt=KEY --map output=KEY; or --format",
        ),
    ],
)
def test_an_unknown_form_is_answered_with_its_paths(
    tmp_path: Path, record: dict[str, Any], keys: str, step: str
) -> None:
    source = tmp_path / "log.jsonl"
    source.write_text(json.dumps(record))
    message = refusal(source, "langfuse")
    assert f"; keys of the first: {keys}; next: {WITH}{step}" in message
    assert "my number" not in message


def test_a_log_without_records_has_no_keys(tmp_path: Path) -> None:
    source = tmp_path / "log.txt"
    source.write_text("prompt,output\nx,y\n")
    assert "no record with names of keys (a table's file ends with .csv)" in refusal(source, "csv")


def test_an_answer_names_only_the_first_keys(tmp_path: Path) -> None:
    source = tmp_path / "log.jsonl"
    source.write_text(json.dumps({f"{'k' * 39}{number}"[-40:]: number for number in range(99)}))
    assert len(refusal(source, "csv")) < 1_500
