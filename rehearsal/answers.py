"""The outputs that `estimate` reads: of a past run, of a folder, or of a log beside the prompts."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from draftworth.cli.runs import S3_SCHEME, local_run
from draftworth.errors import UserInputError
from draftworth.estimating.outputs import outputs_of_log, outputs_of_run
from draftworth.experiment.model import beside
from draftworth.planning.resolved import ResolvedExperiment
from draftworth.planning.run_specification import serving_facts
from draftworth.records.prompts import CASE_SUFFIX, answers_path, load_answers
from draftworth.records.reading import Run, read_run
from draftworth.records.readings import Output
from draftworth.records.results import RUN_FILE
from draftworth.records.transcripts import Transcripts, read_transcripts


@dataclass(frozen=True, kw_only=True)
class Answers:
    """The outputs to be read, and the run that they are from, if they are of one.

    folder: of the run, where that is on this machine.
    """

    outputs: Sequence[Output]
    run: Run | None = None
    folder: Path | None = None
    transcripts: Transcripts = field(default_factory=dict)


def answers_of(experiment: ResolvedExperiment, place: str | None) -> Answers:
    """Those of a run, or of a folder `CLASS/CASE.jsonl`; without a place those beside the prompts.

    Raises:
        UserInputError: there are none, or they are another model's.
    """
    if place is not None and _is_answers_folder(Path(place)):
        return Answers(outputs=list(_in_folder(experiment, Path(place))))
    if place is not None:
        if not place.startswith(S3_SCHEME) and not os.path.lexists(place):
            raise UserInputError(
                f"--answers: given {place}, where nothing is; allowed: the folder of a run, "
                "s3://BUCKET/PREFIX of one, or a folder with CLASS/CASE.jsonl of lines {id, text}"
            )
        with local_run(place) as folder:
            found = read_run(folder)
            _check_target(experiment, found)
            transcripts = read_transcripts(folder, found.blocks)
            outputs = outputs_of_run(found, transcripts, experiment.cases)
            here = Path(place) if Path(place).is_dir() else None
            return Answers(outputs=outputs, run=found, folder=here, transcripts=transcripts)
    outputs = list(_logged(experiment))
    if not outputs:
        raise UserInputError(
            f"{experiment.path}: no answers lie beside its prompts; next: --answers RUN with a run "
            "of this experiment, or `python -m draftworth prompts import`, which keeps the answers "
            "of a log"
        )
    return Answers(outputs=outputs)


def _is_answers_folder(folder: Path) -> bool:
    return (
        folder.is_dir()
        and not os.path.lexists(folder / RUN_FILE)
        and any(folder.glob(f"*/*{CASE_SUFFIX}"))
    )


def _in_folder(experiment: ResolvedExperiment, folder: Path) -> Iterator[Output]:
    for case in experiment.cases:
        path = folder / case.prompt_class / f"{case.name}{CASE_SUFFIX}"
        if os.path.lexists(path):
            known = load_answers(path, [prompt.id for prompt in case.prompts])
            yield from outputs_of_log(case, known)


def _check_target(experiment: ResolvedExperiment, run: Run) -> None:
    """The run says what answered; folders are known by their names, as each file has its own way.

    Raises:
        UserInputError: it is another model than the experiment's.
    """
    theirs, ours = run.result.serving, serving_facts(experiment)
    if theirs is None:
        return
    given, allowed = theirs.target_model, ours.target_model
    if "local" in (theirs.platform, ours.platform):
        given, allowed = (os.path.basename(os.path.normpath(name)) for name in (given, allowed))
    if given != allowed:
        raise UserInputError(
            f"--answers: run {run.result.run_id}: given: outputs of {theirs.target_model}, "
            f"allowed: of {ours.target_model}, the experiment's target, because another model's "
            "text says nothing of what this one accepts; next: a run with this target, or the "
            "experiment of that run"
        )


def _logged(experiment: ResolvedExperiment) -> Iterator[Output]:
    root = beside(experiment.path, experiment.spec.workload.prompts_dir)
    for case in experiment.cases:
        path = answers_path(root / case.prompt_class / f"{case.name}{CASE_SUFFIX}")
        if os.path.lexists(path):
            known = load_answers(path, [prompt.id for prompt in case.prompts])
            yield from outputs_of_log(case, known)
