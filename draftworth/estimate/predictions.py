"""Predicts a run's tokens per step from its baseline's outputs, and compares with measured ones."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path

from draftworth.errors import DraftworthError
from draftworth.estimate.prompt_lookup import LookupLengths, looked_up
from draftworth.estimate.run_teacher_forcing import Reader
from draftworth.estimate.run_tokenizing import TargetTokenizer
from draftworth.estimate.target_outputs import TargetOutputs, read_target_outputs
from draftworth.experiment.catalog import catalog
from draftworth.experiment.model import beside
from draftworth.metrics.steps import StepCounting, step_counting
from draftworth.planning.resolved import ResolvedExperiment, ResolvedLocal
from draftworth.records import likelihoods
from draftworth.records.codec import dump_record
from draftworth.records.readings import Reading, Replayed
from draftworth.records.results import RequestRecord
from draftworth.records.run_folder import Run
from draftworth.records.transcripts import Transcript, Transcripts
from draftworth.safe_writing import write_file


def predict(
    experiment: ResolvedLocal, run_folder: Path, reader: Reader
) -> tuple[likelihoods.Prediction, ...]:
    """Return the predicted and measured tokens per step of a run's variants.

    reader: runs the draft models over the run's outputs. DraftworthError: these outputs are
    missing, or a model's pass over them failed.
    """
    source = read_target_outputs(experiment, run_folder)
    by_ngram = compare_ngram(experiment, source, TargetTokenizer(reader.target))
    by_draft = (
        prediction
        for draft in draft_folders(experiment)
        for prediction in compare(experiment, source, draft, reader.readings(draft, source.outputs))
    )
    return (*by_ngram, *by_draft)


def draft_folders(experiment: ResolvedLocal) -> list[Path]:
    """Return the folders of the experiment's draft models, each once; EAGLE heads are left out."""
    methods = catalog().methods
    drafts = (
        variant.draft
        for variant in experiment.variants
        if variant.draft and not methods[variant.spec.method].refuses_estimate
    )
    return list(dict.fromkeys(beside(experiment.path, draft) for draft in drafts))


def compare(
    experiment: ResolvedExperiment, source: TargetOutputs, draft: Path, readings: Sequence[Reading]
) -> Iterator[likelihoods.Prediction]:
    """Yield predicted and measured tokens per step of the variants with the draft model `draft`.

    draft: the model's folder. readings: for each output in `source`, which of the output's tokens
    the draft model would have chosen. Nothing is yielded if the outputs are not from a greedy run.
    """
    if (run := source.greedy_run) is None:
        return
    checked = checked_with_draft(experiment, run, draft)
    yield from predictions_of(run, source.transcripts, readings, checked)


def checked_with_draft(experiment: ResolvedExperiment, run: Run, draft: Path) -> dict[str, int]:
    """Return, by variant with the draft model `draft`, how many drafted tokens a step checks.

    draft: the model's folder.
    """
    return {
        variant.name: most - 1
        for variant in experiment.variants
        if variant.draft
        and not variant.spec.hub_draft
        and beside(experiment.path, variant.draft) == Path(os.path.realpath(draft))
        and (most := run.result.max_tokens_per_step.get(variant.name))
    }


def compare_ngram(
    experiment: ResolvedExperiment, source: TargetOutputs, tokenizer: TargetTokenizer
) -> Iterator[likelihoods.Prediction]:
    """Yield predicted and measured tokens per step of the variants with n-gram drafting.

    tokenizer: the target's. Nothing is yielded if the outputs (`source`) are not from a greedy run.
    """
    if (run := source.greedy_run) is None:
        return
    lookups = checked_with_ngram(experiment, run)
    if not lookups:
        return
    shortest = looked_up(
        source.outputs,
        tokenizer,
        min(lengths for lengths, _ in lookups.values()),
        enable_thinking=experiment.spec.workload.enable_thinking,
    )
    for name, (lengths, checked) in lookups.items():
        replayed = [replace(output, lengths=lengths) for output in shortest]
        yield from predictions_of(run, source.transcripts, replayed, {name: checked})


def checked_with_ngram(
    experiment: ResolvedExperiment, run: Run
) -> dict[str, tuple[LookupLengths, int]]:
    """Return, by variant with n-gram drafting, its lookup lengths and how many drafts it checks."""
    return {
        variant.name: (LookupLengths(*both), most - 1)
        for variant in experiment.variants
        if (both := variant.spec.lookup_lengths)
        and (most := run.result.max_tokens_per_step.get(variant.name))
    }


def predictions_of(
    run: Run, transcripts: Transcripts, outputs: Sequence[Replayed], checked: Mapping[str, int]
) -> Iterator[likelihoods.Prediction]:
    """Yield the predicted and measured tokens per step of each variant in each prompt class.

    If a load changes the lengths of prompts, its requests are left out, because the outputs to
    changed prompts differ from the outputs to the original ones.

    outputs: the baseline's outputs, each with the steps in which the variants' draft would yield
        it. The variants are compared with these predicted steps.
    checked: by the name of each variant to compare, how many drafted tokens its steps check.
    """
    read = {(o.prompt_class, o.case, o.prompt_id): o for o in outputs}
    for variant, number in checked.items():
        classes = dict.fromkeys(b.prompt_class for b in run.blocks if b.variant == variant)
        for prompt_class in classes:
            blocks = [
                block
                for block in run.blocks
                if (block.variant, block.prompt_class) == (variant, prompt_class)
                and block.load.input_tokens is None
            ]
            pairs = [
                (record, read[place])
                for block in blocks
                for record in block.requests
                if record.counts and (place := (prompt_class, block.case, record.prompt_id)) in read
            ]
            if count := step_counting(blocks):
                yield from _prediction(
                    pairs, count, transcripts, variant, prompt_class, checked=number
                )


