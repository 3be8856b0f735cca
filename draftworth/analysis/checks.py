"""Checks a variant's figures against the server's own figures and against arithmetic.

Where two independent sources of a figure do not agree, the report says so and chooses neither.

The acceptance rate is accepted / drafted tokens. If a step yields at most m tokens
(`MethodFacts.max_tokens_per_step`), it checks m - 1 drafted tokens, and the check itself yields one
token more. So tokens per step = 1 + acceptance rate x (m - 1) (Leviathan et al. 2023, "Fast
Inference from Transformers via Speculative Decoding", where the rate is over all checked drafted
tokens).
"""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from draftworth.metrics.steps import MERGED_CHUNKS_TOLERANCE, StepCounting
from draftworth.records.results import BlockResult, RequestRecord
from draftworth.speculation import explained_acceptance

# The client's and the server's mean ITL agree up to this relative difference: the client's includes
# the network, and leaves out all tokens of the first chunk, while vLLM's leaves out one token.
SERVER_TOLERANCE = 0.10
# Acceptance rates (0 to 1) of two sources agree up to this difference: the last step of an output
# is cut short, which makes a rate that is estimated from tokens per step a little too low.
ACCEPTANCE_TOLERANCE = 0.05


@dataclass(frozen=True, kw_only=True)
class ServerCheck:
    """The mean ITL of the same requests, measured by the client and by the server.

    ours_s: seconds per token by the client. server_s: seconds per token by the server's histogram.
    """

    requests: int
    ours_s: float
    server_s: float

    @property
    def difference(self) -> float:
        return self.ours_s / self.server_s - 1

    @property
    def agrees(self) -> bool:
        return abs(self.difference) <= SERVER_TOLERANCE


def server_check(blocks: Iterable[BlockResult]) -> ServerCheck | None:
    """Compare the mean ITL by the client with that by the server's histogram.

    Only blocks in which both timed the same number of requests are compared; None if there are
    none. The server's sums contain all requests, so the client's sums here also include warm-up
    requests, requests whose timing cannot be trusted, and fillers, which keep the load complete
    while the last measured requests run.
    """
    requests = 0
    ours_sum_s = server_sum_s = 0.0
    for block in blocks:
        values = [
            r.inter_token_latency_s for r in block.requests if r.inter_token_latency_s is not None
        ]
        count = len(values) + block.others.inter_token_latency_count
        if block.server and block.server.time_per_output_token_count == count > 0:
            requests += count
            ours_sum_s += sum(values) + block.others.inter_token_latency_sum_s
            server_sum_s += block.server.time_per_output_token_sum_s
    if server_sum_s <= 0:
        return None
    return ServerCheck(
        requests=requests, ours_s=ours_sum_s / requests, server_s=server_sum_s / requests
    )


@dataclass(frozen=True, kw_only=True)
class AcceptanceCheck:
    """A variant's acceptance rate (0 to 1) from several sources; None: the source does not know it.

    counted: the rate by the server's counters; if there are no counters, equal to `by_requests`.
    tokens_per_step: mean tokens per step, from which the rate is estimated.
    most: the most tokens that a step can yield (1 without speculation); None: not known.
    by_requests: the rate by the counts that the server sends with each answer.
    tokens_per_chunk: mean tokens per streamed chunk; equal to `tokens_per_step` if a chunk is a
        step.
    whole_windows: whether nearly every step drafts a whole window; with n-gram drafting many do
        not.
    """

    counted: float | None
    tokens_per_step: float | None
    most: int | None
    by_requests: float | None = None
    tokens_per_chunk: float | None = None
    whole_windows: bool = True

    @property
    def estimated(self) -> float | None:
        if not self.whole_windows:
            return None
        return explained_acceptance(self.tokens_per_step, most=self.most)

    @property
    def agrees(self) -> bool | None:
        return _agree(self.counted, self.estimated)

    @property
    def requests_agree(self) -> bool | None:
        return _agree(self.counted, self.by_requests)

    @property
    def merged(self) -> bool:
        """Return whether a streamed chunk holds several steps, by the mean tokens per chunk.

        It does if a mean chunk has more tokens than a mean step, or than a step can yield.
        """
        tokens = self.tokens_per_chunk
        steps = [count for count in (self.most, self.tokens_per_step) if count]
        if tokens is None or not steps:
            return False
        return tokens > min(steps) * (1 + MERGED_CHUNKS_TOLERANCE)

    @property
    def split(self) -> bool:
        """Return whether a step arrives in several streamed chunks, by the mean tokens per chunk.

        llama.cpp, for example, sends each token in a chunk of its own. Then the time between two
        chunks is not the time of a step.
        """
        if self.tokens_per_chunk is None or self.tokens_per_step is None:
            return False
        return self.tokens_per_chunk * (1 + MERGED_CHUNKS_TOLERANCE) < self.tokens_per_step


def _agree(one: float | None, other: float | None) -> bool | None:
    if one is None or other is None:
        return None
    return abs(one - other) <= ACCEPTANCE_TOLERANCE


def acceptance_by_position(blocks: Iterable[BlockResult]) -> tuple[float, ...]:
    """Return, for n = 1, 2, ..., the share of steps with drafts that accepted drafted token n.

    Shares are from 0 to 1, by the server's counters; empty if the server has none.
    """
    counters = [b.speculation for b in blocks if b.speculation]
    drafts = sum(c.drafts for c in counters)
    accepted = zip_longest(*(c.accepted_per_position for c in counters), fillvalue=0)
    return tuple(sum(position) / drafts for position in accepted) if drafts else ()


@dataclass(frozen=True, kw_only=True)
class BreakEven:
    """A variant's tokens per step, and how many it needs to decode as cheaply as the baseline.

    step_s: the median over requests of a request's mean step time, in seconds.
    baseline_itl_s: the baseline's median ITL, in seconds per token.
    share: what the variant's server costs / what the baseline's server costs.
    most: the most tokens that a step can yield; None: not known.
    """

    step_s: float
    tokens_per_step: float
    baseline_itl_s: float
    share: float
    most: int | None

    @property
    def needed(self) -> float:
        return self.share * self.step_s / self.baseline_itl_s

    @property
    def predicted_speedup(self) -> float:
        return self.tokens_per_step * self.baseline_itl_s / self.step_s


def break_even(
    records: Sequence[RequestRecord],
    count: StepCounting | None,
    acceptance: AcceptanceCheck,
    *,
    baseline_itl_s: float | None,
    share: float,
) -> BreakEven | None:
    """Return how many tokens per step a variant needs to decode as cheaply as the baseline.

    None if an ITL or the tokens per step were not measured. A request's mean step time is its ITL x
    its tokens per step, by the definitions of both.
    records: the variant's requests. count: how its steps are counted; None: they are not known.
    acceptance: has the variant's mean tokens per step.
    baseline_itl_s: the baseline's median ITL, in seconds per token.
    share: what the variant's server costs / what the baseline's server costs.
    """
    amounts = [(r, count.of_request(r)) for r in records] if count else []
    step_times_s = [
        record.inter_token_latency_s * tokens_and_steps[0] / tokens_and_steps[1]
        for record, tokens_and_steps in amounts
        if tokens_and_steps and record.inter_token_latency_s
    ]
    if not step_times_s or acceptance.tokens_per_step is None or not baseline_itl_s:
        return None
    step_s = statistics.median(step_times_s)
    return BreakEven(
        step_s=step_s,
        tokens_per_step=acceptance.tokens_per_step,
        baseline_itl_s=baseline_itl_s,
        share=share,
        most=acceptance.most,
    )
