"""What a variant answered, beside what it was asked: for drafts to read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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
    """What a variant answered greedily: of requests of one prompt, the first."""
    asked = {(c.prompt_class, c.name, p.id): p for c in cases for p in c.prompts}
    found: dict[tuple[str, str, str], Output] = {}
    for block, transcript_id, prompt_id in answered(blocks, variant):
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
    return list(found.values())


def asked_of(prompt: Prompt) -> dict[str, Any]:
    """What the chat template gets, or the text that is continued."""
    if prompt.text_to_continue is not None:
        return {"prompt": prompt.text_to_continue}
    tools = {"tools": prompt.tools} if prompt.tools else {}
    return {"messages": prompt.messages, **tools}


def answered(blocks: Iterable[BlockResult], variant: str) -> Iterator[tuple[BlockResult, str, str]]:
    """Block, id and prompt of each request that has an answer to a prompt as it is."""
    for block in blocks:
        # Prompts that were made longer or shorter for a load are not those of the cases.
        if block.variant == variant and block.load.input_tokens is None:
            for record in block.requests:
                if not record.failed:
                    yield block, record.request_id, record.prompt_id
