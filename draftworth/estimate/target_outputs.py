"""Finds the target's outputs: in a run, in a folder of answers, or beside the prompts."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from draftworth.errors import UserInputError
from draftworth.experiment.model import beside
from draftworth.planning.resolved import ResolvedExperiment
from draftworth.planning.specify_run import serving_facts
from draftworth.records.prompt_files import CASE_SUFFIX, Case, Prompt, answers_path, load_answers
from draftworth.records.readings import Output, Replayed
from draftworth.records.results import RUN_FILE, BlockResult
from draftworth.records.run_folder import Run, read_run
from draftworth.records.transcripts import Transcripts, read_transcripts


@dataclass(frozen=True, kw_only=True)
class TargetOutputs:
    """The target's outputs, and the run that produced them; `run` is None if no run did.

    folder: the run's folder, into which results are written; None: there is no run, or it is in S3.
    transcripts: those of the run's requests, by request id.
    """

    outputs: Sequence[Output]
    run: Run | None = None
    folder: Path | None = None
    transcripts: Transcripts = field(default_factory=dict)

    @property
    def greedy_run(self) -> Run | None:
        """The run if it was greedy; else None, because sampled outputs differ between variants."""
        return self.run if self.run and not self.run.result.temperature else None


def read_target_outputs(experiment: ResolvedExperiment, folder: Path | None) -> TargetOutputs:
    """Return the outputs in `folder`: those of a run, or answers in files CLASS/CASE.jsonl.

    Without `folder`, return the answers that `prompts import` kept beside the prompts. Raises
    UserInputError if there are no outputs, or if another model than the target made them.
    """
    if folder is None:
        return TargetOutputs(outputs=_outputs_beside_prompts(experiment))
    if _is_answers_folder(folder):
        return TargetOutputs(outputs=_outputs_of_log(experiment, folder, lambda path: path))
    if not os.path.lexists(folder):
        raise UserInputError(
            f"--answers: given {folder}, where nothing is; allowed: the folder of a run, "
            "s3://BUCKET/PREFIX of one, or a folder with CLASS/CASE.jsonl of lines {id, text}"
        )
    run = read_run(folder)
    _check_target(experiment, run)
    transcripts = read_transcripts(folder, run.blocks)
    outputs = outputs_of_run(run, transcripts, experiment.cases)
    return TargetOutputs(outputs=outputs, run=run, folder=folder, transcripts=transcripts)


def _is_answers_folder(folder: Path) -> bool:
    return (
        folder.is_dir()
        and not os.path.lexists(folder / RUN_FILE)
        and any(folder.glob(f"*/*{CASE_SUFFIX}"))
    )


def _outputs_beside_prompts(experiment: ResolvedExperiment) -> list[Output]:
    prompts = beside(experiment.path, experiment.spec.workload.prompts_dir)
    outputs = _outputs_of_log(experiment, prompts, answers_path)
    if not outputs:
        raise UserInputError(
            f"{experiment.path}: no answers lie beside its prompts; next: --answers RUN with a run "
            "of this experiment, or `draftworth prompts import`, which keeps the answers "
            "of a log"
        )
    return outputs


def _outputs_of_log(
    experiment: ResolvedExperiment, root: Path, answers_of: Callable[[Path], Path]
) -> list[Output]:
    outputs = []
    for case in experiment.cases:
        path = answers_of(root / case.prompt_class / f"{case.name}{CASE_SUFFIX}")
        if os.path.lexists(path):
            texts = load_answers(path, [prompt.id for prompt in case.prompts])
            outputs += [
                Output(
                    id=f"{case.prompt_class}/{case.name}/{prompt.id}",
                    prompt_class=case.prompt_class,
                    case=case.name,
                    prompt_id=prompt.id,
                    asked=prompt_content(prompt),
                    text=texts[prompt.id],
                )
                for prompt in case.prompts
                if texts.get(prompt.id)
            ]
    return outputs


def _check_target(experiment: ResolvedExperiment, run: Run) -> None:
    # A local model is compared by the name of its folder, because paths differ between machines.
    theirs, ours = run.result.serving, serving_facts(experiment)
    if theirs is None:
        return
    actual, expected = theirs.target_model, ours.target_model
    if "local" in (theirs.platform, ours.platform):
        actual, expected = (os.path.basename(os.path.normpath(name)) for name in (actual, expected))
    if actual != expected:
        raise UserInputError(
            f"--answers: run {run.result.run_id}: given: outputs of {theirs.target_model}, "
            f"allowed: of {ours.target_model}, the experiment's target, because another model's "
            "text says nothing of what this one accepts; next: a run with this target, or the "
            "experiment of that run"
        )


def outputs_of_run(run: Run, transcripts: Transcripts, cases: Iterable[Case]) -> list[Output]:
    """Return the baseline's first output to each prompt of `cases`.

    UserInputError: there is no output, or the run changed the length of every prompt.
    """
    _check_has_prompts_as_they_are(run)
    outputs = outputs_of_blocks(run.blocks, transcripts, cases, variant=run.result.baseline)
    if not outputs:
        raise UserInputError(
            f"run {run.result.run_id}: none of its baseline's answers is to a prompt of this "
            "experiment, or its transcripts are missing; allowed: a run of the same prompts, with "
            "its .transcript.jsonl.gz files"
        )
    return outputs


def _check_has_prompts_as_they_are(run: Run) -> None:
    lengths = {b.load.input_tokens for b in run.blocks if b.variant == run.result.baseline}
    if lengths and None not in lengths:
        printed = ", ".join(f"{length:,}" for length in sorted(n for n in lengths if n))
        raise UserInputError(
            f"run {run.result.run_id}: every prompt was made longer or shorter for its load "
            f"(input_tokens of {printed}), and such prompts are not kept; allowed: a run with "
            "prompts as they are; next: measure with a load without `input_tokens`, and give that "
            "run"
        )


def outputs_of_blocks(
    blocks: Iterable[BlockResult], transcripts: Transcripts, cases: Iterable[Case], *, variant: str
) -> list[Output]:
    """Return, of the outputs that `all_outputs` yields, the first one to each prompt."""
    first_outputs: dict[str, Output] = {}
    for output in all_outputs(blocks, transcripts, cases, variant=variant):
        place = "/".join((output.prompt_class, output.case, output.prompt_id))
        if place not in first_outputs:
            first_outputs[place] = replace(output, id=place)
    return list(first_outputs.values())


def all_outputs(
    blocks: Iterable[BlockResult], transcripts: Transcripts, cases: Iterable[Case], *, variant: str
) -> Iterator[Output]:
    """Yield a variant's outputs that have a transcript, to prompts sent exactly as in `cases`."""
    prompts = {(c.prompt_class, c.name, p.id): p for c in cases for p in c.prompts}
    # A load with `input_tokens` makes prompts longer or shorter, so they differ from the cases'.
    unchanged = (b for b in blocks if b.variant == variant and b.load.input_tokens is None)
    for block, request in ((b, r) for b in unchanged for r in b.requests if not r.failed):
        prompt = prompts.get((block.prompt_class, block.case, request.prompt_id))
        transcript = transcripts.get(request.request_id)
        if transcript is not None and prompt is not None:
            yield Output(
                id=request.request_id,
                prompt_class=block.prompt_class,
                case=block.case,
                prompt_id=prompt.id,
                asked=prompt_content(prompt),
                text=transcript.text,
                token_ids=transcript.token_ids,
            )


