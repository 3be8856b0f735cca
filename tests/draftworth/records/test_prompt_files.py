"""Prompt files: the shipped ones, and wrong ones."""

import json
import os
from pathlib import Path

import pytest
import yaml

from draftworth.errors import PromptSetError
from draftworth.records.prompt_files import (
    Prompt,
    load_answers,
    load_case,
)
from tests.conftest import ROOT
from tests.hostile.fuzzing import bounded
from tests.support.snapshot import assert_snapshot


def parse(text: str | bytes, folder: Path) -> list[str]:
    path = folder / "case.jsonl"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return [prompt.id for prompt in load_case(path, prompt_class="mine").prompts]


TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
CALL = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
CHAT_LOG = [
    {"role": "system", "content": "Be short."},
    {"role": "user", "content": [{"type": "text", "text": t} for t in ("Rain in", "?")]},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "dry"},
    {"role": "assistant", "content": "No.", "name": "helper"},
    {"role": "user", "content": "Thanks"},
]


def only_prompt(folder: Path, **line: object) -> Prompt:
    path = folder / "case.jsonl"
    path.write_text(json.dumps({"id": "a", **line}))
    (prompt,) = load_case(path, prompt_class="mine", most_tokens=600).prompts
    return prompt


def test_a_chat_log_with_tools_is_unchanged(tmp_path: Path) -> None:
    beside = {
        "tools": [TOOL],
        "tool_choice": {"type": "function", "function": {"name": "weather"}},
        "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {}}},
    }
    prompt = only_prompt(tmp_path, messages=CHAT_LOG, max_tokens=600, **beside)
    assert [*prompt.messages] == CHAT_LOG
    assert prompt.tools == (TOOL,)
    assert prompt.tool_choice == beside["tool_choice"]
    assert prompt.response_format == beside["response_format"]
    assert prompt.max_tokens == 600
    assert prompt.texts == ("Be short.", "Rain in", "?", "dry", "No.", "Thanks")


def test_a_text_to_continue_is_no_conversation(tmp_path: Path) -> None:
    prompt = only_prompt(tmp_path, text_to_continue="Once upon")
    assert (prompt.messages, prompt.texts) == ((), ("Once upon",))


def test_twenty_thousand_prompts_are_read_in_a_second(tmp_path: Path) -> None:
    path = tmp_path / "case.jsonl"
    lines = (json.dumps({"id": f"p-{n}", "prompt": "word " * 60}) for n in range(20_000))
    path.write_text("\n".join(lines))
    with bounded(loops=5, mib=100):
        assert len(load_case(path, prompt_class="mine").prompts) == 20_000


SHIPPED = [ROOT / "prompts" / name for name in ("structured", "open_ended")]


@pytest.mark.parametrize("folder", [*SHIPPED, *sorted((ROOT / "prompts/workloads").iterdir())])
def test_shipped_classes_have_enough_prompts_for_intervals(folder: Path) -> None:
    cases = [load_case(file, prompt_class=folder.name) for file in folder.glob("*.jsonl")]
    assert sum(len(case.prompts) for case in cases) >= (32 if folder in SHIPPED else 8)


def test_unusable_names_and_non_files_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "folder.jsonl").mkdir()
    classes = ("../etc", "a/b", "", ".hidden", "a\nb", "größe", "x" * 65)
    cases = ("größe", "a\nb", "-x", "x" * 65, "x" * 300, "pipe", "folder")
    messages = ""
    for prompt_class, case in (*((c, "case") for c in classes), *(("mine", c) for c in cases)):
        with bounded(), pytest.raises(PromptSetError) as refused:
            load_case(tmp_path / f"{case}.jsonl", prompt_class=prompt_class)
        assert str(refused.value).isprintable()
        messages += f"{refused.value}\n".replace(str(tmp_path), "FOLDER")
    assert_snapshot(messages, Path(__file__).parent / "snapshots" / "refused-prompt-names.txt")


