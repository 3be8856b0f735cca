"""The comparison of idle minutes: by hand, with one set of assumptions, and as it is published."""

from __future__ import annotations

import sys

import pytest

from benchmarks import idle
from draftworth.planning.assumptions import Assumption, PublishedAssumptions, assumption_data
from draftworth.planning.phases import simulate
from tests.conftest import ROOT
from tests.support.documents import assert_block
from tests.support.timelines import BY_HAND, QWEN


def exactly(value: float, unit: str = "minutes") -> Assumption:
    return Assumption.model_validate(
        {"low": value, "high": value, "unit": unit, "source": "a test"}
    )


SCENE = idle.Scene(
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
    run = simulate(idle.published_course(SCENE, compiled=False), "low")

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
    names = [phase.name for phase in idle.published_course(SCENE, compiled=True).phases]

    assert not [name for name in names if name.startswith(("download", "compile", "hand over"))]


def test_the_table_compares_estimate_with_estimate() -> None:
    rows = {row.label: row for row in idle.comparisons(SCENE)}

    before = rows["first run, before the first measured token"]
    assert before.ours.low == pytest.approx(41.08)
    assert before.ratio.low == pytest.approx(52.1933 / 41.08, abs=1e-4)
    total = rows["first run, in total"]
    assert (total.ours.low, total.ours.high) == pytest.approx((82.08, 190.08))
    other = rows["first run, all that is not measuring"]
    assert other.ours.low == pytest.approx(82.08 - 36)
    assert other.published.low == pytest.approx(145.86 - 18.6667, abs=1e-3)


def test_both_sequences_take_the_same_assumptions() -> None:
    """Each assumption of a node's life that moves one side moves the other."""
    plain = list(idle.comparisons(SCENE))
    for name in (
        *("node_start_minutes", "image_pull_minutes", "compile_minutes", "warm_up_minutes"),
        *("baseline_ms_per_token", "first_token_seconds", "teardown_minutes"),
    ):
        value = BY_HAND.named(name).low + 1
        assumed = BY_HAND.replaced([f"{name}={value}"])
        scene = idle.Scene(experiment=QWEN, assumed=assumed, published=SCENE.published)
        moved = list(idle.comparisons(scene))
        total = [row.label for row in plain].index("first run, in total")
        assert moved[total].ours.low > plain[total].ours.low, name
        assert moved[total].published.low > plain[total].published.low, name


def test_staging_costs_the_published_node_and_not_ours() -> None:
    slow = BY_HAND.replaced(["hub_gbit_per_s=0.5"])
    scene = idle.Scene(experiment=QWEN, assumed=slow, published=SCENE.published)
    (before, *_), (slower, *_) = list(idle.comparisons(SCENE)), list(idle.comparisons(scene))

    assert slower.ours.low == pytest.approx(before.ours.low)
    assert slower.published.low > before.published.low + 10


def test_the_document_shows_what_the_script_prints() -> None:
    shown = "".join(
        f"    {line}\n" for line in idle.table_lines(idle.scene_of(idle.EXPERIMENT, []))
    )

    assert_block(ROOT / "docs" / "timeline.md", "idle", f"\n{shown}\n")


def test_the_script_prints_both_courses(
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
        (["--experiment", str(ROOT / "experiments" / "rehearsal.yaml")], "rents no accelerator"),
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
    scene = idle.scene_of(idle.EXPERIMENT, [])

    assert scene.published == assumption_data().published_sequence
    assert len(scene.experiment.cases) == 8
