"""Answers of a log: paired with prompts by id, or refused with their line."""

from pathlib import Path

import pytest

from draftworth.errors import PromptSetError
from draftworth.records.prompts import answers_path, load_answers


def test_answers_lie_where_no_case_is_looked_for() -> None:
    path = answers_path(Path("prompts/mine/chat.jsonl"))
    assert path == Path("prompts/mine/answers/chat.jsonl")


def test_a_prompt_may_have_no_answer(tmp_path: Path) -> None:
    path = tmp_path / "chat.jsonl"
    path.write_text('{"id": "a", "text": "one\\ntwo"}\n')
    assert load_answers(path, ["a", "b"]) == {"a": "one\ntwo"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"id": "c", "text": "x"}', r"chat\.jsonl:1: id: given 'c'; allowed: each id of the"),
        ('{"id": "a", "text": "x"}\n{"id": "a", "text": "x"}', r"chat\.jsonl:2: id: given 'a'"),
        ('{"id": "a"}', r"chat\.jsonl:1: .*missing keys \['text'\]"),
        ('{"id": "a", "text": 7}', r"chat\.jsonl:1: text: given 7, allowed: text"),
        ("no", r"chat\.jsonl:1: not JSON"),
    ],
)
def test_what_is_no_answer_is_refused_with_its_line(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "chat.jsonl"
    path.write_text(text)
    with pytest.raises(PromptSetError, match=words):
        load_answers(path, ["a"])


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(PromptSetError, match=r"none\.jsonl: cannot be read"):
        load_answers(tmp_path / "none.jsonl", [])
