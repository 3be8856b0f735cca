"""Wrong experiment files: which rule refuses each, at which key, and in which words.

`wrong_files/TOPIC.yaml` describes the wrong files: below the name of a shipped file and the code of
the rule that refuses the changed file, each row maps key paths to new values. GONE removes a key;
the index after the last variant adds a variant; `variants[2..5]` adds one at each index, with the
index in the place of INDEX. The last key of a row is the one that is refused, unless the row's
`refused` names another.

`wrong_files/TOPIC.txt` is the snapshot of all messages, in the order of the rows, so that people
read changed words in a diff.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from draftworth.errors import ExperimentError, Problem
from draftworth.experiment.loading import load_experiment
from draftworth.experiment.rules import workload_rules
from draftworth.experiment.rules.registry import RULES, rule
from tests.conftest import ROOT
from tests.draftworth.experiment.changes import Changes, changed
from tests.support.experiments import Edit, write_experiment
from tests.support.snapshot import assert_snapshot

WRONG_FILES = Path(__file__).with_name("wrong_files")
TOPICS = sorted(
    file.stem for file in WRONG_FILES.glob("*.yaml") if file.stem not in {"parts", "allowed"}
)


def read_changes(*names: str) -> dict[str, Any]:
    """Read several YAML files of `wrong_files` as one text, so that they can share anchors."""
    text = "".join((WRONG_FILES / f"{name}.yaml").read_text(encoding="utf-8") for name in names)
    read: dict[str, Any] = yaml.load(
        text.replace("TINY_PAIR", str(ROOT / "rehearsal" / "tiny_pair")), Loader=yaml.CSafeLoader
    )
    return read


ALLOWED: dict[str, Changes] = read_changes("allowed")
TOOL = {"type": "function", "function": {"name": "weather"}}
# Prompt classes that rows refer to: the name, and the one prompt of its only case.
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


class Row(NamedTuple):
    """A wrong file: where its changes stand, which rule must refuse it, and at which key.

    topic: the YAML file that describes it. base: the shipped file that it changes.
    number: of the row among those of the same file and rule, from 1.
    """

    topic: str
    base: str
    code: str
    number: int
    key: str


def rows() -> Iterator[tuple[Row, Edit]]:
    for topic in TOPICS:
        files = read_changes("parts", topic)
        del files["parts"]
        for base, rules_of_base in files.items():
            for code, changes_of_rule in rules_of_base.items():
                for number, changes in enumerate(changes_of_rule, start=1):
                    rest = {key: value for key, value in changes.items() if key != "refused"}
                    key = changes.get("refused") or list(rest)[-1]
                    yield Row(topic, base, code, number, key), changed(rest)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder for the wrong files, with their prompts; prompts are limited to 1 MB here."""
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
    return {row: problems_of(write_experiment(folder, edit, base=row.base)) for row, edit in rows()}


def problems_of(path: Path) -> tuple[Problem, ...]:
    with pytest.raises(ExperimentError) as refused:
        load_experiment(path)
    assert all(f"{path}:{p.line}: " in str(refused.value) for p in refused.value.problems[:20])
    return refused.value.problems


def test_each_wrong_file_breaks_its_rule_and_key(
    refused: dict[Row, tuple[Problem, ...]],
) -> None:
    places = {row: [(p.code, p.dotted_key) for p in problems] for row, problems in refused.items()}
    assert [row for row in places if (row.code, row.key) not in places[row]] == []


@pytest.mark.parametrize("topic", TOPICS)
def test_the_words_of_every_problem(
    topic: str, refused: dict[Row, tuple[Problem, ...]], folder: Path
) -> None:
    of_topic = [problems for row, problems in refused.items() if row.topic == topic]
    text = "\n".join("".join(map(words, problems)) for problems in of_topic)
    text = text.replace(str(folder), "FOLDER").replace(str(ROOT), "ROOT")
    assert_snapshot(text, WRONG_FILES / f"{topic}.txt")


def words(problem: Problem) -> str:
    """Return a problem's message without the path of the file and the line."""
    return problem.render(Path()).partition(": ")[2] + "\n"


def test_every_rule_has_a_file_that_breaks_it() -> None:
    assert len(RULES) > 40
    assert {*RULES} <= {row.code for row, _ in rows()}


def test_every_code_that_a_page_shows_exists() -> None:
    pages = [ROOT / "README.md", *ROOT.glob("docs/**/*.md")]
    # The first line of a message, such as `mine.yaml:27: variants[1].method (reserved-name)`.
    first_line = re.compile(r"^\S+\.yaml:\d+: \S+ \(([a-z-]+)\)$", re.MULTILINE)
    codes = {
        code for page in pages for code in first_line.findall(page.read_text(encoding="utf-8"))
    }
    assert codes
    assert codes <= {row.code for row, _ in rows()}


def test_two_rules_with_one_code_are_refused() -> None:
    with pytest.raises(ValueError, match="test_rules: the code 'one-load' is another rule's"):
        rule("one-load")(lambda _: iter(()))


@pytest.mark.parametrize("changes", ALLOWED.values(), ids=ALLOWED)
def test_what_is_just_allowed_is_accepted(folder: Path, changes: Changes) -> None:
    assert load_experiment(write_experiment(folder, changed(changes))).cases
