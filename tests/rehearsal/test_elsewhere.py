"""Or on something else: a run of `compare` beside a server that `measure` asked the same."""

from contextlib import chdir
from pathlib import Path

import pytest

from draftworth.analysis.facts import RunFacts, facts_of
from draftworth.analysis.run_comparison import Across, elsewhere
from draftworth.cli import main
from draftworth.planning.resolved import load
from draftworth.records.reading import read_run
from tests.conftest import ROOT
from tests.rehearsal.engines import engine_server, serve_together

PROMPTS = ("prompts/structured/count.jsonl", "prompts/open_ended/poem.jsonl")
USD_PER_HOUR = {"cpu": 0.05, "cpu-with-draft": 0.20}


ASKED = (
    *("--model", "rehearsal", "--prompts", *(str(ROOT / path) for path in PROMPTS)),
    *("--requests-per-case", "4", "--rounds", "2", "--output-tokens", "150", "--fixed-length"),
)


def measured(base_url: str, name: str, out: Path) -> Path:
    code = main(
        [
            *("measure", "--base-url", base_url, "--name", name, *ASKED, "--out", str(out)),
            *("--usd-per-hour", str(USD_PER_HOUR[name])),
            *("--price-source", "a price list", "--price-as-of", "2026-06-01"),
        ]
    )
    assert code == 0
    (folder,) = out.iterdir()
    return folder


def rows(ours: RunFacts, theirs: RunFacts) -> dict[tuple[str, str], Across]:
    found = elsewhere(ours, theirs)
    assert found.unlike == ()
    return {(row.traffic.name, row.variant): row for row in found.rows}


def ratio(row: Across) -> float:
    assert row.ratio is not None
    return row.ratio.value


@pytest.mark.engine
def test_two_engines_in_turn_stand_beside_the_same_engines_measured_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The lesson of the tiny pair, of factors of two, is in what `--against` says as well."""
    experiment = load(ROOT / "experiments/rehearsal.yaml")
    plain, drafted = (engine_server(tmp_path, experiment, v) for v in experiment.variants)
    with serve_together([plain, drafted]), chdir(ROOT):
        variant = f"tiny-draft-k7={drafted.base_url},window=7"
        given = (
            "--baseline",
            plain.base_url,
            "--variant",
            variant,
            "--out",
            str(tmp_path / "runs"),
        )
        assert main(["compare", *given, *ASKED]) == 0
        cpu = measured(plain.base_url, "cpu", tmp_path / "cpu")
        other = measured(drafted.base_url, "cpu-with-draft", tmp_path / "other")
    (run,) = (tmp_path / "runs").iterdir()
    capsys.readouterr()

    assert main(["report", str(run), "--against", str(cpu)]) == 0
    said = capsys.readouterr().out
    assert (
        "Prices: this run, none is known; the other, 0.0500 USD a node hour (a price list, " in said
    )
    ours, alone, with_draft = (facts_of(read_run(folder), {}) for folder in (run, cpu, other))
    beside = rows(ours, alone)
    assert (
        ratio(beside["structured", "tiny-draft-k7"])
        < 1
        < ratio(beside["open_ended", "tiny-draft-k7"])
    )
    assert not any(row.is_cost for row in beside.values())
    # Both were measured alone and have a price: what a token costs, and how surely.
    priced = rows(with_draft, alone)
    assert set(priced) == {("structured", "cpu-with-draft"), ("open_ended", "cpu-with-draft")}
    for row in priced.values():
        here, there = row.usd
        assert here is not None
        assert there is not None
        assert ratio(row) == pytest.approx(here.value / there.value)
    # Four times the price: the draft has to be four times as fast to be as cheap.
    assert ratio(priced["open_ended", "cpu-with-draft"]) > 4
