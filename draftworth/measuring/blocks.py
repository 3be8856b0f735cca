"""One block: its requests, the server's own view, and whether the server is still the same."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from draftworth.measuring.client import Client, Measured
from draftworth.measuring.clock import WallClock
from draftworth.measuring.counters import (
    Reading,
    read_metrics,
    restarted,
    server_start,
    speculation_between,
    timings_between,
)
from draftworth.measuring.history import BlockKey
from draftworth.measuring.load import Batch, LoadEngine, Planned
from draftworth.measuring.readiness import READY, Readiness
from draftworth.measuring.request import max_tokens_of, request_seed
from draftworth.measuring.rounds import Round
from draftworth.measuring.run_specification import Endpoint, RequestShape, RunSpec
from draftworth.measuring.scheduling import EventLoopLag
from draftworth.records.prompts import Case, Prompt
from draftworth.records.results import BlockResult, OtherRequests, ServerStart


@dataclass(frozen=True, kw_only=True)
class Sent:
    """A block that was sent. `lost` says why its figures count for nothing; empty: they count.

    start: what its server says of its own start.
    """

    block: BlockResult
    measured: Sequence[Measured]
    lost: str
    start: ServerStart | None


@dataclass(frozen=True, kw_only=True)
class CaseRound:
    """A case's part of a round: every variant of its stage is measured in it once."""

    case: Case
    turn: Round

    def key(self, endpoint: Endpoint) -> BlockKey:
        """The key of the block for one variant."""
        case, turn = self.case, self.turn
        return BlockKey(turn.load, turn.number, case.prompt_class, case.name, endpoint.variant)


@dataclass(frozen=True, kw_only=True)
class BlockSender:
    """Sends blocks to servers."""

    spec: RunSpec
    run_id: str
    api_key: str | None
    make_client: Callable[..., Client]
    engine: LoadEngine
    readiness: Readiness
    wall_clock: WallClock

    async def send(self, case_round: CaseRound, endpoint: Endpoint, *, number: int) -> Sent:
        """Send one block; `number` is its own in the run."""
        shape = self.spec.shape
        turn = case_round.turn
        client = self.make_client(base_url=endpoint.base_url, shape=shape, api_key=self.api_key)
        batch = self._batch(case_round, number)
        before = await read_metrics(endpoint.base_url, api_key=self.api_key)
        started_at_unix_s = self.wall_clock()
        with EventLoopLag() as lag:
            seed = shape.seed + turn.number
            outcome = await self.engine.send(client, batch, turn.load, seed=seed)
        ended_at_unix_s = self.wall_clock()
        after = await read_metrics(endpoint.base_url, api_key=self.api_key)
        block = BlockResult(
            **case_round.key(endpoint)._asdict(),
            run_id=self.run_id,
            experiment=self.spec.experiment,
            repetition=turn.stage.repetition,
            slot=endpoint.slot,
            block=number,
            model=shape.model,
            started_at_unix_s=started_at_unix_s,
            ended_at_unix_s=ended_at_unix_s,
            warmup_requests=len(batch.warmup),
            fillers=outcome.fillers,
            others=_latencies(outcome.others),
            max_tokens_per_step=endpoint.max_tokens_per_step,
            speculation=speculation_between(before, after),
            server=timings_between(before, after),
            event_loop_lag_s=lag.longest_s,
            requests=tuple(m.record for m in outcome.measured),
        )
        lost = await self._why_lost(endpoint, block, before, after)
        start = server_start(after)
        return Sent(block=block, measured=outcome.measured, lost=lost, start=start)

    async def _why_lost(
        self, endpoint: Endpoint, block: BlockResult, before: Reading, after: Reading
    ) -> str:
        """Why a block with failed requests counts for nothing: its server is not there any more.

        Empty for a server that is: requests that fail there are failures, with their reasons.
        """
        if not any(record.failed for record in block.requests):
            return ""
        health = await self.readiness.health(endpoint)
        if health != READY:
            return f"{endpoint.variant} is not ready any more: {health}; {first_error(block)}"
        if restarted(before, after):
            return f"{endpoint.variant} restarted during the block; {first_error(block)}"
        return ""

    def _batch(self, case_round: CaseRound, number: int) -> Batch:
        """The case's prompts in turn: each round measures on where the last one ended.

        The warm-up has the ones before, the fillers those that follow: as far as there are so many,
        a server with a prefix cache does not know what is measured.
        """
        sampling, shape = self.spec.sampling, self.spec.shape
        measured = sampling.requests_per_round
        first = (case_round.turn.number - 1) * measured

        def planned(index: int, name: str, place: int, share: float = 1.0) -> Planned:
            prompts = case_round.case.prompts
            chosen = prompts[place % len(prompts)]
            return Planned(
                request_id=f"{self.run_id}/{number:04d}-{name}{index:05d}",
                prompt=chosen if share == 1.0 else _shortened(shape, chosen, share),
                seed=request_seed(shape, place),
            )

        shares = case_round.turn.load.warmup_shares(sampling.warmup_requests)
        return Batch(
            warmup=[
                planned(i, "warmup-", first - len(shares) + i, share)
                for i, share in enumerate(shares)
            ],
            measured=[planned(i, "", first + i) for i in range(measured)],
            fillers=(planned(i, "filler-", first + measured + i) for i in itertools.count()),
        )


def _shortened(shape: RequestShape, prompt: Prompt, share: float) -> Prompt:
    """A part of its output. Of fewer than two tokens neither side has a time per token."""
    tokens = max_tokens_of(shape, prompt)
    return replace(prompt, max_tokens=min(tokens, max(2, math.ceil(tokens * share))))


def _latencies(others: Sequence[Measured]) -> OtherRequests:
    known = [m.record.inter_token_latency_s for m in others]
    values = [value for value in known if value is not None]
    return OtherRequests(
        inter_token_latency_sum_s=sum(values), inter_token_latency_count=len(values)
    )


def first_error(block: BlockResult) -> str:
    """Code and message of a block's first failure, cut to a line."""
    failed = next(r for r in block.requests if r.failed)
    return f"{failed.error_code}: {' '.join(failed.error_msg.split())[:200]}"


def describe(block: BlockResult) -> str:
    """A block in one line: what it was, and its figures or failures."""
    counted = [r for r in block.requests if r.counts]
    latencies = sorted(r.inter_token_latency_s for r in counted if r.inter_token_latency_s)
    middle = f"{latencies[len(latencies) // 2] * 1e3:.2f} ms/token" if latencies else "no figures"
    failed = sum(r.failed for r in block.requests)
    excluded = sum(r.excluded is not None for r in block.requests)
    notes = [f"{failed} failed: {first_error(block)}"] if failed else []
    notes += [f"{excluded} excluded"] * bool(excluded)
    suffix = f" ({', '.join(notes)})" if notes else ""
    return f"{block.prompt_class}/{block.case} {block.load.label} {block.variant}: {middle}{suffix}"
