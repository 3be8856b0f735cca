"""Rows of tables by the names of their columns, and records by the paths of `--map`."""

from typing import Any

import pytest

from draftworth.errors import PromptSetError
from draftworth.importing.forms.tables import FieldPaths, field_paths, table_row
from draftworth.records.chat import NotSendableError

QUESTION = [{"role": "user", "content": "2+2?"}]


@pytest.mark.parametrize("column", ["prompt", " Question ", "INSTRUCTION", "query", "text"])
def test_columns_have_usual_names(column: str) -> None:
    logged = table_row({column: "2+2?", "Answer": "4", "Max tokens": "9", "category": "math"})
    assert logged.line == {"messages": QUESTION, "max_tokens": 9}
    assert (logged.answer, logged.case) == ("4", "math")


def test_a_table_may_have_conversations() -> None:
    logged = table_row({"messages": '[{"role": "user", "content": "2+2?"}]', "prompt": "no"})
    assert logged.line == {"messages": QUESTION}


def test_a_table_of_alpaca_keeps_its_input() -> None:
    logged = table_row({"instruction": "Add.", "input": "2+2", "output": "4"})
    assert logged.line == {"messages": [{"role": "user", "content": "Add.\n\n2+2"}]}


def test_a_json_prompt_is_asked_as_text() -> None:
    text = '[{"role": "user", "content": "2+2?"}]'
    logged = field_paths(["prompt=p"]).read({"p": text})
    assert logged.line == {"messages": [{"role": "user", "content": text}]}


def test_a_part_without_path_is_left_out() -> None:
    paths = field_paths(["messages=in.messages", "output=out"])
    assert paths.read({"in": {"messages": QUESTION}}).answer is None
    with pytest.raises(NotSendableError, match="neither messages nor a prompt"):
        paths.read({"in": {}, "out": "4"})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["messages"], "given 'messages'"),
        (["promt=a"], "given 'promt=a'"),
        (["prompt="], "given 'prompt='"),
        (["prompt=a..b"], r"given 'prompt=a\.\.b'"),
        (["prompt=" + "a." * 20 + "a"], "given 'prompt=a"),
        (["prompt=a", "prompt=b"], "given 'prompt=b'"),
        (["prompt=a", "messages=b"], "given both; allowed"),
        (["output=a"], "given neither messages nor prompt"),
    ],
)
def test_wrong_paths_are_refused(options: list[str], words: str) -> None:
    with pytest.raises(PromptSetError, match=f"--map: {words}.* next: for example --map messages="):
        field_paths(options)


def test_no_record_breaks_a_path() -> None:
    paths: FieldPaths = field_paths(["messages=a.b", "time=t", "max_tokens=m", "model=n"])
    records: list[dict[str, Any]] = [
        {"a": {"b": QUESTION}, "t": [], "m": ["9"], "n": 7},
        {"a": {"b": QUESTION}, "t": 10**300, "m": None, "n": "x y"},
    ]
    for record in records:
        logged = paths.read(record)
        assert logged.line["messages"] == QUESTION
        assert (logged.model, logged.time) == (None, None)
