"""Outputs of a run for an experiment: the target's own, of every class."""

from __future__ import annotations

from collections.abc import Sequence
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


def write_answers(
    folder: Path,
    target: str = "target",
    *,
    of: Path = EXPERIMENT,
    platform: str = "",
    classes: Sequence[str] = ("structured",),
    temperature: float = 0.0,
) -> Path:
    """A run whose variants answer one prompt of each class in 11 tokens, the draft's in 2 steps."""
    experiment = load(of)
    baseline, drafted = (v.name for v in experiment.variants[:2])
    blocks, transcripts = [], {}
    for index, name in enumerate(classes):
        case = next(c for c in experiment.cases if c.prompt_class == name)
        for number, variant in enumerate((baseline, drafted), start=2 * index):
            record = make_record(number, prompt_id=case.prompts[0].id, number_output_tokens=11)
            block = make_block(
                variant=variant,
                prompt_class=name,
                case=case.name,
                block=number,
                requests=(record,),
            )
            chunks = (1, 5, 5) if variant == drafted else (1,) * 11
            said = Transcript(request_id=record.request_id, text="1 2 3", chunk_tokens=chunks)
            transcripts[block.stem] = dump_transcripts([said])
            blocks.append(block)
    facts = serving_facts(experiment)
    facts = replace(facts, target_model=target, platform=platform or facts.platform)
    result = make_run(
        *blocks,
        variants=(baseline, drafted),
        baseline=baseline,
        max_tokens_per_step={baseline: 1, drafted: 8},
        serving=facts,
        temperature=temperature,
    )
    write_run(Run(result=result, blocks=tuple(blocks)), folder)
    for stem, data in transcripts.items():
        (folder / "blocks" / f"{stem}.transcript.jsonl.gz").write_bytes(data)
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
