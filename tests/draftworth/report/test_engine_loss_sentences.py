"""What an engine loses, in words: in the report, its ten lines, its warnings and its JSON."""

from pathlib import Path
from typing import Any

import pytest

from draftworth.analysis.engine_loss import EngineLoss
from draftworth.analysis.lost_where import Contexts, PlaceLoss, PositionLoss, Rounds
from draftworth.analysis.statistics import Estimate
from draftworth.records.allowed_steps import ALLOWED_STEPS_FILE, AllowedSteps
from draftworth.records.codec import dump_record
from draftworth.records.load_shapes import ConcurrencyLoad
from draftworth.report.answer_of_run import answer_of
from draftworth.report.brief import COLUMNS
from draftworth.report.engine_loss_sentences import loss_sections, loss_sentence
from tests.draftworth.conftest import Ran
from tests.draftworth.report.lossy_runs import write_allowed_steps
from tests.draftworth.report.runs import make_facts, make_run, write_run

RATIO = Estimate(value=0.795, low=0.78, high=0.81, prompts=8, blocks=8, samples=64)


def make_loss(**fields: Any) -> EngineLoss:
    values: dict[str, Any] = {
        "variant": "k7",
        "load": ConcurrencyLoad(concurrency=4),
        "draft": "models/draft",
        "requests": 64,
        "taken_as_allowed": 3,
        "allowed": 3.9,
        "taken": 3.1,
        "ratio": RATIO,
    }
    return EngineLoss(**{**values, **fields})


def ratio(value: float, low: float | None, high: float | None) -> dict[str, Any]:
    return {"ratio": Estimate(value=value, low=low, high=high, prompts=8, blocks=8, samples=64)}


def test_a_loss_is_a_sentence() -> None:
    assert loss_sentence(make_loss()) == (
        "k7 at 4 requests at a time: this server yields 3.10 tokens per step where these texts and "
        "this draft (models/draft) allow 3.90: 0.80 are lost in the engine (difference -20.5%, "
        "98% interval -22.0% to -19.0%; 3 of 64 requests took exactly the allowed steps)."
    )


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (ratio(0.999, 0.995, 1.002), "within 1%, none are lost in the engine (difference -0.1%"),
        (ratio(0.98, 0.95, 1.01), "whether any are lost in the engine cannot be told"),
        (ratio(0.98, None, None), "cannot be told (difference -2.0%, no interval;"),
        (ratio(1.1, 1.05, 1.2), "more than allowed, so its draft, its window or the count"),
        ({"taken_as_allowed": 64, **ratio(1, None, None)}, "within 1%, none are lost"),
    ],
)
def test_each_verdict_has_words(fields: dict[str, Any], words: str) -> None:
    assert words in loss_sentence(make_loss(**fields))


PLACES = (
    PlaceLoss(where=Contexts(1024.0, 2048.0), allowed=4.0, taken=3.0, beside_rest=RATIO),
    PlaceLoss(where=Rounds(first=True), allowed=4.0, taken=3.0, beside_rest=RATIO),
    PlaceLoss(where=Rounds(first=False), allowed=4.0, taken=3.0, beside_rest=RATIO),
)
POSITION = PositionLoss(position=4, acceptable=0.8, accepted=0.12, low=0.6, high=0.75)


def test_places_and_positions_follow_the_loss() -> None:
    loss = make_loss(places=PLACES, positions=(POSITION,))
    sentence = loss_sentence(loss)
    for words in (
        "More is lost at contexts of 1,024 to 2,048 tokens than elsewhere: it yields 3.00 of 4.00.",
        "More is lost in the first round than elsewhere",
        "More is lost in later rounds than the first than elsewhere",
        "reach draft position 4, 12.0% accept the drafted token there where 80.0% could.",
    ):
        assert words in sentence
    (section,) = loss_sections([loss])
    whole, where = section.tables
    assert whole.rows[0][3:7] == ("lost", "64", "3", "3.900")
    assert [row[2] for row in where.rows][-1] == "at draft position 4"
    (without_places,) = loss_sections([make_loss()])
    assert len(without_places.tables) == 1
    assert loss_sections([]) == ()


def test_the_report_names_an_engines_loss(tmp_path: Path, ran: Ran) -> None:
    folder = write_allowed_steps(tmp_path / "run", steps=10)
    lines = ran("report", folder).splitlines()
    (line,) = [line for line in lines if line.startswith("k7: ")]
    assert "tokens per step that texts allow, " in line
    assert line.endswith("% lost")
    assert len(line) <= COLUMNS
    output = ran("report", folder, "--verbose")
    assert "Lost in the engine" in output
    assert output.count("are lost in the engine (difference ") == 2, "a warning and the section"


def test_without_allowed_steps_nothing_is_lost(tmp_path: Path, ran: Ran) -> None:
    folder = write_run(make_run(), tmp_path / "run")
    assert "texts allow" not in ran("report", folder)
    assert "in the engine" not in ran("report", folder, "--verbose")
    assert answer_of(make_facts(make_run())).engine_losses == ()


def test_allowed_steps_of_another_run_are_refused(tmp_path: Path, ran: Ran) -> None:
    folder = write_allowed_steps(tmp_path / "run", steps=10)
    record = AllowedSteps(run_id="another", variants=())
    (folder / ALLOWED_STEPS_FILE).write_bytes(dump_record(record))
    assert "allowed steps of run 'another', not of" in ran("report", folder, code=2)