def prompt_content(prompt: Prompt) -> dict[str, Any]:
    """Return what a prompt asks, by key: its messages and tools, or the text to continue.

    Messages and tools go through the model's chat template; a text to continue does not.
    """
    if prompt.text_to_continue is not None:
        return {"prompt": prompt.text_to_continue}
    tools = {"tools": prompt.tools} if prompt.tools else {}
    return {"messages": prompt.messages, **tools}


_WHOLE_TRAFFIC = "a forecast without them would be of other traffic"
_LEAVE_OUT = "leave the class out of the experiment file (workload.classes)"


def check_classes(classes: Iterable[str], outputs: Sequence[Output]) -> None:
    """Raise UserInputError if one of these classes has no output."""
    with_output = {output.prompt_class for output in outputs}
    if missing := [name for name in classes if name not in with_output]:
        raise UserInputError(
            f"no outputs of {_class_words(missing)}: the answers are missing (of a run, its "
            f".transcript.jsonl.gz files), or are to other prompts; {_WHOLE_TRAFFIC}; next: give "
            f"answers of every class, or {_LEAVE_OUT}"
        )


def check_lengths(classes: Iterable[str], replayed: Sequence[Replayed]) -> None:
    """Raise UserInputError if one of these classes has no output of two tokens or more.

    The prefill yields the first token of an output, so an output of one token has no step.
    """
    long_enough = {output.prompt_class for output in replayed if output.tokens_after_first}
    if short := [name for name in classes if name not in long_enough]:
        raise UserInputError(
            f"outputs of {_class_words(short)}: given: none longer than one token, allowed: two or "
            f"more, because tokens per step are counted after the first; {_WHOLE_TRAFFIC}; next: "
            f"give longer answers, or {_LEAVE_OUT}"
        )


def _class_words(names: Sequence[str]) -> str:
    return f"{'class' if len(names) == 1 else 'classes'} {', '.join(names)}"
