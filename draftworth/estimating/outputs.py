"""The target's own outputs, of a run or of a log, beside what they answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from draftworth.analysis.answered_prompts import all_outputs, asked_of, outputs_of_blocks
from draftworth.errors import UserInputError
from draftworth.records.prompts import Case
from draftworth.records.reading import Run
from draftworth.records.readings import Output, Reading
from draftworth.records.transcripts import Transcripts


def outputs_of_run(run: Run, transcripts: Transcripts, cases: Iterable[Case]) -> list[Output]:
    """What the baseline of a run answered: of greedy requests of one prompt, the first.

    Raises:
        UserInputError: no answer is to a prompt of these cases as it is.
    """
    _check_has_prompts_as_they_are(run)
    found = outputs_of_blocks(run.blocks, transcripts, cases, variant=run.result.baseline)
    if not found:
        raise UserInputError(
            f"run {run.result.run_id}: none of its baseline's answers is to a prompt of this "
            "experiment, or its transcripts are missing; allowed: a run of the same prompts, with "
            "its .transcript.jsonl.gz files"
        )
    return found


def outputs_of_variant(
    run: Run, transcripts: Transcripts, cases: Iterable[Case], *, variant: str
) -> list[Output]:
    """What a variant of a run answered: all that was sampled, as each was drawn for itself; of
    greedy requests of one prompt, the first."""
    read = all_outputs if run.result.temperature else outputs_of_blocks
    return list(read(run.blocks, transcripts, cases, variant=variant))


def outputs_of_log(case: Case, answers: Mapping[str, str]) -> Iterator[Output]:
    """What a log has for the prompts of a case; a prompt without an answer has none."""
    for prompt in case.prompts:
        if text := answers.get(prompt.id):
            yield Output(
                id=f"{case.prompt_class}/{case.name}/{prompt.id}",
                prompt_class=case.prompt_class,
                case=case.name,
                prompt_id=prompt.id,
                asked=asked_of(prompt),
                text=text,
            )


def check_classes(classes: Iterable[str], outputs: Sequence[Output]) -> None:
    """Raise UserInputError where a class of the traffic has no output."""
    known = {output.prompt_class for output in outputs}
    if missing := [name for name in classes if name not in known]:
        raise UserInputError(
            f"no outputs of {_class_words(missing)}: the answers are missing (of a run, its "
            f".transcript.jsonl.gz files), or are to other prompts; {_WHOLE_TRAFFIC}; next: give "
            f"answers of every class, or {_LEAVE_OUT}"
        )


def check_lengths(classes: Iterable[str], readings: Sequence[Reading]) -> None:
    """Raise UserInputError where a class of the traffic has no output of two tokens or more."""
    known = {reading.prompt_class for reading in readings if reading.hits}
    if short := [name for name in classes if name not in known]:
        raise UserInputError(
            f"outputs of {_class_words(short)}: given: none longer than one token, allowed: two or "
            f"more, because tokens a step are counted after the first; {_WHOLE_TRAFFIC}; next: "
            f"give longer answers, or {_LEAVE_OUT}"
        )


_WHOLE_TRAFFIC = "a forecast without them would be of other traffic"
_LEAVE_OUT = "leave the class out of the experiment file (workload.classes)"


def _class_words(names: Sequence[str]) -> str:
    return f"{'classes' if len(names) > 1 else 'class'} {', '.join(names)}"


def _check_has_prompts_as_they_are(run: Run) -> None:
    """Prompts that were made longer or shorter for a load are kept nowhere."""
    lengths = {b.load.input_tokens for b in run.blocks if b.variant == run.result.baseline}
    if lengths and None not in lengths:
        shown = ", ".join(f"{length:,}" for length in sorted(n for n in lengths if n))
        raise UserInputError(
            f"run {run.result.run_id}: every prompt was made longer or shorter for its load "
            f"(input_tokens of {shown}), and such prompts are not kept; allowed: a run with "
            "prompts as they are; next: measure with a load without `input_tokens`, and give that "
            "run"
        )
