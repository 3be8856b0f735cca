"""Writes the prompt files of HumanEval and IFBench, as the cases of `sources.toml` choose them."""

import gzip
import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

HUMAN_EVAL, IF_BENCH = "HumanEval.jsonl.gz", "IFBench_test.jsonl"
# Of a task with its solution. With longer ones, most of the time would be spent on prompts.
MOST_CHARACTERS = 600


def write_prompts(sets: Path, folder: Path, cases: Mapping[str, Any]) -> None:
    """Write CLASS/CASE.jsonl into `folder` anew, of the sets' files and cases of `sources.toml`.

    cases: the wish of each case of `edits`, and the key of each case of `open_ended`.
    """
    shutil.rmtree(folder, ignore_errors=True)  # cases that are no longer chosen
    for name, key, text in _prompts(sets, **cases):
        path = folder / f"{name}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"id": key, "prompt": text}) + "\n", encoding="utf-8")


def _prompts(
    sets: Path, edits: Mapping[str, str], open_ended: Mapping[str, str]
) -> Iterator[tuple[str, str, str]]:
    """Yield CLASS/CASE, id and text of each prompt. No task of HumanEval is in two cases."""
    lines = gzip.decompress((sets / HUMAN_EVAL).read_bytes()).splitlines()
    known = list(map(json.loads, lines))
    tasks = [t for t in known if len(t["prompt"] + t["canonical_solution"]) <= MOST_CHARACTERS]
    for place, (edit, wish) in enumerate(edits.items()):
        task, other = tasks[place * len(tasks) // len(edits) :][:2]
        yield f"humaneval/part-{place + 1}", *_asked(task, "Complete this function.")
        yield f"edits/{edit}", *_asked(other, wish, other["canonical_solution"])
    lines = (sets / IF_BENCH).read_bytes().splitlines()
    by_key = {line["key"]: line["prompt"] for line in map(json.loads, lines)}
    for case, key in open_ended.items():
        yield f"open_ended/{case}", f"ifbench-{key}", by_key[key]


def _asked(task: Mapping[str, str], wish: str, solution: str = "") -> tuple[str, str]:
    code = task["prompt"] + solution
    text = f"{wish.format(**task)} Answer with the whole code.\n\n```python\n{code}```"
    return task["task_id"].replace("/", "-"), text
