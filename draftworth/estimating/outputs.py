"""The target's own outputs, of a run or of a log, beside what they answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from draftworth.errors import UserInputError
from draftworth.records.prompts import Case, Prompt
from draftworth.records.reading import Run
from draftworth.records.readings import Output
from draftworth.records.results import BlockResult
from draftworth.records.transcripts import Transcripts


def outputs_of_run(run: Run, transcripts: Transcripts, cases: Iterable[Case]) -> list[Output]:
    """What the baseline of a run answered: of greedy requests of one prompt, the first.

    Raises:
        UserInputError: no answer is to a prompt of these cases.
    """
    asked = {(c.prompt_class, c.name, p.id): p for c in cases for p in c.prompts}
    found: dict[tuple[str, str, str], Output] = {}
    for block, transcript_id, prompt_id in _answered(run, run.result.baseline):
        place = (block.prompt_class, block.case, prompt_id)
        transcript = transcripts.get(transcript_id)
        if transcript is None or place not in asked or place in found:
            continue
        found[place] = Output(
            id="/".join(place),
            prompt_class=block.prompt_class,
            case=block.case,
            prompt_id=prompt_id,
            asked=asked_of(asked[place]),
            text=transcript.text,
            token_ids=transcript.token_ids,
        )
    if not found:
        raise UserInputError(
            f"run {run.result.run_id}: none of its baseline's answers is to a prompt of this "
            "experiment, or its transcripts are missing; allowed: a run of the same prompts, with "
            "its .transcript.jsonl.gz files"
        )
    return list(found.values())


def sampled_outputs(
    run: Run, transcripts: Transcripts, cases: Iterable[Case], *, variant: str
) -> list[Output]:
    """Everything that a variant of a run answered; each was drawn for itself."""
    asked = {(c.prompt_class, c.name, p.id): p for c in cases for p in c.prompts}
    return [
        Output(
            id=request_id,
            prompt_class=block.prompt_class,
            case=block.case,
            prompt_id=prompt_id,
            asked=asked_of(asked[block.prompt_class, block.case, prompt_id]),
            text=transcripts[request_id].text,
            token_ids=transcripts[request_id].token_ids,
        )
        for block, request_id, prompt_id in _answered(run, variant)
        if request_id in transcripts and (block.prompt_class, block.case, prompt_id) in asked
    ]


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


def asked_of(prompt: Prompt) -> dict[str, Any]:
    """What the chat template gets, or the text that is continued."""
    if prompt.text_to_continue is not None:
        return {"prompt": prompt.text_to_continue}
    tools = {"tools": prompt.tools} if prompt.tools else {}
    return {"messages": prompt.messages, **tools}


def _answered(run: Run, variant: str) -> Iterator[tuple[BlockResult, str, str]]:
    for block in run.blocks:
        # Prompts that were made longer or shorter for a load are not those of the cases.
        if block.variant == variant and block.load.input_tokens is None:
            for record in block.requests:
                if not record.failed:
                    yield block, record.request_id, record.prompt_id
