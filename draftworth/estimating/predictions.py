"""What a pass over the baseline's outputs predicted, beside what the speculative servers did."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from draftworth.records.likelihoods import Prediction
from draftworth.records.reading import Run
from draftworth.records.readings import Reading
from draftworth.records.results import RequestRecord
from draftworth.records.transcripts import Transcripts
from draftworth.speculation import steps_of


def predictions_of(
    run: Run, transcripts: Transcripts, readings: Sequence[Reading], checked: Mapping[str, int]
) -> Iterator[Prediction]:
    """Variant by variant, class by class.

    Prompts that were made longer or shorter for a load have other outputs, and are left out.

    checked: the variants whose draft made the readings, with the drafts that a step of theirs
        checks.
    """
    read = {(r.prompt_class, r.case, r.prompt_id): r for r in readings}
    for variant, number in checked.items():
        classes = dict.fromkeys(b.prompt_class for b in run.blocks if b.variant == variant)
        for prompt_class in classes:
            pairs = [
                (record, read[place])
                for block in run.blocks
                if (block.variant, block.prompt_class) == (variant, prompt_class)
                and block.load.input_tokens is None
                for record in block.requests
                if record.counts and (place := (prompt_class, block.case, record.prompt_id)) in read
            ]
            if found := _prediction(pairs, transcripts, variant, prompt_class, number):
                yield found


def _prediction(
    pairs: Sequence[tuple[RequestRecord, Reading]],
    transcripts: Transcripts,
    variant: str,
    prompt_class: str,
    checked: int,
) -> Prediction | None:
    """Sums over requests of tokens and of steps, by whoever counts the steps."""
    tokens = steps = same = shown = 0
    predicted_steps = 0.0
    for record, reading in pairs:
        transcript = transcripts.get(record.request_id)
        chunks = transcript.chunk_tokens[1:] if transcript and transcript.chunk_tokens else ()
        counted = record.verification_steps or len(chunks)
        if not counted or not record.number_output_tokens or not reading.hits:
            continue
        predicted = tuple(steps_of(reading.flags, checked=checked))
        # The first token is the prefill's.
        tokens += record.number_output_tokens - 1
        steps += counted
        # An output that was cut elsewhere than the one that was read has another number of tokens.
        predicted_steps += len(predicted) * (record.number_output_tokens - 1) / len(reading.hits)
        if len(chunks) == counted:
            shown += 1
            same += chunks == predicted
    if not steps or not predicted_steps:
        return None
    return Prediction(
        variant=variant,
        prompt_class=prompt_class,
        requests=len(pairs),
        predicted=tokens / predicted_steps,
        measured=tokens / steps,
        shown=shown,
        same_sequence=same,
    )
