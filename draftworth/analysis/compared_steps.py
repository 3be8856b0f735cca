"""Puts the steps that each request took beside the fewest that yield its output with its draft."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from draftworth.analysis.clustering import Sample
from draftworth.analysis.pairing import samples_of
from draftworth.analysis.ratios import LogRatio, log_of_sums
from draftworth.analysis.summary import groups_of
from draftworth.metrics.steps import step_counting
from draftworth.records.allowed_steps import AllowedSteps, RequestSteps
from draftworth.records.load_shapes import Load
from draftworth.records.results import BlockResult, RequestRecord

# A loss of at most this share (0 to 1) counts as none: the model that reads the outputs rounds
# differently than the engine, and some outputs are tokenized again.
MARGIN = 0.01


@dataclass(frozen=True, kw_only=True)
class ComparedRequest:
    """A request with its allowed steps, and the number of steps that it took for the same tokens.

    sample: a `Sample` without a value, which names the request's clusters. Each request counts as a
        block: its text decides the steps, and a right engine takes the same ones at any time.
    is_first: whether it was sent in the first round of its load after a start of the servers.
    """

    sample: Sample
    block: BlockResult
    record: RequestRecord
    is_first: bool
    allowed: RequestSteps
    taken: float

    @property
    def context_tokens(self) -> float | None:
        """The mean context length of the request's steps; None: input tokens are not counted."""
        prompt = self.record.number_input_tokens
        return None if prompt is None else prompt + self.allowed.tokens / 2


def compared_requests(
    blocks: Iterable[BlockResult], variant: str, records: Iterable[AllowedSteps]
) -> Iterator[ComparedRequest]:
    """Yield the requests of a variant whose allowed steps and whose taken steps are known."""
    of_variant = [block for block in blocks if block.variant == variant]
    count, allowed = step_counting(of_variant), _by_request(records, variant)
    first = _first_rounds(of_variant)
    for block, sample, record in _placed(of_variant, variant):
        steps = allowed.get((block.run_id, record.request_id))
        amounts = count.of_request(record) if count else None
        if steps and amounts:
            # The counted steps may yield other tokens than the allowed ones: not all of the first
            # chunk's, or one more that ends the output and has no text.
            counted = max(amounts[1] * steps.tokens / amounts[0], steps.taken_at_least)
            yield ComparedRequest(
                sample=sample._replace(block=f"{block.run_id}/{record.request_id}"),
                block=block,
                record=record,
                is_first=block.round == first[block.run_id, block.repetition, block.load],
                allowed=steps,
                taken=steps.steps if steps.taken_as_allowed else counted,
            )


def _placed(
    blocks: Sequence[BlockResult], variant: str
) -> Iterator[tuple[BlockResult, Sample, RequestRecord]]:
    for group in groups_of(blocks):
        of_requests = [b for b in group.blocks(blocks, variant) for _ in b.requests]
        samples = samples_of(blocks, group, variant)
        for block, (sample, record) in zip(of_requests, samples, strict=True):
            yield block, sample, record


def _by_request(
    records: Iterable[AllowedSteps], variant: str
) -> Mapping[tuple[str, str], RequestSteps]:
    return {
        (record.run_id, steps.request_id): steps
        for record in records
        for of_variant in record.variants
        if of_variant.variant == variant
        for steps in of_variant.requests
    }


def _first_rounds(blocks: Iterable[BlockResult]) -> Mapping[tuple[str, int, Load], int]:
    """Return the number of the first round, by run id, repetition and load."""
    first: dict[tuple[str, int, Load], int] = {}
    for block in blocks:
        start = block.run_id, block.repetition, block.load
        first[start] = min(block.round, first.get(start, block.round))
    return first


def log_taken_to_allowed(requests: Iterable[ComparedRequest]) -> LogRatio | None:
    """Return the logarithm of (tokens per step taken / allowed); None without requests."""
    return log_of_sums(
        [(request.sample, request) for request in requests],
        # Both sides have the same tokens, so the ratio of the tokens per step is that of the steps.
        lambda request: (float(request.allowed.steps), request.taken),
    )


def tokens_per_step(requests: Sequence[ComparedRequest]) -> tuple[float, float]:
    """Return the requests' mean tokens per step: (allowed, taken)."""
    tokens = sum(request.allowed.tokens for request in requests)
    allowed = sum(request.allowed.steps for request in requests)
    return tokens / allowed, tokens / math.fsum(request.taken for request in requests)
