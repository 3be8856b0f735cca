"""Writes the folder of a run whose variants answered a few prompts of an experiment."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from draftworth.planning.resolved import load
from draftworth.planning.specify_run import serving_facts
from draftworth.records.run_folder import Run
from draftworth.records.transcripts import Transcript, dump_transcripts
from tests.conftest import ROOT
from tests.draftworth.report.runs import write_run
from tests.support.blocks import make_block, make_record, make_run

EXPERIMENT = ROOT / "experiments/rehearsal.yaml"
TINY_PAIR = ROOT / "rehearsal/tiny_pair"
HUB_EXPERIMENT = ROOT / "experiments/qwen3-32b.yaml"
# The prompt classes of the shipped experiments.
CLASSES = ("structured", "open_ended")


def write_answers(
    folder: Path,
    target: str = "target",
    *,
    of: Path = EXPERIMENT,
    platform: str = "",
    classes: Sequence[str] = ("structured",),
    temperature: float = 0.0,
) -> Path:
    """Write a run whose variants answered one prompt of each class in 11 tokens; return its folder.

    After the first token, the variant with a draft took two steps. target: the name of the model in
    the run's files. of: the experiment file.
    """
    experiment = load(of)
    baseline, drafted = (v.name for v in experiment.variants[:2])
    blocks, transcripts = [], {}
    for index, name in enumerate(classes):
        case = next(c for c in experiment.cases if c.prompt_class == name)
        for number, variant in enumerate((baseline, drafted), start=2 * index):
            chunks = (1, 5, 5) if variant == drafted else (1,) * 11
            record = make_record(
                number,
                prompt_id=case.prompts[0].id,
                number_output_tokens=11,
                chunks=len(chunks),
            )
            block = make_block(
                variant=variant,
                prompt_class=name,
                case=case.name,
                block=number,
                requests=(record,),
                speculation=None,
            )
            transcript = Transcript(request_id=record.request_id, text="1 2 3", chunk_tokens=chunks)
            transcripts[block.stem] = dump_transcripts([transcript])
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
