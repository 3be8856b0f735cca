"""Computes in which steps a run's own outputs could have been yielded, with the run's drafts.

Unlike the predictions (`predictions.py`), which compare a variant with the baseline's outputs, this
replays the draft on the variant's own outputs. So sampled runs are compared too, and in a greedy
run it does not matter whether rounding made the variant's outputs differ from the baseline's.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path

from draftworth.analysis.engine_loss import engine_losses_of
from draftworth.errors import DraftworthError
from draftworth.estimate.model_folders import printed_path
from draftworth.estimate.predictions import (
    checked_with_draft,
    checked_with_ngram,
    could_have_taken,
    ends_with_steps,
)
from draftworth.estimate.prompt_lookup import LookupLengths, Tokenizer, looked_up
from draftworth.estimate.run_teacher_forcing import Reader
from draftworth.estimate.target_outputs import TargetOutputs, all_outputs
from draftworth.metrics.steps import MERGED_CHUNKS_TOLERANCE, StepCounting, step_counting
from draftworth.planning.resolved import ResolvedExperiment
from draftworth.records.allowed_steps import (
    ALLOWED_STEPS_FILE,
    LIMIT_BYTES,
    AllowedSteps,
    RequestSteps,
    VariantSteps,
)
from draftworth.records.codec import dump_record
from draftworth.records.prompt_files import Case
from draftworth.records.readings import Output, Reading, Replayed
from draftworth.records.results import BlockResult, RequestRecord
from draftworth.records.transcripts import Transcript, Transcripts
from draftworth.report.engine_loss_sentences import loss_sentence
from draftworth.safe_writing import write_file

# Where chunks count as steps, the server's counters show at most half as many merged chunks.
_MOST_MERGED = 2 * MERGED_CHUNKS_TOLERANCE


def allowed_by_ngram(
    experiment: ResolvedExperiment, source: TargetOutputs, tokenizer: Tokenizer
) -> Iterator[VariantSteps]:
    """Yield the allowed steps of the variants with n-gram drafting; none if no run has outputs.

    tokenizer: the target's. Errors: see its `token_ids`.
    """
    if source.run is None:
        return
    thinking = experiment.spec.workload.enable_thinking
    for variant, (lengths, checked) in checked_with_ngram(experiment, source.run).items():
        yield allowed_by_lookup(
            source,
            experiment.cases,
            variant,
            tokenizer,
            lengths,
            checked=checked,
            enable_thinking=thinking,
        )


def allowed_by_lookup(
    source: TargetOutputs,
    cases: Iterable[Case],
    variant: str,
    tokenizer: Tokenizer,
    lengths: LookupLengths,
    *,
    checked: int,
    enable_thinking: bool,
) -> VariantSteps:
    """Return the allowed steps of one variant with n-gram drafting, in a run.

    cases: the prompts that were sent. checked: the most drafted tokens that a step checks.
    enable_thinking: a variable of the chat template. Errors: see `token_ids` of the tokenizer.
    """
    outputs = _outputs(cases, source, variant)
    replayed = looked_up(outputs, tokenizer, lengths, enable_thinking=enable_thinking)
    draft = f"n-gram drafting, {lengths} tokens looked up"
    return _variant_steps(source, variant, draft, zip(outputs, replayed, strict=True), checked)


def allowed_by_draft(
    experiment: ResolvedExperiment,
    source: TargetOutputs,
    draft: Path,
    reader: Reader,
    baseline_readings: Sequence[Reading],
) -> Iterator[VariantSteps]:
    """Yield the allowed steps of the variants with the draft model in the folder `draft`.

    baseline_readings: the draft's readings of `source.outputs`. An equal output of a variant is not
    read again, so that greedy runs take hardly longer. DraftworthError: the draft's pass failed.
    """
    if source.run is None:
        return
    read = readings_by_text(source.outputs, baseline_readings)
    for variant, checked in checked_with_draft(experiment, source.run, draft).items():
        outputs = _outputs(experiment.cases, source, variant)
        unread = [*{_text(o): o for o in outputs if _text(o) not in read}.values()]
        if unread:
            read |= readings_by_text(unread, reader.readings(draft, unread))
        replayed = ((output, read[_text(output)]) for output in outputs)
        yield _variant_steps(source, variant, printed_path(draft), replayed, checked)


def readings_by_text(
    outputs: Iterable[Output], readings: Iterable[Reading]
) -> dict[tuple[object, ...], Reading]:
    """Return the readings of outputs by prompt and text; they have an order of their own."""
    texts = {output.id: _text(output) for output in outputs}
    return {texts[reading.id]: reading for reading in readings}


def _outputs(cases: Iterable[Case], source: TargetOutputs, variant: str) -> list[Output]:
    blocks = source.run.blocks if source.run else ()
    return [*all_outputs(blocks, source.transcripts, cases, variant=variant)]


def _text(output: Output) -> tuple[object, ...]:
    return output.prompt_class, output.case, output.prompt_id, output.token_ids or output.text


def _variant_steps(
    source: TargetOutputs,
    variant: str,
    draft: str,
    replayed: Iterable[tuple[Output, Replayed]],
    checked: int,
) -> VariantSteps:
    blocks = [b for b in (source.run.blocks if source.run else ()) if b.variant == variant]
    by_request = {output.id: replay for output, replay in replayed}
    steps = steps_of_requests(blocks, source.transcripts, by_request, checked)
    return VariantSteps(variant=variant, draft=draft, requests=steps)


def steps_of_requests(
    blocks: Sequence[BlockResult],
    transcripts: Transcripts,
    replayed: Mapping[str, Replayed],
    checked: int,
) -> tuple[RequestSteps, ...]:
    """Return the steps that texts and draft allow a variant's requests.

    blocks: the variant's. replayed: the outputs by request id. checked: the most drafted tokens
    that a step checks.
    If the allowed steps are so many that far more chunks would have to be merged than are where
    chunks count as steps, they are another draft's: then no chunk is taken for several steps.
    """
    records = {record.request_id: record for block in blocks for record in block.requests}

    def counted(count: StepCounting | None) -> tuple[RequestSteps, ...]:
        steps = (
            request_steps(records[name], transcripts[name], replay, checked, count)
            for name, replay in replayed.items()
        )
        return tuple(filter(None, steps))

    steps = counted(step_counting(blocks))
    chunks = sum(records[s.request_id].chunks - 1 for s in steps if s.taken_at_least)
    are_merged = sum(s.taken_at_least for s in steps) <= chunks * (1 + _MOST_MERGED)
    return steps if are_merged else counted(None)


def request_steps(
    record: RequestRecord,
    transcript: Transcript,
    replayed: Replayed,
    checked: int,
    count: StepCounting | None,
) -> RequestSteps | None:
    """Return a request's allowed steps, and at which draft positions its own steps differ.

    None if the output has one token, or if its text gives another number of tokens than the server
    counts; only the token that ends an output may be missing, because it has no text.
    replayed: its output. checked: the most drafted tokens that a step checks. count: how the
    variant's steps are counted.
    """
    tokens = replayed.tokens_after_first
    missing = (record.number_output_tokens or 0) - 1 - tokens
    if tokens < 1 or missing not in (0, 1):
        return None
    steps = tuple(replayed.steps(checked))
    chunks = _without_last(transcript.chunk_tokens or (), missing)
    taken = _without_last(_taken(record, transcript, count, checked), missing)
    # Without counts of each request, few chunks are merged (else `step_counting` does not count
    # them), and a step too many mostly shows as a chunk that ends within an allowed step.
    by_chunks = count is not None and count.by == "chunks"
    return RequestSteps(
        request_id=record.request_id,
        tokens=tokens,
        steps=len(steps),
        taken_as_allowed=_as_allowed(steps, record, chunks, checked)
        or (by_chunks and ends_with_steps(chunks, steps)),
        taken_at_least=_steps_in_chunks(chunks, replayed, checked) if by_chunks else 0,
        accepted=_accepted(taken, checked),
        acceptable=_acceptable(replayed, taken, checked),
    )


def _as_allowed(
    steps: tuple[int, ...], record: RequestRecord, chunks: tuple[int, ...], checked: int
) -> bool:
    """Return whether a request can have taken exactly these steps, by its chunks and counts.

    If each step drafted a whole window, the server's number of steps is exact. Then a step in which
    the engine accepted a near tie that the reading model did not is not taken for merged chunks.
    """
    counted = record.verification_steps
    is_exact = counted is not None and record.drafted_tokens == checked * counted
    if is_exact and counted != len(steps):
        return False
    transcript = Transcript(request_id=record.request_id, chunk_tokens=chunks)
    return could_have_taken(steps, record, transcript, checked=checked)


def _steps_in_chunks(chunks: Sequence[int], replayed: Replayed, checked: int) -> int:
    """Return the fewest steps that could have yielded these chunks, each of one or more steps.

    A busy server merges the chunks of several steps. chunks: the numbers of tokens of all chunks.
    """
    steps, yielded, end = 0, 1, 0
    for tokens in chunks:
        end += tokens
        while yielded < end:
            yielded += replayed.step_after(yielded, checked)
            steps += 1
        yielded = end
    return steps


def _without_last(chunks: tuple[int, ...], tokens: int) -> tuple[int, ...]:
    """Return the numbers of tokens of chunks without the last token, if `tokens` is 1, not 0."""
    if not chunks or not tokens:
        return chunks
    return (*chunks[:-1], chunks[-1] - 1) if chunks[-1] > 1 else chunks[:-1]


def _taken(
    record: RequestRecord, transcript: Transcript, count: StepCounting | None, checked: int
) -> tuple[int, ...]:
    """Return the output tokens of each step that a request took; () if its chunks do not show it.

    They do if the prefill's token is a chunk, each other chunk is a step, as their number says, and
    no chunk has more tokens than a step can yield.
    """
    amounts = count.of_request(record) if count and count.by != "counters" else None
    first, *chunks = transcript.chunk_tokens or (0,)
    are_steps = amounts is not None and amounts == (sum(chunks), len(chunks))
    fits = first == 1 and all(1 <= tokens <= checked + 1 for tokens in chunks)
    return tuple(chunks) if are_steps and fits else ()


def _accepted(taken: Sequence[int], checked: int) -> tuple[int, ...]:
    """Return how many steps accept at least 0, 1, ... drafted tokens; () if there is no step."""
    return tuple(sum(step > n for step in taken) for n in range(checked + 1) if taken)


def _acceptable(replayed: Replayed, taken: Sequence[int], checked: int) -> tuple[int, ...]:
    """Return, for each draft position, how many steps reach it and could accept its token.

    The result is () if there is no step. taken: the output tokens of each step.
    """
    before = accumulate(taken[:-1], initial=1)
    pairs = [
        (took, replayed.step_after(n, checked)) for took, n in zip(taken, before, strict=False)
    ]
    return tuple(
        sum(took >= n and able > n for took, able in pairs) for n in range(1, checked + 1) if taken
    )


_NOTHING_COMPARED = (
    "no engine is compared with its own outputs: that takes a variant that the experiment has "
    "under the same name, with its window, whose outputs have as many tokens as its server counted"
)


def keep_allowed_steps(
    allowed: Sequence[VariantSteps], source: TargetOutputs, *, progress: Callable[[str], None]
) -> None:
    """Say what each variant's engine loses, and write the allowed steps into the run's folder.

    The allowed steps of other variants that are there already are kept. Nothing is written for a
    run in S3. Errors go to `progress` only, because the estimate is complete without the file.
    """
    if source.run is None:
        return
    if not allowed:
        if any(variant != source.run.result.baseline for variant in source.run.result.variants):
            progress(_NOTHING_COMPARED)
        return
    variants = {steps.variant for steps in allowed}
    before = (v for record in source.run.allowed_steps for v in record.variants)
    kept = tuple(v for v in before if v.variant not in variants)
    record = AllowedSteps(run_id=source.run.result.run_id, variants=(*kept, *allowed))
    for loss in engine_losses_of(replace(source.run, allowed_steps=(record,))):
        progress(loss_sentence(loss))
    if source.folder is None:
        return
    path = source.folder / ALLOWED_STEPS_FILE
    try:
        write_file(path, checked_size(dump_record(record)))
    except (DraftworthError, OSError) as error:
        progress(f"{path}: the steps that texts and drafts allow are not kept: {error}")
        return
    progress(f"the steps that texts and drafts allow are in {path}, which `report` shows")


def checked_size(data: bytes) -> bytes:
    """Return the content of a file of allowed steps; DraftworthError: nobody would read as much."""
    if len(data) > LIMIT_BYTES:
        raise DraftworthError(f"given {len(data):,} bytes, allowed: {LIMIT_BYTES:,}")
    return data
