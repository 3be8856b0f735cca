"""Counts decoding steps: one rule for every figure of tokens per step and of a step's time.

A step yields one token of the target model and the drafted tokens that it accepts. The prefill
yields an answer's first token, which belongs to no step. The number of steps is taken from the
first of these sources that a server offers:

1. `tokens`: a server that does not speculate yields one token per step.
2. `verification steps`: the server counts the steps of each request (`Acceptance.of_answer`).
3. `chunks` or `counters`: the server counts generated and accepted tokens during a block, but not
   for each request. If the number of streamed chunks agrees with these counters, as in vLLM, each
   chunk is taken as a step. If it does not, because several steps arrive in one chunk or a step's
   tokens in several chunks, the steps are computed from the counters.
4. `chunks`: the server counts nothing, but nothing shows that a chunk is not a step.

Otherwise the number of steps is not known. It is never computed as `accepted tokens / drafts`,
because servers count only steps that had drafted tokens, and n-gram drafting often drafts none.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from draftworth.records.results import BlockResult, RequestRecord, SpeculationCounters
from draftworth.records.step_costs import StepsBy

# The number of chunks agrees with the number of steps if they differ by no more than this share: on
# every machine a few chunks arrive merged.
MERGED_CHUNKS_TOLERANCE = 0.05
# If the drafted tokens are at least this share of (steps x window), steps draft whole windows: only
# the window at the end of an output is cut.
_WHOLE_WINDOWS = 0.9
# If a server that speculates has at most this many tokens per chunk, it may send each token of a
# step in its own chunk.
_TOKEN_BY_TOKEN = 1.01
# A function that returns the number of tokens and of steps that a request adds to a variant's sums;
# None: the request adds nothing, or its steps are unknown.
TokensAndSteps = Callable[[RequestRecord], tuple[float, float] | None]


@dataclass(frozen=True, kw_only=True)
class StepCounting:
    """How a variant's steps are counted in some blocks.

    by: the source of the count: `tokens` (a step yields one token), `verification steps` (the
        server counts the steps of each request), `chunks` (each streamed chunk is taken as a step)
        or `counters` (the server counts only the tokens of a whole block).
    of_request: returns the number of tokens and of steps of a request, both without the answer's
        first token or first chunk; None if the request failed, or if its steps are unknown.
    """

    by: StepsBy
    of_request: TokensAndSteps

    def tokens_per_step(self, record: RequestRecord) -> float | None:
        """Return a request's tokens per step.

        None if the server counts only per block, or if the request's steps are unknown.
        """
        amounts = None if self.by == "counters" else self.of_request(record)
        return amounts[0] / amounts[1] if amounts else None


def step_counting(blocks: Sequence[BlockResult]) -> StepCounting | None:
    """Return how the steps in one variant's blocks are counted.

    The steps of each prompt class are counted separately. If the classes have different sources
    (`StepCounting.by`), the result names `counters`, which knows least of single requests.
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
    return StepCounting(by=by, of_request=lambda record: of_requests[record.request_id](record))


def _of_class(blocks: Sequence[BlockResult]) -> StepCounting | None:
    accepted = sum(block.speculation.accepted_tokens for block in blocks if block.speculation)
    if {block.max_tokens_per_step for block in blocks} == {1} and not accepted:
        return StepCounting(by="tokens", of_request=_as_tokens)
    if _has_counts_per_request(blocks, accepted):
        return StepCounting(by="verification steps", of_request=_as_verification_steps)
    bounds = [_StepBounds.of(block) for block in blocks]
    by_block = [each for each in bounds if each is not None]
    if by_block and not _chunks_are_steps(by_block):
        return _by_counters(blocks, by_block) if len(by_block) == len(blocks) else None
    if by_block or _may_be_steps(blocks):
        return StepCounting(by="chunks", of_request=_as_chunks)
    return None


