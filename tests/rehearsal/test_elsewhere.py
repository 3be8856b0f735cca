"""The real engines of the rehearsal as servers that run already, for `compare` and `measure`."""

from contextlib import chdir
from pathlib import Path

import pytest

from draftworth.analysis.facts import RunFacts, facts_of
from draftworth.analysis.run_comparison import elsewhere
from draftworth.cli import main
from draftworth.planning.resolved import load
from draftworth.records.reading import read_run
from tests.conftest import ROOT
from tests.rehearsal.engines import engine_server, serve_together

PROMPTS = ("prompts/structured/count.jsonl", "prompts/open_ended/poem.jsonl")
ASKED = (
    *("--model", "rehearsal", "--prompts", *(str(ROOT / path) for path in PROMPTS)),
    *("--requests-per-case", "2", "--rounds", "2", "--output-tokens", "150", "--fixed-length"),
)


def run(folder: Path, *words: str) -> RunFacts:
    assert main([*words, *ASKED, "--out", str(folder)]) == 0
    (found,) = folder.iterdir()
    return facts_of(read_run(found), {})


@pytest.mark.engine
def test_the_lesson_of_the_tiny_pair_is_in_turn_and_in_two_runs(tmp_path: Path) -> None:
    """Of factors of two: speculation pays for one class and costs for the other."""
    experiment = load(ROOT / "experiments/rehearsal.yaml")
    plain, drafted = (engine_server(tmp_path, experiment, v) for v in experiment.variants)
    with serve_together([plain, drafted]), chdir(ROOT):
        variant = f"k7={drafted.base_url},window=7"
        given = ("--baseline", plain.base_url, "--variant", variant)
        in_turn = run(tmp_path / "in-turn", "compare", *given)
        alone, with_draft = (
            run(tmp_path / server.name, "measure", "--base-url", server.base_url)
            for server in (plain, drafted)
        )
    for ratios in (
        {c.traffic.name: c.cost_ratio for c in in_turn.comparisons},
        {row.traffic.name: row.ratio for row in elsewhere(with_draft, alone).rows},
    ):
        structured, open_ended = ratios["structured"], ratios["open_ended"]
        assert structured is not None
        assert open_ended is not None
        assert structured.value < 1 < open_ended.value
    # The server counts what the window and the tokens a step make of it.
    checks = [variant.acceptance for variant in in_turn.speculative]
    assert len(checks) == 2
    assert all(check.agrees for check in checks)
