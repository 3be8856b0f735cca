"""Whether a run's outputs are the target's: read by the target where it fits, else by a draft.

What is found lies in `likelihoods.json` beside the run, and the report shows it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from draftworth.errors import DraftworthError
from draftworth.estimating.likelihood import (
    draft_likelihoods_of,
    greedy_likelihood_of,
    likelihood_of,
)
from draftworth.estimating.outputs import outputs_of_variant
from draftworth.planning.resolved import ResolvedExperiment, ResolvedLocal
from draftworth.records.codec import dump_record
from draftworth.records.likelihoods import (
    LIKELIHOODS_FILE,
    DraftLikelihood,
    Likelihoods,
    ModelsCheck,
)
from draftworth.records.reading import Run, read_run
from draftworth.records.readings import Output
from draftworth.records.transcripts import Transcripts, read_transcripts
from pods.teacher_forcing.reader import Reader
from rehearsal.answers import Answers
from rehearsal.model_folders import can_read, shown


def likelihoods(
    experiment: ResolvedLocal, run_folder: Path, reader: Reader
) -> tuple[ModelsCheck, ...]:
    """What the target says of each variant's outputs.

    Raises:
        DraftworthError: the outputs cannot be read.
    """
    run = read_run(run_folder)
    return tuple(_by_target(experiment, run, read_transcripts(run_folder, run.blocks), reader))


def check_answers(
    experiment: ResolvedExperiment,
    answers: Answers,
    reader: Reader,
    draft: Path,
    *,
    progress: Callable[[str], None],
) -> None:
    """Check the outputs of a run by the target where its folder has it and it fits, else a draft.

    What cannot be read or written is said: the estimate is there already.
    """
    if answers.run is None:
        return
    by_target = can_read(reader.target)
    # What the target said of them is more than what a draft does.
    if not by_target and any(not isinstance(f, DraftLikelihood) for f in answers.run.likelihoods):
        return
    read = _by_target if by_target else partial(_by_draft, draft=draft)
    try:
        found = tuple(read(experiment, answers.run, answers.transcripts, reader))
        _write(found, answers, progress)
    except (DraftworthError, OSError) as error:
        progress(f"whose answers the run has is not told: {error}")


def _write(found: Sequence[ModelsCheck], answers: Answers, progress: Callable[[str], None]) -> None:
    for check in found:
        nothing = f"{check.variant}: nothing shows that its answers are not the target's"
        progress(check.words or nothing)
    if found and answers.folder and answers.run:
        path = answers.folder / LIKELIHOODS_FILE
        record = Likelihoods(run_id=answers.run.result.run_id, likelihoods=tuple(found))
        path.write_bytes(dump_record(record, indent=2))
        progress(f"written to {path}, which `report` shows")


def _by_target(
    experiment: ResolvedExperiment, run: Run, transcripts: Transcripts, reader: Reader
) -> Iterator[ModelsCheck]:
    check = likelihood_of if run.result.temperature else greedy_likelihood_of
    for variant, outputs in _outputs(experiment, run, transcripts).items():
        # As the server drew them; greedy outputs are read as the model is.
        readings = reader.readings(
            reader.target,
            outputs,
            temperature=run.result.temperature or 1.0,
            fixed_length=experiment.spec.workload.fixed_output_length,
        )
        if found := check(variant, readings):
            yield found


def _by_draft(
    experiment: ResolvedExperiment, run: Run, transcripts: Transcripts, reader: Reader, draft: Path
) -> Iterator[DraftLikelihood]:
    """Of every variant that said something else than the baseline: the same has nothing to tell."""
    fixed = experiment.spec.workload.fixed_output_length
    read = partial(reader.readings, draft, fixed_length=fixed)
    outputs = _outputs(experiment, run, transcripts)
    plain = outputs.pop(run.result.baseline, [])
    others = {name: own for name, own in outputs.items() if _said(own) != _said(plain)}
    baseline = read(plain) if plain and others else []
    for variant, own in others.items():
        yield from draft_likelihoods_of(variant, read(own), baseline, draft=shown(draft))


def _outputs(
    experiment: ResolvedExperiment, run: Run, transcripts: Transcripts
) -> dict[str, list[Output]]:
    """Of each variant that has any."""
    found = {
        variant: outputs_of_variant(run, transcripts, experiment.cases, variant=variant)
        for variant in run.result.variants
    }
    return {variant: outputs for variant, outputs in found.items() if outputs}


def _said(outputs: Sequence[Output]) -> set[tuple[object, ...]]:
    return {(o.prompt_class, o.case, o.prompt_id, o.token_ids or o.text) for o in outputs}