DEEP = json.loads('{"a": ' * 60 + "1" + "}" * 60)
# What no author writes by hand.
HOSTILE: dict[str, str | bytes] = {
    "a deep tool": json.dumps({"id": "a", "prompt": "x", "tools": [TOOL | {"a": DEEP}]}),
    "a deep form": json.dumps(
        {"id": "a", "prompt": "x", "response_format": {"type": "b", "a": DEEP}}
    ),
    "no UTF-8": b'{"id": "a", "prompt": "x"}\n{"id": "b", "prompt": "\xff"}\n',
    "half of a surrogate pair": '{"id": "a", "prompt": "\\ud800"}',
    "NUL, escaped": '{"id": "a", "prompt": "\\u0000"}',
    "NUL": '{"id": "a", "prompt": "\0"}',
    "depth": "[" * 100_000,
    "a number of 400 digits": '{"id": ' + "9" * 400 + "}",
    "an id of 400 digits": '{"id": ' + "9" * 400 + ', "prompt": "x"}',
    "a number of 5,000 digits": '{"id": ' + "9" * 5_000 + "}",
    "no number": '{"id": "a", "prompt": NaN}',
    "a long id": '{"id": "' + "a" * 201 + '", "prompt": "x"}',
    "an id of two lines": '{"id": "a\\nb", "prompt": "x"}',
    "a list as a prompt": '{"id": "a", "prompt": ["x"]}',
    "a long key": '{"id": "a", "' + "k" * 10_000 + '": 1}',
    "empty lines": "\n" * 100_001,
    "a long line": " " * (4 * 2**20 + 1),
    "a million empty objects": '{"id": "a", "messages": [' + "{}," * 1_300_000 + "{}]}",
    "a large file": (" " * 2**20 + "\n") * 64,
}


def test_broken_prompts_are_refused_briefly_at_once(tmp_path: Path) -> None:
    refused_rows = yaml.safe_load(Path(__file__).with_name("refused_prompts.yaml").read_text())
    unsendable = {
        str(change): json.dumps({"id": "a", "messages": [{"role": "user", **change}]})
        for change in refused_rows["messages"]
    }
    messages = ""
    rows: dict[str, str | bytes] = {t: t for t in refused_rows["files"]} | unsendable | HOSTILE
    for name, text in rows.items():
        with bounded(), pytest.raises(PromptSetError) as refused:
            parse(text, tmp_path)
        message = str(refused.value).replace(str(tmp_path), "FOLDER")
        assert message.isprintable()
        assert len(message) < 1_000
        messages += f"{name!r}\n  {message}\n"
    assert_snapshot(messages, Path(__file__).parent / "snapshots" / "refused-prompts.txt")


def test_prompts_and_conversations_are_read_in_order(tmp_path: Path) -> None:
    text = (
        '{"id": "b", "prompt": "x"}\n\n'
        '{"id": "a", "messages": [{"role": "system", "content": "s"}, '
        '{"role": "user", "content": "u"}]}\n'
    )
    assert parse(text, tmp_path) == ["b", "a"]


def test_unusual_separators_and_byte_order_marks_are_read(
    tmp_path: Path,
) -> None:
    path = tmp_path / "case.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"id": "a", "prompt": "x\xe2\x80\xa8y\xc2\x85z"}\r\n')
    (prompt,) = load_case(path, prompt_class="mine").prompts
    assert prompt.messages[0]["content"] == "x\u2028y\x85z"


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(PromptSetError, match=r"none\.jsonl: cannot be read"):
        load_case(tmp_path / "none.jsonl", prompt_class="mine")
    with pytest.raises(PromptSetError, match=r"none\.jsonl: cannot be read"):
        load_answers(tmp_path / "none.jsonl", [])


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
def test_broken_answers_are_refused_with_their_line(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "chat.jsonl"
    path.write_text(text)
    with pytest.raises(PromptSetError, match=words):
        load_answers(path, ["a"])
