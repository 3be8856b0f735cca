"""The outputs of a variant with their prompts, for draft models to read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from draftworth.records.prompts import Case, Prompt
from draftworth.records.readings import Output
from draftworth.records.results import BlockResult
from draftworth.records.transcripts import Transcripts


def outputs_of_blocks(
    blocks: Iterable[BlockResult],
    transcripts: Transcripts,
    cases: Iterable[Case],
    *,
    variant: str,
) -> list[Output]:
    """Return a variant's greedy outputs: of several requests of one prompt, the first."""
    found: dict[str, Output] = {}
    for output in all_outputs(blocks, transcripts, cases, variant=variant):
        place = "/".join((output.prompt_class, output.case, output.prompt_id))
        if place not in found:
            found[place] = replace(output, id=place)
    return list(found.values())


def all_outputs(
    blocks: Iterable[BlockResult],
    transcripts: Transcripts,
    cases: Iterable[Case],
    *,
    variant: str,
) -> Iterator[Output]:
    """Yield the output of every request of a variant, as sampled outputs differ."""
    asked = {(c.prompt_class, c.name, p.id): p for c in cases for p in c.prompts}
    for block, request_id, prompt_id in _answered(blocks, variant):
        place = (block.prompt_class, block.case, prompt_id)
        transcript = transcripts.get(request_id)
        if transcript is not None and place in asked:
            yield Output(
                id=request_id,
                prompt_class=block.prompt_class,
                case=block.case,
                prompt_id=prompt_id,
                asked=asked_of(asked[place]),
                text=transcript.text,
                token_ids=transcript.token_ids,
            )


def asked_of(prompt: Prompt) -> dict[str, Any]:
    """Return the input of the chat template, or the text that is continued."""
    if prompt.text_to_continue is not None:
        return {"prompt": prompt.text_to_continue}
    tools = {"tools": prompt.tools} if prompt.tools else {}
    return {"messages": prompt.messages, **tools}


def _answered(
    blocks: Iterable[BlockResult], variant: str
) -> Iterator[tuple[BlockResult, str, str]]:
    """Yield block, id and prompt of each request that has an output of an unchanged prompt."""
    for block in blocks:
        # Prompts that were made longer or shorter for a load are not those of the cases.
        if block.variant == variant and block.load.input_tokens is None:
            for record in block.requests:
                if not record.failed:
                    yield block, record.request_id, record.prompt_id
