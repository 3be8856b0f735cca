"""Counts decoding steps: one rule for every figure of tokens per step and of a step's time.

A step yields one token of the target model and the drafted tokens that it accepts. The prefill
yields an answer's first token, which belongs to no step. In this order, the first source counts:

1. `tokens`: a server that does not speculate yields one token per step.
2. `verification steps`: the server counts the steps of each request (`Acceptance.of_answer`).
3. `chunks` or `counters`: the server counts generated and accepted tokens during a block, but not
   for each request. Chunks count as steps if they agree with the counters, as in vLLM; a chunk then
   is a step. If several steps arrive in one chunk, or a step's tokens in several chunks, the
   counters count.
4. `chunks`, if nothing shows that a chunk is not a step.

Else steps are not known. In particular `accepted tokens / drafts` is no source: servers count only
steps that had drafted tokens, and n-gram drafting often drafts none.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from draftworth.records.results import BlockResult, RequestRecord, SpeculationCounters
from draftworth.records.step_costs import StepsBy

# Chunks agree with the counters up to this factor: on every machine a few chunks arrive merged.
MERGED_CHUNKS_TOLERANCE = 0.05
# The least share of the drafts in whole windows. At the end of an output a window may be cut.
_WHOLE_WINDOWS = 0.9
# A server with at most this many tokens per chunk may send each token of a step in its own chunk.
_TOKEN_BY_TOKEN = 1.01
# Returns what a request adds to (tokens, steps); None: it adds nothing, or its steps are unknown.
TokensAndSteps = Callable[[RequestRecord], tuple[float, float] | None]


@dataclass(frozen=True, kw_only=True)
class StepCount:
    """How a variant's steps are counted in some blocks.

    by: the source of the count. of_request: returns the tokens and steps of a request that counts,
    both after the answer's first token or first chunk.
    """

    by: StepsBy
    of_request: TokensAndSteps

    def tokens_per_step(self, record: RequestRecord) -> float | None:
        """Return a request's tokens per step; None if only whole blocks have counts."""
        amounts = None if self.by == "counters" else self.of_request(record)
        return amounts[0] / amounts[1] if amounts else None


def step_count(blocks: Sequence[BlockResult]) -> StepCount | None:
    """Return how the steps in one variant's blocks are counted, class by class.

    None: there is no block, or the steps of a class are not known.
    """
    classes: defaultdict[str, list[BlockResult]] = defaultdict(list)
    for block in blocks:
        classes[block.prompt_class].append(block)
    counts = {name: count for name, of_class in classes.items() if (count := _of_class(of_class))}
    if not classes or len(counts) < len(classes):
        return None
    if len(counts) == 1:
        return next(iter(counts.values()))
    of_requests: dict[str, TokensAndSteps] = {
        record.request_id: count.of_request
        for name, count in counts.items()
        for block in classes[name]
        for record in block.requests
    }
    sources = {count.by for count in counts.values()}
    by = sources.pop() if len(sources) == 1 else "counters"
    return StepCount(by=by, of_request=lambda record: of_requests[record.request_id](record))


def _of_class(blocks: Sequence[BlockResult]) -> StepCount | None:
    accepted = sum(block.speculation.accepted_tokens for block in blocks if block.speculation)
    if {block.max_tokens_per_step for block in blocks} == {1} and not accepted:
        return StepCount(by="tokens", of_request=_as_tokens)
    if _has_counts_per_request(blocks, accepted):
        return StepCount(by="verification steps", of_request=_as_verification_steps)
    bounds = [_StepBounds.of(block) for block in blocks]
    by_block = [each for each in bounds if each is not None]
    if by_block and not _chunks_are_steps(by_block):
        return _by_counters(blocks, by_block) if len(by_block) == len(blocks) else None
    if by_block or _may_be_steps(blocks):
        return StepCount(by="chunks", of_request=_as_chunks)
    return None


def _has_counts_per_request(blocks: Sequence[BlockResult], accepted: int) -> bool:
    """Return whether the server counts the steps of each request, and the counts can be right.

    The counts are wrong if no request has drafts although the server's counters show `accepted`
    tokens, or if steps yield more tokens than they can: llama.cpp also counts drafts that it
    accepted after an output's end.
    """
    counting = [record for block in blocks for record in block.requests if record.counts]
    if not counting or any(record.verification_steps is None for record in counting):
        return False
    if accepted and all(record.drafted_tokens == 0 for record in counting):
        return False
    amounts = list(_amounts(blocks, _as_verification_steps))
    tokens, steps = (math.fsum(side) for side in zip(*amounts, strict=True)) if amounts else (0, 0)
    most = [block.max_tokens_per_step for block in blocks if block.max_tokens_per_step]
    can_yield = max(most, default=0)
    return can_yield < 2 or tokens <= can_yield * steps


def tokens_per_step(blocks: Sequence[BlockResult]) -> float | None:
    """Return the tokens of all steps / number of steps; None: not known, or there was no step."""
    count = step_count(blocks)
    amounts = list(_amounts(blocks, count.of_request)) if count else []
    steps = math.fsum(steps for _, steps in amounts)
    return math.fsum(tokens for tokens, _ in amounts) / steps if steps else None


def tokens_per_chunk(blocks: Sequence[BlockResult]) -> float | None:
    """Return the tokens per chunk, without each answer's first chunk; None: there is no other."""
    amounts = list(_amounts(blocks, _as_chunks))
    chunks = math.fsum(chunks for _, chunks in amounts)
    return math.fsum(tokens for tokens, _ in amounts) / chunks if chunks else None


