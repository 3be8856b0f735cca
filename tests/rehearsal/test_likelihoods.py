"""Whose answers a run has: who reads them, where it is written, and what is said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from draftworth.errors import UserInputError
from draftworth.planning.resolved import load
from draftworth.records.likelihoods import (
    LIKELIHOODS_FILE,
    DraftLikelihood,
    GreedyLikelihood,
    Likelihood,
    read_likelihoods,
)
from draftworth.records.readings import Output, Reading
from draftworth.records.transcripts import Transcripts
from pods.teacher_forcing.reader import Reader
from rehearsal.answers import Answers, answers_of
from rehearsal.likelihoods import check_answers, likelihoods
from tests.conftest import ROOT
from tests.rehearsal.test_answers import EXPERIMENT, write_answers

TARGET, DRAFT = (ROOT / "rehearsal/tiny_pair" / name for name in ("target", "draft"))
CLASSES = ("structured", "open_ended")


@dataclass(frozen=True, kw_only=True)
class Known(Reader):
    """Reads nothing; keeps who was to read, and how."""

    python: Path = Path("python")
    folder: Path = Path("none")
    enable_thinking: bool = False
    asked: list[tuple[Path, dict[str, Any]]] = field(default_factory=list)

    def readings(self, model: Path, outputs: Sequence[Output], **options: Any) -> list[Reading]:
        self.asked.append((model, options))
        return [
            Reading(
                **{name: getattr(o, name) for name in ("id", "prompt_class", "case", "prompt_id")},
                hits="1" * 10,
                log_likelihood=-11.0,
                entropy=11.0,
                variance=1.0,
            )
            for o in outputs
        ]


class Unreadable(Known):
    """A model that cannot be read."""

    def readings(self, *_: Any, **__: Any) -> list[Reading]:
        raise UserInputError("no model")


def tokenizer_alone(folder: Path) -> Path:
    folder.mkdir()
    (folder / "tokenizer.json").write_bytes((TARGET / "tokenizer.json").read_bytes())
    return folder


def checked(reader: Known, run: Path, **overrides: Any) -> list[str]:
    """What is said of a run's answers."""
    experiment = load(EXPERIMENT)
    answers = replace(answers_of(experiment, str(run)), **overrides)
    lines: list[str] = []
    check_answers(experiment, answers, reader, DRAFT, progress=lines.append)
    return lines


def test_sampled_outputs_are_read_by_the_target_as_they_were_drawn(tmp_path: Path) -> None:
    run = write_answers(tmp_path / "run", classes=CLASSES, temperature=0.8)
    reader = Known(target=TARGET)

    lines = checked(reader, run)

    assert reader.asked == [(TARGET, {"temperature": 0.8, "fixed_length": True})] * 2
    found = read_likelihoods(run, run_id_of(run))
    assert [(type(k), k.variant) for k in found] == [
        (Likelihood, "baseline"),
        (Likelihood, "tiny-draft-k7"),
    ]
    assert "nothing shows that its answers are not the target's" in lines[0]
    assert str(run / LIKELIHOODS_FILE) in lines[-1]


def run_id_of(run: Path) -> str:
    answers = answers_of(load(EXPERIMENT), str(run))
    assert answers.run
    return answers.run.result.run_id


def test_greedy_outputs_are_read_as_the_model_is(tmp_path: Path) -> None:
    run = write_answers(tmp_path / "run", classes=CLASSES)
    experiment, reader = load(EXPERIMENT), Known(target=TARGET)

    found = likelihoods(experiment, run, reader)  # type: ignore[arg-type]  # a local one

    assert {options["temperature"] for _, options in reader.asked} == {1.0}
    assert all(isinstance(k, GreedyLikelihood) for k in found)
    assert all(k.is_the_targets for k in found)


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_where_the_target_is_a_tokenizer_alone_a_draft_reads_both_sides(
    tmp_path: Path, temperature: float
) -> None:
    run = write_answers(tmp_path / "run", classes=CLASSES, temperature=temperature)
    reader = Known(target=tokenizer_alone(tmp_path / "target"))

    lines = checked(reader, run, transcripts=said(run, "1 2 4"))

    assert {model for model, _ in reader.asked} == {DRAFT}
    found = read_likelihoods(run, run_id_of(run))
    assert [
        (k.variant, k.prompt_class, k.prompts) for k in found if isinstance(k, DraftLikelihood)
    ] == [("tiny-draft-k7", name, 1) for name in sorted(CLASSES)]
    assert "1 prompt of open_ended are too few to tell" in lines[0]


def said(run: Path, by_the_variant: str) -> Transcripts:
    """The run's transcripts, with another text of the variant's."""
    answers = answers_of(load(EXPERIMENT), str(run))
    assert answers.run
    drafted = {
        r.request_id
        for block in answers.run.blocks
        if block.variant != answers.run.result.baseline
        for r in block.requests
    }
    return {
        name: replace(t, text=by_the_variant) if name in drafted else t
        for name, t in answers.transcripts.items()
    }


def test_of_the_same_outputs_a_draft_has_nothing_to_tell(tmp_path: Path) -> None:
    run = write_answers(tmp_path / "run", classes=CLASSES)
    reader = Known(target=tokenizer_alone(tmp_path / "target"))

    assert checked(reader, run) == []
    assert reader.asked == []
    assert not (run / LIKELIHOODS_FILE).exists()


def test_where_the_target_does_not_fit_a_draft_reads_both_sides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rehearsal.model_folders.fits", lambda _: False)
    reader = Known(target=TARGET)

    run = write_answers(tmp_path / "run", classes=CLASSES, temperature=0.8)

    checked(reader, run, transcripts=said(run, "1 2 4"))

    assert {model for model, _ in reader.asked} == {DRAFT}


def test_what_the_target_said_is_not_replaced_by_what_a_draft_says(tmp_path: Path) -> None:
    run = write_answers(tmp_path / "run", classes=CLASSES, temperature=0.8)
    checked(Known(target=TARGET), run)
    before = (run / LIKELIHOODS_FILE).read_bytes()
    reader = Known(target=tokenizer_alone(tmp_path / "target"))

    assert checked(reader, run) == []
    assert reader.asked == []
    assert (run / LIKELIHOODS_FILE).read_bytes() == before


def test_a_run_elsewhere_is_told_of_and_nothing_is_written(tmp_path: Path) -> None:
    run = write_answers(tmp_path / "run", classes=CLASSES, temperature=0.8)

    lines = checked(Known(target=TARGET), run, folder=None)

    assert len(lines) == 2
    assert not (run / LIKELIHOODS_FILE).exists()


def test_what_cannot_be_read_or_written_is_said(tmp_path: Path) -> None:
    run = write_answers(tmp_path / "run", classes=CLASSES, temperature=0.8)

    assert checked(Unreadable(target=TARGET), run) == [
        "whose answers the run has is not told: no model"
    ]
    (*_, line) = checked(Known(target=TARGET), run, folder=tmp_path / "none")
    assert line.startswith("whose answers the run has is not told: ")


def test_answers_of_no_run_are_nobodys_to_check(tmp_path: Path) -> None:
    reader = Known(target=TARGET)
    check_answers(load(EXPERIMENT), Answers(outputs=()), reader, tmp_path, progress=lambda _: None)

    assert reader.asked == []
