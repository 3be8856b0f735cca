"""Wrong experiment files: which rule refuses each, at which key, and in which words.

`wrong_files.yaml` has the files, as changes of shipped ones. `refused.txt` has the words: every
problem of every file, read by people in a diff.
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from draftworth.errors import ExperimentError, Problem
from draftworth.experiment.loading import load_experiment
from draftworth.experiment.rules import workload_rules
from draftworth.experiment.rules.registry import RULES, rule
from tests.conftest import ROOT
from tests.support.experiments import Edit, drop, put, write_experiment
from tests.support.snapshot import assert_snapshot

# A part of a wrong file: what is changed, by key as problems name it (`variants[1].window`).
Changes = dict[str, Any]
FILES: dict[str, dict[str, Any]] = yaml.safe_load(
    Path(__file__)
    .with_name("wrong_files.yaml")
    .read_text(encoding="utf-8")
    .replace("TINY_PAIR", str(ROOT / "rehearsal" / "tiny_pair"))
)
TAKEN: dict[str, Changes] = FILES.pop("taken")
del FILES["parts"]
TOOL = {"type": "function", "function": {"name": "weather"}}
# The prompt classes of the rows, one line each.
PROMPTS: dict[str, dict[str, object]] = {
    "long": {"prompt": "word " * 200_000},
    "no-prompt": {},
    "asks-for-601": {"prompt": "x", "max_tokens": 601},
    "asks-for-600": {"prompt": "x", "max_tokens": 600},
    "tools": {"prompt": "x", "tools": [TOOL]},
    "tools-auto": {"prompt": "x", "tools": [TOOL], "tool_choice": "auto"},
    "one-tool": {"prompt": "x", "tools": [TOOL], "tool_choice": TOOL},
    "no-tool": {"prompt": "x", "tools": [TOOL], "tool_choice": "none"},
    "json": {"prompt": "x", "response_format": {"type": "json_object"}},
}
# base, rule, key, number of the row
Row = tuple[str, str, str, int]


def changed(changes: Mapping[str, Any]) -> Edit:
    def edit(data: dict[str, Any]) -> None:
        for name, value in each_of(changes):
            parts = re.findall(r"[^.\[\]]+", name)
            key = [int(part) if part.isdecimal() else part for part in parts]
            if key[0] == "variants" and key[1:] == [len(data["variants"])]:
                data["variants"].append(None)
            (drop(*key) if value == "GONE" else put(*key, value=value))(data)

    return edit


def each_of(changes: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Each change, where a range of indices stands for one change per index."""
    for name, value in changes.items():
        if indices := re.fullmatch(r"variants\[(\d+)\.\.(\d+)\]", name):
            for index in range(int(indices[1]), int(indices[2]) + 1):
                text = json.dumps(value).replace('"INDEX"', str(index))
                yield f"variants[{index}]", json.loads(text.replace("INDEX", str(index)))
        else:
            yield name, value


def rows() -> Iterator[tuple[Row, Edit]]:
    for base, rules_of_base in FILES.items():
        for code, changes_of_rule in rules_of_base.items():
            for number, changes in enumerate(changes_of_rule, start=1):
                rest = {key: value for key, value in changes.items() if key != "refused"}
                key = changes.get("refused") or list(rest)[-1]
                yield (base, code, key, number), changed(rest)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where the rows' files lie, with their prompts; a measuring Job holds 1 MB here."""
    root = tmp_path_factory.mktemp("experiments")
    good: dict[str, object] = {"prompt": "x"}
    for name, line in {**PROMPTS, "misnamed": good, "empty": good}.items():
        (root / "prompts" / name).mkdir(parents=True)
        (root / "prompts" / name / "case.jsonl").write_text(json.dumps({"id": "a", **line}))
    (root / "prompts" / "misnamed" / "other.JSONL").touch()
    (root / "prompts" / "misnamed" / "README.md").touch()
    (root / "prompts" / "empty" / "case.jsonl").unlink()
    (root / "another-tokenizer").mkdir()
    (root / "another-tokenizer" / "config.json").touch()
    (root / "another-tokenizer" / "tokenizer.json").touch()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workload_rules, "MAX_PROMPT_BYTES", 1_000_000)
        yield root


@pytest.fixture(scope="module")
def refused(folder: Path) -> dict[Row, tuple[Problem, ...]]:
    return {row: problems_of(write_experiment(folder, edit, base=row[0])) for row, edit in rows()}


def problems_of(path: Path) -> tuple[Problem, ...]:
    with pytest.raises(ExperimentError) as refused:
        load_experiment(path)
    assert all(f"{path}:{p.line}: " in str(refused.value) for p in refused.value.problems[:20])
    return refused.value.problems


def test_each_wrong_file_breaks_its_rule_and_key(
    refused: dict[Row, tuple[Problem, ...]],
) -> None:
    told = {row: [(p.code, p.dotted_key) for p in found] for row, found in refused.items()}
    assert {row: found for row, found in told.items() if row[1:3] not in found} == {}


def test_the_words_of_every_problem(refused: dict[Row, tuple[Problem, ...]], folder: Path) -> None:
    text = "\n".join("".join(map(words, problems)) for problems in refused.values())
    text = text.replace(str(folder), "FOLDER").replace(str(ROOT), "ROOT")
    assert_snapshot(text, Path(__file__).with_name("refused.txt"))


def words(problem: Problem) -> str:
    """A problem as people read it, without its place."""
    return problem.render(Path()).partition(": ")[2] + "\n"


def test_every_rule_has_a_file_that_breaks_it() -> None:
    assert len(RULES) > 40
    assert {*RULES} <= {code for (_, code, _, _), _ in rows()}


def test_every_code_that_a_page_shows_exists() -> None:
    pages = [ROOT / "README.md", *ROOT.glob("docs/**/*.md")]
    # The first line of a problem, as `mine.yaml:27: variants[1].method (reserved-name)`.
    first_line = re.compile(r"^\S+\.yaml:\d+: \S+ \(([a-z-]+)\)$", re.MULTILINE)
    codes = {
        code for page in pages for code in first_line.findall(page.read_text(encoding="utf-8"))
    }
    assert codes
    assert codes <= {code for (_, code, _, _), _ in rows()}


def test_two_rules_with_one_code_are_refused() -> None:
    with pytest.raises(ValueError, match="test_rules: the code 'one-load' is another rule's"):
        rule("one-load")(lambda _: iter(()))


@pytest.mark.parametrize("changes", TAKEN.values(), ids=TAKEN)
def test_what_is_just_allowed_is_taken(folder: Path, changes: Changes) -> None:
    assert load_experiment(write_experiment(folder, changed(changes))).cases