def draft_whole_windows(blocks: Sequence[BlockResult], most: int | None) -> bool:
    """Return whether steps draft whole windows; with n-gram drafting, for example, they do not.

    If they do not, tokens per step do not show acceptance. The result is True if the server does
    not count its drafts. most: the most tokens that a step can yield.
    """
    done = [r for b in blocks for r in b.requests if not r.failed and r.drafted_tokens is not None]
    drafted = float(sum(record.drafted_tokens or 0 for record in done))
    steps = float(sum(record.verification_steps or 0 for record in done))
    if not done:
        counted = [(b.speculation, s) for b in blocks if (s := _StepBounds.of(b)) and b.speculation]
        drafted = float(sum(counters.draft_tokens for counters, _ in counted))
        steps = math.fsum(bounds.least for _, bounds in counted)
    return drafted >= _WHOLE_WINDOWS * steps * ((most or 1) - 1)


def _amounts(
    blocks: Iterable[BlockResult], of_request: TokensAndSteps
) -> Iterator[tuple[float, float]]:
    for block in blocks:
        yield from filter(None, map(of_request, block.requests))


def _as_tokens(record: RequestRecord) -> tuple[float, float] | None:
    tokens = _tokens_after_first_chunk(record)
    return (tokens, tokens) if tokens else None


def _as_verification_steps(record: RequestRecord) -> tuple[float, float] | None:
    if not record.counts or not record.verification_steps or not record.number_output_tokens:
        return None
    return record.number_output_tokens - 1.0, float(record.verification_steps)


def _as_chunks(record: RequestRecord) -> tuple[float, float] | None:
    tokens = _tokens_after_first_chunk(record)
    return (tokens, record.chunks - 1.0) if tokens and record.chunks > 1 else None


def _tokens_after_first_chunk(record: RequestRecord) -> float | None:
    tokens, first = record.number_output_tokens, record.first_chunk_tokens
    if not record.counts or tokens is None or first is None or tokens <= first:
        return None
    return float(tokens - first)


@dataclass(frozen=True, kw_only=True)
class _StepBounds:
    """The steps of a block as its server's counters show them, warm-up and fillers included.

    tokens: generated tokens without each request's first token.
    least, most: bounds of the number of steps. Each step has one token that is no accepted draft,
        so steps = tokens - accepted drafts; but the server also counts drafts that it accepted
        after an output's end, at most one window for each request.
    chunks: the number of chunks, estimated from the tokens per chunk of the measured requests.
    """

    tokens: float
    least: float
    most: float
    chunks: float

    @classmethod
    def of(cls, block: BlockResult) -> "_StepBounds | None":
        """Return the bounds of a block; None: the server has no counters, or impossible ones."""
        counters, per_chunk = block.speculation, tokens_per_chunk([block])
        if counters is None or counters.generated_tokens is None or per_chunk is None:
            return None
        requests = len(block.requests) + block.warmup_requests + block.fillers
        tokens = counters.generated_tokens - requests
        not_drafted = tokens - counters.accepted_tokens
        least = max(counters.drafts, not_drafted)
        if not 0 < least <= tokens:
            return None
        return cls(
            tokens=tokens,
            least=least,
            most=max(least, not_drafted + requests * _window(counters)),
            chunks=tokens / per_chunk,
        )


def _window(counters: SpeculationCounters) -> int:
    return math.ceil(counters.draft_tokens / counters.drafts) if counters.drafts else 0


def _chunks_are_steps(blocks: Sequence[_StepBounds]) -> bool:
    tokens, chunks, least, most = (
        math.fsum(getattr(block, name) for block in blocks)
        for name in ("tokens", "chunks", "least", "most")
    )
    # If drafts were accepted although every chunk has one token, either each token of a step has
    # its own chunk, or all these drafts were accepted after the outputs' ends.
    one_by_one = tokens <= chunks * _TOKEN_BY_TOKEN
    if one_by_one and least * (1 + MERGED_CHUNKS_TOLERANCE) < tokens:
        return False
    return least <= chunks * (1 + MERGED_CHUNKS_TOLERANCE) and chunks <= most * (
        1 + MERGED_CHUNKS_TOLERANCE
    )


def _by_counters(blocks: Sequence[BlockResult], bounds: Sequence[_StepBounds]) -> StepCount:
    """Count a request's steps by the tokens per step of its block."""
    steps_per_token: Mapping[str, float] = {
        record.request_id: each.least / each.tokens
        for block, each in zip(blocks, bounds, strict=True)
        for record in block.requests
    }

    def of_request(record: RequestRecord) -> tuple[float, float] | None:
        if not record.counts or not record.number_output_tokens:
            return None
        tokens = record.number_output_tokens - 1.0
        return (tokens, tokens * steps_per_token[record.request_id]) if tokens else None

    return StepCount(by="counters", of_request=of_request)


def _may_be_steps(blocks: Sequence[BlockResult]) -> bool:
    """Return whether each chunk may be one step, as far as the tokens per chunk show.

    They show the opposite if a chunk has more tokens than a step can yield. If a server speculates
    and its chunks have one token each, it may send each token of a step in its own chunk, as
    llama.cpp does.
    """
    per_chunk = tokens_per_chunk(blocks)
    most = [block.max_tokens_per_step for block in blocks if block.max_tokens_per_step]
    if per_chunk is None or (most and per_chunk > max(most) * (1 + MERGED_CHUNKS_TOLERANCE)):
        return False
    accepted = sum(block.speculation.accepted_tokens for block in blocks if block.speculation)
    speculates = bool(accepted) or any(each > 1 for each in most)
    return not speculates or per_chunk > _TOKEN_BY_TOKEN
