"""An import from a log to the prompt files of a class, which can be read as any prompt files."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from draftworth.errors import PromptSetError
from draftworth.importing.prompt_sets import Imported, ImportOrder, import_prompts, left_out_words
from draftworth.records.prompt_files import answers_path, load_answers, load_case


def chat(text: str, answer: str | None = None, **more: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": text}]
    return {"request": {"messages": messages, **more}, "response": answer}


def do_import(folder: Path, records: list[Any], **changes: Any) -> Imported:
    source = folder / "Chat log (2026).jsonl"
    source.write_text("\n".join(json.dumps(record) for record in records))
    fields: dict[str, Any] = {
        "source": source,
        "format": "openai-jsonl",
        "out": folder / "prompts",
        "prompt_class": "mine",
        "case": None,
        "max_prompts": 64,
        "seed": 0,
    }
    return import_prompts(ImportOrder(**{**fields, **changes}), lambda records: None)


def test_written_prompts_are_read_as_any_case(tmp_path: Path) -> None:
    first, again = chat("one?", "1", max_tokens=7), chat("one?", "eins")
    imported = do_import(tmp_path, [first, chat("é?\u2028"), {}, again, chat("3?", "3")])

    sample = imported.samples["chat_log_2026"]
    assert (len(sample.drawn), sample.answers, sample.repeats, sample.not_drawn) == (3, 2, 1, 0)
    assert sample.most_tokens == 7
    path = tmp_path / "prompts" / "mine" / "chat_log_2026.jsonl"
    read = load_case(path, prompt_class="mine")
    ids = [prompt.id for prompt in read.prompts]
    assert ids == ["chat_log_2026-000001", "chat_log_2026-000002", "chat_log_2026-000005"]
    assert [prompt.texts for prompt in read.prompts] == [("one?",), ("é?\u2028",), ("3?",)]
    assert load_answers(answers_path(path), ids) == {ids[0]: "1", ids[2]: "3"}
    assert imported.records == 5
    assert left_out_words(imported.left_out) == (
        "1 left out: 1 without messages or prompt (line 3)"
    )


def test_other_limits_make_a_repeat_other_tools_not(
    tmp_path: Path,
) -> None:
    tool = {"type": "function", "function": {"name": "f"}}
    log = [chat("x"), chat("x", max_tokens=9), chat("x", tools=[tool])]
    (sample,) = do_import(tmp_path, log).samples.values()
    assert (len(sample.drawn), sample.repeats) == (2, 1)


def test_categories_are_cases(tmp_path: Path) -> None:
    records = [
        {"category": name, "turns": [f"question {n}"]}
        for n, name in enumerate(["Coding", "math / hard", "Coding", "../../x"])
    ]
    imported = do_import(tmp_path, records, format="speed-bench")
    assert [*imported.samples] == ["coding", "math_hard", "x"]
    one = do_import(tmp_path, records, format="speed-bench", case="all")
    assert {name: len(sample.drawn) for name, sample in one.samples.items()} == {"all": 4}


def test_what_people_wrote_is_its_owners_alone(tmp_path: Path) -> None:
    do_import(tmp_path, [chat("x", "y")])
    written = [*(tmp_path / "prompts" / "mine").rglob("*")]
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in written}
    assert modes == {"answers": 0o700, "chat_log_2026.jsonl": 0o600}
    assert {stat.S_IMODE(path.stat().st_mode) for path in written if path.is_file()} == {0o600}


def test_nothing_is_written_over(tmp_path: Path) -> None:
    do_import(tmp_path, [chat("x")])
    with pytest.raises(PromptSetError, match=r"chat_log_2026\.jsonl: exists already"):
        do_import(tmp_path, [chat("y")])
    assert "x" in (tmp_path / "prompts" / "mine" / "chat_log_2026.jsonl").read_text()


@pytest.mark.parametrize("record", [{}, chat("a\0b"), chat("x", max_tokens=0), chat("x", tools=7)])
def test_a_source_without_a_prompt_writes_nothing(tmp_path: Path, record: dict[str, Any]) -> None:
    with pytest.raises(PromptSetError, match=r"no prompt in 1 records .* 1 left out: 1 (with|of)"):
        do_import(tmp_path, [record])
    assert not (tmp_path / "prompts").exists()


def test_a_prompt_longer_than_any_is_left_out(tmp_path: Path) -> None:
    imported = do_import(tmp_path, [chat("x"), chat("y" * 5_000_000), chat("z", "a" * 5_000_000)])
    assert left_out_words(imported.left_out) == (
        "2 left out: 2 longer than 4 MiB (the first: line 2)"
    )


def test_more_than_a_prompt_file_holds_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("draftworth.records.prompt_files.MAX_FILE_BYTES", 20_000)
    log = [chat(f"{n} " + "word " * 1_000) for n in range(9)]
    with pytest.raises(PromptSetError, match=r"--max-prompts: given 64, .*; next: a smaller"):
        do_import(tmp_path, log)
    assert [s.not_drawn for s in do_import(tmp_path, log, max_prompts=3).samples.values()] == [6]


def test_a_set_with_endless_categories_is_refused(tmp_path: Path) -> None:
    records = [{"category": f"c{n}", "turns": ["x"]} for n in range(101)]
    with pytest.raises(PromptSetError, match="more than 100 categories; next: --case NAME"):
        do_import(tmp_path, records, format="speed-bench")
