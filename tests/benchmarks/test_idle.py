"""The comparison of idle minutes: by hand, with one set of assumptions, and as it is published."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from benchmarks import idle
from draftworth.planning.assumptions import (
    Assumption,
    Assumptions,
    PublishedAssumptions,
    assumption_data,
)
from draftworth.planning.bounds import Bounds
from tests.conftest import ROOT
from tests.support.documents import assert_block
from tests.support.timelines import BY_HAND, QWEN


def exactly(value: float, unit: str = "minutes") -> Assumption:
    return Assumption.model_validate(
        {"low": value, "high": value, "unit": unit, "source": "a test"}
    )


COMPARISON = idle.Comparison(
    experiment=QWEN,
    assumed=BY_HAND,
    published=PublishedAssumptions(
        whole_node_compile_ratio=exactly(0.5, "ratio"),
        hand_over_minutes=exactly(2),
        llmperf_install_minutes=exactly(3),
        llmperf_start_seconds=exactly(10, "seconds"),
        unattended_minutes=exactly(60),
        consolidate_minutes=exactly(10),
    ),
)


def test_the_published_sequence_by_hand() -> None:
    """A GiB takes a second: 61.0 GiB target, 3.8 GiB draft; compile 30, load + 1, node 5 + 4."""
    run = COMPARISON.published_run(second=False).best

    ends = {name: round(span.end, 3) for name, span in run.spans.items()}
    assert ends == {
        "node start": 5,
        "image pull": 9,
        "download for baseline": 10.017,  # 61.0 s
        "compile baseline": 25.017,  # half of 30
        "hand over after baseline": 27.017,
        "download for qwen3-1.7b-k7": 28.097,  # 64.8 s: the target again
        "compile qwen3-1.7b-k7": 43.097,
        "hand over after qwen3-1.7b-k7": 45.097,
        "load baseline": 47.113,
        "load qwen3-1.7b-k7": 49.193,  # after the baseline's
        "install llmperf": 52.193,
        # Two passes of 8 cases: 2 waves of 30 s (the slower variant) + 10 s.
        "measure in a loop": 70.860,
        "until a person stops it": 130.860,
        "empty node noticed": 140.860,
        "node to zero": 145.860,
    }
    assert run.billed_minutes == pytest.approx(145.86)
    assert run.billed_minutes_before_first_token == pytest.approx(52.1933, abs=1e-4)


def test_a_second_published_run_neither_downloads_nor_compiles() -> None:
    names = COMPARISON.published_run(second=True).best.spans

    assert not [name for name in names if name.startswith(("download", "compile", "hand over"))]


def rows(assumed: Assumptions = BY_HAND) -> dict[str, tuple[Bounds, Bounds]]:
    """This design's minutes, the sample's."""
    comparison = replace(COMPARISON, assumed=assumed)
    return {label: (ours, published) for label, ours, published in comparison.rows()}


def test_billed_minutes_before_the_first_token_in_total_and_of_all_but_measuring() -> None:
    ours, published = rows()["first run, before the first measured token"]
    assert (ours.best, published.best) == pytest.approx((41.08, 52.1933), abs=1e-4)
    ours, published = rows()["first run, in total"]
    assert (ours.best, ours.worst) == pytest.approx((82.08, 190.08))
    assert published.best == pytest.approx(145.86)
    ours, published = rows()["first run, all that is not measuring"]
    assert ours.best == pytest.approx(82.08 - 36)
    assert published.best == pytest.approx(145.86 - 18.6667, abs=1e-3)


def test_the_ratio_is_published_over_ours() -> None:
    before = next(line for line in COMPARISON.lines() if "before the first measured" in line)

    assert before.split()[-6:-1] == ["41.1", "41.1", "52.2", "52.2", "1.27"]


@pytest.mark.parametrize(
    "name",
    [
        *("node_start_minutes", "image_pull_minutes", "compile_minutes", "warm_up_minutes"),
        *("baseline_ms_per_token", "first_token_seconds", "teardown_minutes"),
    ],
)
def test_an_assumption_of_a_node_moves_both_sequences(name: str) -> None:
    more = BY_HAND.replaced([f"{name}={BY_HAND.named(name).low + 1}"])
    before, after = rows()["first run, in total"], rows(more)["first run, in total"]

    assert after[0].best > before[0].best
    assert after[1].best > before[1].best


def test_staging_costs_the_published_node_and_not_ours() -> None:
    label = "first run, before the first measured token"
    before, slower = rows()[label], rows(BY_HAND.replaced(["hub_gbit_per_s=0.5"]))[label]

    assert slower[0].best == pytest.approx(before[0].best)
    assert slower[1].best > before[1].best + 10


def test_the_document_shows_what_the_script_prints() -> None:
    lines = idle.comparison_of(idle.EXPERIMENT, []).lines()
    shown = "".join(f"    {line}\n" for line in lines)

    assert_block(ROOT / "docs" / "timeline.md", "idle", f"\n{shown}\n")


def test_the_script_prints_how_each_published_phase_was_computed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["idle", "--phases", "--assume", "compile_minutes=20"])

    assert idle.main() == 0
    text = capsys.readouterr().out
    assert "published, first run" in text
    assert "whole_node_compile_ratio 0.5 to 1 x compile_minutes 20" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--experiment", str(ROOT / "experiments" / "rehearsal.yaml")],
            "which runs on this machine",
        ),
        (["--assume", "compile_minute=5"], "did you mean 'compile_minutes'?"),
    ],
)
def test_a_wrong_argument_is_a_sentence(
    arguments: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["idle", *arguments])

    assert idle.main() == 2
    assert message in capsys.readouterr().err


def test_the_published_assumptions_stand_in_the_data_file() -> None:
    comparison = idle.comparison_of(idle.EXPERIMENT, [])

    assert comparison.published == assumption_data().published_sequence
    assert [load.label for load in comparison.experiment.loads] == ["c1", "c2", "c4"]
