"""What a page shows as the output of a command is what the command prints.

Such a block stands between `<!-- COMMAND: ... -->` and `<!-- end of COMMAND -->`. Commands run in a
folder with the shipped experiments and prompts, one of n-gram drafting, one wrong file, a log, and
runs whose figures are made up.
`COMMAND | head -N` shows the first N lines. `make snapshots` rewrites the blocks.
"""

import contextlib
import io
import re
import shlex
import shutil
from pathlib import Path

import pytest

from draftworth.cli import main
from tests.conftest import ROOT
from tests.draftworth.claims.planted import AS_PUBLISHED, make_planted_run
from tests.draftworth.report.lossy_runs import write_allowed_steps
from tests.draftworth.report.runs import write_run
from tests.draftworth.report.states import with_factor
from tests.support.documents import PAGES, assert_block

MARKED = re.compile(r"^<!-- (draftworth [^\n]*?): [^\n:]* -->$", re.MULTILINE)
# Blocks that other tests hold have such comments too, with another name.
ANY_MARK = re.compile(r"^<!-- ([^\n]*?): [^\n:]* -->$", re.MULTILINE)
PRINTED = [(page, mark) for page in PAGES for mark in MARKED.findall(page.read_text("utf-8"))]
# How the answers of commands begin, and nothing else in a page.
ANSWER = re.compile(r"^(Decision: |No decision|Next:  |Files: |first run  |\d+ left out: )", re.M)
FENCED = re.compile(r"^```[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LOG = """
{"messages": [{"role": "user", "content": "Where is my order?"},
              {"role": "assistant", "content": "It left today."}]}
{"messages": [{"role": "user", "content": "Summarise this ticket."},
              {"role": "assistant", "content": "A printer is out of paper."}]}
{"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "a.png"}}]}]}
"""


def of_n_grams(rehearsal: str) -> str:
    """Return the shipped rehearsal with n-gram drafting instead of the tiny draft model."""
    head, _, rest = rehearsal.partition("  - name: tiny-draft-k7\n")
    _, key, workload = rest.partition("workload:\n")
    assert key, "the rehearsal has another draft"
    return f"{head}  - {{name: ngram-k5, method: ngram, window: 5}}\n\n{key}{workload}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("printed")
    shutil.copytree(ROOT / "experiments", made / "experiments")
    shipped = (ROOT / "experiments" / "qwen3-32b.yaml").read_text("utf-8")
    wrong = shipped.replace("release: neuron-2.26.1", "release: neuron-2.32.0")
    (made / "experiments" / "wrong.yaml").write_text(wrong, "utf-8")
    rehearsal = (ROOT / "experiments" / "rehearsal.yaml").read_text("utf-8")
    (made / "experiments" / "mine.yaml").write_text(of_n_grams(rehearsal), "utf-8")
    for name in ("prompts", "rehearsal"):
        (made / name).symlink_to(ROOT / name)
    write_run(with_factor(0.6), made / "runs" / "mine")
    write_allowed_steps(made / "runs" / "lossy", steps=10)
    slower = {**AS_PUBLISHED, ("phrases", "k7"): 0.0245}
    write_run(make_planted_run(slower, apart=0.05), made / "runs" / "published")
    (made / "log.jsonl").write_text(LOG.strip().replace(",\n", ",") + "\n")
    return made


def printed(command: str) -> str:
    """Run a command in this process; return it with what it prints, as a block of Markdown."""
    words, _, head = command.partition(" | head -")
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        main(shlex.split(words)[1:])
    lines = [line.rstrip() for line in output.getvalue().rstrip().splitlines()]
    if head:
        lines = [*lines[: int(head)], "..."]
    return "\n".join(["```", f"$ {words}", *lines, "```", ""])


def unmarked(text: str) -> list[str]:
    """Return the fenced answers of commands that no comment marks as held by a test."""
    for mark in ANY_MARK.findall(text):
        _, _, rest = text.partition(f"<!-- {mark}:")
        block, _, _ = rest.partition(f"<!-- end of {mark} -->")
        text = text.replace(block, "")
    return [block for block in FENCED.findall(text) if ANSWER.search(block)]


@pytest.mark.parametrize(("page", "command"), PRINTED, ids=lambda value: str(value).split("/")[-1])
def test_a_page_shows_what_is_printed(
    page: Path, command: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr("sys.argv", ["draftworth"])
    assert_block(page, command, printed(command))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_answer_is_typed_by_hand(page: Path) -> None:
    assert unmarked(page.read_text("utf-8")) == []


def test_an_answer_that_is_typed_is_reported() -> None:
    typed = "```\nDecision: serve k7.\n```\n"
    marked = f"<!-- draftworth report r: as printed -->\n{typed}<!-- end of draftworth report r -->"
    assert unmarked(f"{typed}\n{marked}") == ["Decision: serve k7.\n"]
