"""Prompt files: the shipped ones, and wrong ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from draftworth.errors import PromptSetError
from draftworth.records.prompts import load_case
from tests.conftest import ROOT


def parse(text: str, folder: Path) -> list[str]:
    path = folder / "case.jsonl"
    path.write_text(text, encoding="utf-8")
    return [prompt.id for prompt in load_case(path, prompt_class="mine").prompts]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"case\.jsonl: no prompts"),
        ("\n\n", r"case\.jsonl: no prompts"),
        ("nonsense", r"case\.jsonl:1: not JSON"),
        ('["a"]', r"case\.jsonl:1: given list, allowed: an object"),
        ('{"id": "a"}', r"given: id; allowed: the keys id and prompt"),
        ('{"id": "a", "prompt": "x", "extra": 1}', r"given: extra, id, prompt"),
        ('{"id": 1, "prompt": "x"}', r"id: given 1; allowed: text of 1 to 200 characters"),
        ('{"id": "a", "prompt": "  "}', r"prompt: given ' '"),
        ('{"id": "a", "messages": []}', r"messages: allowed: a list"),
        ('{"id": "a", "messages": [{"role": "robot", "content": "x"}]}', r"system, user"),
        ('{"id": "a", "prompt": "x"}\n{"id": "a", "prompt": "y"}', r"ids given twice: a"),
    ],
)
def test_wrong_lines_are_refused_with_place_and_allowed_form(
    tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(PromptSetError, match=message):
        parse(text, tmp_path)


def test_prompts_and_conversations_are_read_in_order(tmp_path: Path) -> None:
    text = (
        '{"id": "b", "prompt": "x"}\n\n'
        '{"id": "a", "messages": [{"role": "system", "content": "s"}, '
        '{"role": "user", "content": "u"}]}\n'
    )
    assert parse(text, tmp_path) == ["b", "a"]


def test_unusual_line_separators_inside_a_prompt_and_a_byte_order_mark_are_read(
    tmp_path: Path,
) -> None:
    path = tmp_path / "case.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"id": "a", "prompt": "x\xe2\x80\xa8y\xc2\x85z"}\r\n')
    (prompt,) = load_case(path, prompt_class="mine").prompts
    assert prompt.messages[0]["content"] == "x\u2028y\x85z"


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(PromptSetError, match="cannot be read"):
        load_case(tmp_path / "none.jsonl", prompt_class="mine")


@pytest.mark.parametrize("prompt_class", ["structured", "open_ended"])
def test_each_shipped_class_has_at_least_four_cases_of_eight_prompts(prompt_class: str) -> None:
    files = sorted((ROOT / "prompts" / prompt_class).glob("*.jsonl"))
    cases = [load_case(file, prompt_class=prompt_class) for file in files]
    assert len(cases) >= 4
    assert all(len(case.prompts) >= 8 for case in cases)


def test_the_structured_cases_are_those_of_the_published_experiment() -> None:
    names = {file.stem for file in (ROOT / "prompts" / "structured").glob("*.jsonl")}
    assert {"repeat_line", "count", "fixed_json", "code_template"} <= names
