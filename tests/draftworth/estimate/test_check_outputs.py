"""Checks of a run's outputs: which model reads them, and where the results are written."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from draftworth.analysis.likelihood_check import judged
from draftworth.errors import UserInputError
from draftworth.estimate.output_likelihoods import check_outputs, checks_by_target
from draftworth.estimate.run_teacher_forcing import Reader
from draftworth.estimate.target_outputs import TargetOutputs, read_target_outputs
from draftworth.planning.resolved import load
from draftworth.records import likelihoods
from draftworth.records.readings import Output, Reading
from draftworth.records.transcripts import Transcripts
from tests.draftworth.estimate.written_runs import EXPERIMENT, TINY_PAIR, write_answers
from tests.support.blocks import make_run
from tests.support.readings import make_reading

TARGET, DRAFT = TINY_PAIR / "target", TINY_PAIR / "draft"
CLASSES = ("structured", "open_ended")
RUN_ID = make_run().run_id


@dataclass(frozen=True, kw_only=True)
class FakeReader(Reader):
    """A fake reader, which runs no model and makes up readings.

    calls: the folder of each model that was to read outputs, with the options of this call.
    """

    python: Path = Path("python")
    folder: Path = Path("none")
    enable_thinking: bool = False
    calls: list[tuple[Path, dict[str, Any]]] = field(default_factory=list)

    def readings(self, model: Path, outputs: Sequence[Output], **options: Any) -> list[Reading]:
        self.calls.append((model, options))
        return [make_reading("1" * 10, of=o, log_likelihood=-11.0, entropy=11.0) for o in outputs]


class Unreadable(FakeReader):
    def readings(self, *_: Any, **__: Any) -> list[Reading]:
        raise UserInputError("no model")


def tokenizer_alone(folder: Path) -> Path:
    folder.mkdir()
    (folder / "tokenizer.json").write_bytes((TARGET / "tokenizer.json").read_bytes())
    return folder


def checked(reader: FakeReader, run: Path, **overrides: Any) -> list[str]:
    """Check a run's outputs, and return the lines that are printed as progress."""
    experiment = load(EXPERIMENT)
    answers = replace(read_target_outputs(experiment, run), **overrides)
    lines: list[str] = []
    check_outputs(experiment, answers, reader, DRAFT, progress=lines.append)
    return lines


def test_the_target_reads_sampled_outputs_as_drawn(tmp_path: Path) -> None:
    run = write_answers(tmp_path / "run", classes=CLASSES, temperature=0.8)
    reader = FakeReader(target=TARGET)

    lines = checked(reader, run)

    assert reader.calls == [(TARGET, {"temperature": 0.8, "fixed_length": True})] * 2
    checks = likelihoods.read_likelihoods(run, RUN_ID)
    assert [(type(k), k.variant) for k in checks] == [
        (likelihoods.Likelihood, "baseline"),
        (likelihoods.Likelihood, "tiny-draft-k7"),
    ]
    assert "nothing shows that its answers are not the target's" in lines[0]
    assert str(run / likelihoods.LIKELIHOODS_FILE) in lines[-1]
    (run / likelihoods.LIKELIHOODS_FILE).unlink()
    # Checks of a run in S3 are printed, but not written into a file.
    assert checked(reader, run, folder=None) == lines[:-1]
    assert not (run / likelihoods.LIKELIHOODS_FILE).exists()


def test_greedy_outputs_are_read_as_the_model_is(tmp_path: Path) -> None:
    run = write_answers(tmp_path / "run", classes=CLASSES)
    experiment, reader = load(EXPERIMENT), FakeReader(target=TARGET)
    outputs = read_target_outputs(experiment, run)
    assert outputs.run

    checks = [*checks_by_target(experiment, outputs.run, outputs.transcripts, reader)]

    assert {options["temperature"] for _, options in reader.calls} == {1.0}
    assert all(isinstance(k, likelihoods.GreedyLikelihood) for k in checks)
    assert all(judged(k).is_the_targets for k in checks)


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_a_draft_reads_both_sides_without_target_weights(
    tmp_path: Path, temperature: float
) -> None:
    run = write_answers(tmp_path / "run", classes=CLASSES, temperature=temperature)
    reader = FakeReader(target=tokenizer_alone(tmp_path / "target"))

    lines = checked(reader, run, transcripts=transcripts_of(run, "1 2 4"))

    assert {model for model, _ in reader.calls} == {DRAFT}
    checks = likelihoods.read_likelihoods(run, RUN_ID)
    assert [
        (k.variant, k.prompt_class, k.prompts)
        for k in checks
        if isinstance(k, likelihoods.DraftLikelihood)
    ] == [("tiny-draft-k7", name, 1) for name in sorted(CLASSES)]
    assert "1 prompt of open_ended are too few to tell" in lines[0]


def transcripts_of(run: Path, by_the_variant: str) -> Transcripts:
    """The run's transcripts, with `by_the_variant` as the text of each output of the variant."""
    answers = read_target_outputs(load(EXPERIMENT), run)
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


def test_a_draft_reads_no_identical_outputs(tmp_path: Path) -> None:
    run = write_answers(tmp_path / "run", classes=CLASSES)
    reader = FakeReader(target=tokenizer_alone(tmp_path / "target"))

    assert checked(reader, run) == []
    assert reader.calls == []
    assert not (run / likelihoods.LIKELIHOODS_FILE).exists()


def test_a_draft_replaces_a_target_too_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("draftworth.estimate.model_folders.fits", lambda _: False)
    reader = FakeReader(target=TARGET)

    run = write_answers(tmp_path / "run", classes=CLASSES, temperature=0.8)

    checked(reader, run, transcripts=transcripts_of(run, "1 2 4"))

    assert {model for model, _ in reader.calls} == {DRAFT}


def test_a_drafts_check_does_not_replace_the_targets(tmp_path: Path) -> None:
    run = write_answers(tmp_path / "run", classes=CLASSES, temperature=0.8)
    checked(FakeReader(target=TARGET), run)
    before = (run / likelihoods.LIKELIHOODS_FILE).read_bytes()
    reader = FakeReader(target=tokenizer_alone(tmp_path / "target"))

    assert checked(reader, run) == []
    assert reader.calls == []
    assert (run / likelihoods.LIKELIHOODS_FILE).read_bytes() == before


def test_reading_and_writing_errors_become_progress_lines(tmp_path: Path) -> None:
    run = write_answers(tmp_path / "run", classes=CLASSES, temperature=0.8)

    assert checked(Unreadable(target=TARGET), run) == [
        "whose answers the run has is not told: no model"
    ]
    (*_, line) = checked(FakeReader(target=TARGET), run, folder=tmp_path / "none")
    assert line.startswith("whose answers the run has is not told: ")


def test_outputs_of_no_run_are_not_checked(tmp_path: Path) -> None:
    reader = FakeReader(target=TARGET)
    check_outputs(
        load(EXPERIMENT), TargetOutputs(outputs=()), reader, tmp_path, progress=lambda _: None
    )

    assert reader.calls == []
