"""Prompt files of small sets in the form of the real ones."""

import gzip
import json
from pathlib import Path

from draftworth.records.prompts import load_case
from rehearsal.trained.prompt_sets import HUMAN_EVAL, IF_BENCH, MOST_CHARACTERS, write_prompts


def test_cases_of_both_sets_with_tasks_that_are_asked_once(tmp_path: Path) -> None:
    names = ("task_id", "entry_point", "prompt", "canonical_solution")
    tasks = [(f"HumanEval/{n}", f"f{n}", f"def f{n}():\n", "    return 1\n") for n in range(9)]
    tasks[0] = (*tasks[0][:3], "#" * MOST_CHARACTERS)
    lines = "\n".join(json.dumps(dict(zip(names, task, strict=True))) for task in tasks)
    (tmp_path / HUMAN_EVAL).write_bytes(gzip.compress(lines.encode()))
    (tmp_path / IF_BENCH).write_text(json.dumps({"key": "7", "prompt": "Tell a story."}))
    chosen = {"edits": {"rename": "Rename {entry_point}.", "x": "?"}, "open_ended": {"a": "7"}}

    write_prompts(tmp_path, tmp_path / "prompts", chosen)

    found = {
        f"{path.parent.name}/{path.stem}": prompt
        for path in tmp_path.glob("prompts/*/*.jsonl")
        for prompt in load_case(path, prompt_class="any").prompts
    }
    assert {name: prompt.id for name, prompt in found.items()} == {
        # The first task with its solution is too long.
        "humaneval/part-1": "HumanEval-1",
        "edits/rename": "HumanEval-2",
        "humaneval/part-2": "HumanEval-5",
        "edits/x": "HumanEval-6",
        "open_ended/a": "ifbench-7",
    }
    assert found["humaneval/part-1"].texts[0].endswith("```python\ndef f1():\n```")
    assert found["edits/rename"].texts[0].endswith("```python\ndef f2():\n    return 1\n```")
