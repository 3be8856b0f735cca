"""An example of each form in `logs/` is imported as its prompts, answers and models."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from draftworth.importing.forms.tables import COLUMNS, field_paths
from draftworth.importing.log_formats import FORMATS
from draftworth.importing.prompt_sets import Imported, ImportOrder, import_prompts, left_out_words
from draftworth.records.prompt_files import answers_path, load_answers, load_case
from tests.conftest import ROOT
from tests.draftworth.importing.example_logs import EXAMPLES, LOGS, MODELS, OCEAN, PACIFIC


def imported_from(name: str, out: Path, **changes: Any) -> tuple[Imported, list[Any]]:
    """Import an example; return what was read, and the texts and the answer of each prompt."""
    fields: dict[str, Any] = {"source": LOGS / name, "out": out, "prompt_class": "mine", **changes}
    order = ImportOrder(case="all", **fields)
    imported = import_prompts(order, lambda records: None)
    case = load_case(order.path_of("all"), prompt_class="mine")
    answers = load_answers(answers_path(order.path_of("all")), [p.id for p in case.prompts])
    return imported, [(prompt.texts, answers.get(prompt.id)) for prompt in case.prompts]


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_gives_prompts_and_answers(tmp_path: Path, name: str) -> None:
    form, prompts, left_out = EXAMPLES[name]
    imported, read = imported_from(name, tmp_path, format=form)
    assert read == prompts
    assert left_out_words(imported.left_out) == left_out


@pytest.mark.parametrize("name", MODELS)
def test_the_models_and_the_days_are_kept(tmp_path: Path, name: str) -> None:
    imported, _ = imported_from(name, tmp_path, format=EXAMPLES[name][0])
    assert imported.models == MODELS[name]
    days = {time.date().isoformat() for time in imported.times}
    assert days <= {"2026-11-01", "2026-11-02"}
    assert bool(days) == (name != "anthropic.jsonl")  # whose API names no time


def test_a_form_without_an_example_is_known() -> None:
    public = {"openai-jsonl", "sagemaker", "sharegpt", "speed-bench"}  # in test_log_formats.py
    assert {form for form, _, _ in EXAMPLES.values()} == FORMATS.keys() - public
    assert {path.name for path in LOGS.iterdir()} == {*EXAMPLES, "bedrock.jsonl"}


def test_the_page_lists_each_form() -> None:
    page = (ROOT / "docs" / "prompts.md").read_text(encoding="utf-8")
    assert set(re.findall(r"`--format ([a-z-]+)`", page)) == FORMATS.keys()
    (row,) = (line for line in page.splitlines() if line.startswith("| any other |"))
    assert COLUMNS.keys() <= set(re.findall(r"`(\w+)`", row))


def test_any_form_is_imported_by_its_paths(tmp_path: Path) -> None:
    body = "input.inputBodyJson"
    paths = field_paths(
        [
            f"messages={body}.messages",
            f"system={body}.system",
            "output=output.outputBodyJson",
            "model=modelId",
            "time=timestamp",
            f"max_tokens={body}.max_tokens",
        ]
    )
    imported, read = imported_from("bedrock.jsonl", tmp_path, format=paths)
    assert read == [(OCEAN, PACIFIC)]
    assert imported.models == {"anthropic.claude-sonnet-4-5": 1}
    assert imported.samples["all"].most_tokens == 100


def test_tools_come_along_as_functions(tmp_path: Path) -> None:
    for name in ("openai_responses.jsonl", "anthropic.jsonl", "langfuse.json"):
        imported, _ = imported_from(name, tmp_path / name, format=EXAMPLES[name][0])
        (tools,) = (p.line["tools"] for p in imported.samples["all"].drawn if "tools" in p.line)
        assert [(tool["type"], tool["function"]["name"]) for tool in tools] == [
            ("function", "weather")
        ]


def test_a_call_and_its_result_stay_together(tmp_path: Path) -> None:
    for name in ("openai_responses.jsonl", "opentelemetry.json", "langsmith.jsonl"):
        imported, _ = imported_from(name, tmp_path / name, format=EXAMPLES[name][0])
        (messages,) = (
            prompt.line["messages"]
            for prompt in imported.samples["all"].drawn
            if prompt.line.get("messages", [{}])[-1].get("role") == "tool"
        )
        assert [message["role"] for message in messages] == ["user", "assistant", "tool"]
        (call,) = messages[1]["tool_calls"]
        assert json.loads(call["function"]["arguments"]) == {"city": "Oslo"}
        assert messages[2]["tool_call_id"] == call["id"] == "call_1"