def _prediction(
    pairs: Sequence[tuple[RequestRecord, Replayed]],
    count: StepCounting,
    transcripts: Transcripts,
    variant: str,
    prompt_class: str,
    *,
    checked: int,
) -> Iterator[likelihoods.Prediction]:
    """Yield the predicted and measured tokens per step of a variant in one prompt class.

    Nothing is yielded if no request's steps are known.
    pairs: each request of the variant, with the baseline's output to the same prompt and the steps
    in which the variant's draft would yield that output. count: how the variant's measured steps
    are counted. checked: the most drafted tokens that a step checks.
    """
    tokens = steps = predicted_steps = 0.0
    same = comparable = 0
    for record, output in pairs:
        amounts = count.of_request(record)
        if not amounts or not output.tokens_after_first:
            continue
        predicted = tuple(output.steps(checked))
        tokens, steps = tokens + amounts[0], steps + amounts[1]
        # The baseline's output can have another length than the request's, so the number of
        # predicted steps is scaled by the ratio of the two lengths.
        predicted_steps += len(predicted) * amounts[0] / output.tokens_after_first
        transcript = transcripts.get(record.request_id)
        chunks = transcript.chunk_tokens[1:] if transcript and transcript.chunk_tokens else ()
        if transcript and len(chunks) == amounts[1]:
            comparable += 1
            same += could_have_taken(predicted, record, transcript, checked=checked)
    if not steps or not predicted_steps:
        return
    yield likelihoods.Prediction(
        variant=variant,
        prompt_class=prompt_class,
        requests=len(pairs),
        predicted=tokens / predicted_steps,
        measured=tokens / steps,
        shown=comparable,
        same_sequence=same,
    )


def could_have_taken(
    steps: tuple[int, ...], record: RequestRecord, transcript: Transcript, *, checked: int
) -> bool:
    """Return whether a request can have taken exactly these steps after its first token.

    steps: the predicted number of output tokens of each step. record, transcript: the request as
        measured, with the numbers of tokens of its streamed chunks.
    checked: the most drafted tokens that a step checks.

    A busy server sends the tokens of several steps in one chunk of the stream, but never those of
    one step in two chunks. So each chunk must have the tokens of one or more consecutive steps. If
    a chunk has those of several, many predictions agree with the chunks, so the request's counts
    of steps and of accepted tokens must agree too.
    """
    chunks = transcript.chunk_tokens or ()
    if chunks == (1, *steps):
        return True
    return ends_with_steps(chunks, steps) and _counts_agree(steps, record, checked)


def ends_with_steps(chunks: tuple[int, ...], steps: tuple[int, ...]) -> bool:
    """Return whether each chunk has the tokens of one or more consecutive steps.

    chunks, steps: numbers of tokens; the first chunk also has the token that the prefill yields.
    """
    ends_of_steps, ends_of_chunks = (list(accumulate(each)) for each in ((1, *steps), chunks))
    same_end = ends_of_chunks[-1:] == ends_of_steps[-1:]
    return same_end and set(ends_of_chunks) <= set(ends_of_steps)


def _counts_agree(steps: tuple[int, ...], record: RequestRecord, checked: int) -> bool:
    """Return whether the server's counts of steps and of accepted tokens allow these steps.

    They need not be equal, because the server also counts drafted tokens that the last step
    accepted beyond the output's end. If, moreover, several steps arrived in one chunk, the
    request's `verification_steps` is only the least possible number of steps.
    steps: the output tokens of each step. checked: the most drafted tokens that a step checks.
    """
    if record.verification_steps is None or record.accepted_tokens is None:
        return False
    in_output, before_last_step = (sum(part) - len(part) for part in (steps, steps[:-1]))
    return (
        record.verification_steps <= len(steps)
        and in_output <= record.accepted_tokens <= before_last_step + checked
    )


def keep_predictions(
    predicted: Sequence[likelihoods.Prediction],
    source: TargetOutputs,
    *,
    progress: Callable[[str], None],
) -> None:
    """Write predicted tokens per step into the folder of the run that they were compared with.

    Earlier predictions there are replaced if they are of the same variants. Nothing is written if
    the outputs in `source` are not from a run in a local folder. Errors go to `progress` only,
    because the estimate is complete without the file.
    """
    if not predicted or source.folder is None or source.run is None:
        return
    run_id, path = source.run.result.run_id, source.folder / likelihoods.PREDICTIONS_FILE
    variants = {prediction.variant for prediction in predicted}
    try:
        of_other_variants = [
            p
            for p in likelihoods.read_predictions(source.folder, run_id)
            if p.variant not in variants
        ]
        record = likelihoods.Predictions(
            run_id=run_id, predictions=(*of_other_variants, *predicted)
        )
        write_file(path, dump_record(record, indent=2))
    except (DraftworthError, OSError) as error:
        progress(f"{path}: predictions are not kept: {error}")
        return
    progress(f"predictions are in {path}, which `report` shows")