def _has_counts_per_request(blocks: Sequence[BlockResult], accepted: int) -> bool:
    """Return whether the server counts the steps of each request, and these counts can be right.

    The counts are wrong if no request has drafted tokens although the server's counters show
    accepted ones, or if a mean step yields more tokens than a step can. The latter happens with
    llama.cpp: it also counts drafted tokens that it accepted after an output's end, and too few
    steps follow from too many accepted tokens.
    accepted: the number of accepted tokens by the server's counters.
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
    """Return one variant's mean tokens per step; None: steps are unknown, or there was none."""
    count = step_counting(blocks)
    amounts = list(_amounts(blocks, count.of_request)) if count else []
    steps = math.fsum(steps for _, steps in amounts)
    return math.fsum(tokens for tokens, _ in amounts) / steps if steps else None


def tokens_per_chunk(blocks: Sequence[BlockResult]) -> float | None:
    """Return the mean tokens per streamed chunk, without the first chunk of each answer.

    None if no answer has a second chunk, or if the server counts no tokens.
    """
    amounts = list(_amounts(blocks, _as_chunks))
    chunks = math.fsum(chunks for _, chunks in amounts)
    return math.fsum(tokens for tokens, _ in amounts) / chunks if chunks else None


def draft_whole_windows(blocks: Sequence[BlockResult], most: int | None) -> bool:
    """Return whether nearly every step drafts a whole window; with n-gram drafting many do not.

    If steps draft fewer tokens, the acceptance rate cannot be estimated from the tokens per step.
    The result is True if the server does not count its drafted tokens.
    most: the most tokens that a step can yield; None: not known, and the result is True.
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
    """Bounds of the number of steps in a block, computed from its server's counters.

    The counters include warm-up requests, and fillers, which keep the load complete while the last
    measured requests run.

    tokens: number of generated tokens without each request's first token.
    least, most: bounds of the number of steps. Each step yields one token that is no accepted
        drafted token, so steps = tokens - accepted tokens. But the server also counts drafted
        tokens that it accepted after an output's end, at most one window for each request.
    chunks: number of chunks, estimated from the tokens per chunk of the measured requests.
    """

    tokens: float
    least: float
    most: float
    chunks: float

    @classmethod
    def of(cls, block: BlockResult) -> "_StepBounds | None":
        """Return how many steps a block has at least and at most, by its server's counters.

        None: the counters are missing or contradict each other.
        """
        counters = block.speculation
        if counters is None or counters.generated_tokens is None:
            return None
        per_chunk = tokens_per_chunk([block])
        if per_chunk is None:
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
    # Every chunk has one token, and drafted tokens were accepted. Then each token of a step has a
    # chunk of its own, so that chunks are no steps, unless all accepted tokens lay after the
    # outputs' ends.
    one_by_one = tokens <= chunks * _TOKEN_BY_TOKEN
    if one_by_one and least * (1 + MERGED_CHUNKS_TOLERANCE) < tokens:
        return False
    return least <= chunks * (1 + MERGED_CHUNKS_TOLERANCE) and chunks <= most * (
        1 + MERGED_CHUNKS_TOLERANCE
    )


def _by_counters(blocks: Sequence[BlockResult], bounds: Sequence[_StepBounds]) -> StepCounting:
    """Return a count that estimates a request's steps from the tokens per step of its block.

    bounds: the bounds of each block's number of steps, in the order of the blocks.
    """
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

    return StepCounting(by="counters", of_request=of_request)


def _may_be_steps(blocks: Sequence[BlockResult]) -> bool:
    """Return whether each chunk may be one step, judged by the mean tokens per chunk.

    A chunk is no step if it has more tokens than a step can yield. Nor is it taken as one if the
    server speculates and its chunks have one token each: the server may send each token of a step
    in its own chunk, as llama.cpp does.
    """
    per_chunk = tokens_per_chunk(blocks)
    most = [block.max_tokens_per_step for block in blocks if block.max_tokens_per_step]
    if per_chunk is None or (most and per_chunk > max(most) * (1 + MERGED_CHUNKS_TOLERANCE)):
        return False
    accepted = sum(block.speculation.accepted_tokens for block in blocks if block.speculation)
    speculates = bool(accepted) or any(each > 1 for each in most)
    return not speculates or per_chunk > _TOKEN_BY_TOKEN
