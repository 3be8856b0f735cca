"""Outputs of a run for an experiment: the target's own, of every class."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from draftworth.cli import main
from draftworth.planning.resolved import load
from draftworth.planning.run_specification import serving_facts
from draftworth.records.reading import Run
from draftworth.records.transcripts import Transcript, dump_transcripts
from tests.conftest import ROOT
from tests.draftworth.report.runs import write_run
from tests.support.blocks import make_block, make_record, make_run

EXPERIMENT = ROOT / "experiments/rehearsal.yaml"
TINY_PAIR = ROOT / "rehearsal/tiny_pair"
HUB_EXPERIMENT = ROOT / "experiments/qwen3-32b.yaml"


def write_answers(folder: Path, target: str, *, of: Path = EXPERIMENT, platform: str = "") -> Path:
    """A run that answers one prompt of the class `structured`."""
    experiment = load(of)
    case = next(c for c in experiment.cases if c.prompt_class == "structured")
    record = make_record(prompt_id=case.prompts[0].id)
    block = make_block(variant="baseline", case=case.name, requests=(record,))
    facts = serving_facts(experiment)
    facts = replace(facts, target_model=target, platform=platform or facts.platform)
    write_run(Run(result=make_run(block, serving=facts), blocks=(block,)), folder)
    texts = dump_transcripts([Transcript(request_id=record.request_id, text="1 2 3")])
    (folder / "blocks" / f"{block.stem}.transcript.jsonl.gz").write_bytes(texts)
    return folder


def test_a_class_without_answers_is_refused_before_any_pass(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = write_answers(tmp_path / "run", "elsewhere/target/")

    assert main(["estimate", str(EXPERIMENT), "--answers", str(run)]) == 2

    assert "no outputs of class open_ended" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("experiment", "target", "platform"),
    [
        (EXPERIMENT, "../models/another", ""),
        (EXPERIMENT, "Qwen/Qwen3-32B", "neuron"),
        (HUB_EXPERIMENT, "Qwen/Qwen3-8B", ""),
        (HUB_EXPERIMENT, "Another/Qwen3-32B", ""),
    ],
)
def test_outputs_of_another_model_are_refused_with_both_names(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    experiment: Path,
    target: str,
    platform: str,
) -> None:
    run = write_answers(tmp_path / "run", target, of=experiment, platform=platform)
    folders = ("--draft", str(TINY_PAIR / "draft"), "--target", str(TINY_PAIR / "target"))

    assert main(["estimate", str(experiment), "--answers", str(run), *folders]) == 2

    said = capsys.readouterr().err
    assert f"given: outputs of {target}, allowed: of " in said
    assert "the experiment's target" in said
