"""Sends each block's requests and writes its result files; repeats a block if a server was lost."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from draftworth.errors import DraftworthError
from draftworth.measuring import server_counters
from draftworth.measuring.batches import BatchPlan
from draftworth.measuring.gates import LOAD, AnswerGates, gate_error
from draftworth.measuring.journal import BlockKey, Journal, subject_of, times_lost
from draftworth.measuring.prompt_lengths import ContextCases
from draftworth.measuring.result_files import RunFiles, in_thread
from draftworth.measuring.run_specification import Endpoint, RunSpec
from draftworth.measuring.schedule import PlannedBlocks, Round, Stage, first_stage
from draftworth.measuring.server_lifecycle import READY, Environment, StageServers, health
from draftworth.measuring.streamed_request import Measured
from draftworth.records.prompt_files import Case
from draftworth.records.results import (
    MAX_ANSWERING_MODELS,
    BlockResult,
    OtherRequests,
    ServerStart,
)


@dataclass(frozen=True, kw_only=True)
class Sent:
    """A block whose requests were sent.

    measured: records and transcripts of its measured requests.
    lost: why the server was lost during the block; empty if the server still runs.
    start: how long the server's last start took, by its metrics; None if it has no such metrics.
    """

    block: BlockResult
    measured: Sequence[Measured]
    lost: str
    start: ServerStart | None


@dataclass(frozen=True, kw_only=True)
class CaseRound:
    """One case in one round, in which each measured variant gets one block of the case's requests.

    turn: the round, with its load and the variants that are measured.
    """

    case: Case
    turn: Round

    def key(self, endpoint: Endpoint) -> BlockKey:
        case, turn = self.case, self.turn
        return BlockKey(turn.load, turn.number, case.prompt_class, case.name, endpoint.variant)


def _distinct(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name in names if name))[:MAX_ANSWERING_MODELS]


def first_error(block: BlockResult) -> str:
    """Return error code and message of a block's first failed request, cut to one line."""
    failed = next(r for r in block.requests if r.failed)
    return f"{failed.error_code}: {' '.join(failed.error_msg.split())[:200]}"


def describe(block: BlockResult) -> str:
    """Return a line about a block: its median ITL, and its failed and excluded requests."""
    counted = [r for r in block.requests if r.counts]
    latencies = sorted(r.inter_token_latency_s for r in counted if r.inter_token_latency_s)
    middle = f"{latencies[len(latencies) // 2] * 1e3:.2f} ms/token" if latencies else "no figures"
    failed = sum(r.failed for r in block.requests)
    excluded = sum(r.excluded is not None for r in block.requests)
    notes = []
    if failed:
        notes.append(f"{failed} failed: {first_error(block)}")
    if excluded:
        notes.append(f"{excluded} excluded")
    suffix = f" ({', '.join(notes)})" if notes else ""
    return (
        f"{block.prompt_class}/{block.case}, {block.load.cell}, {block.variant}: {middle}{suffix}"
    )


# If servers are lost this often in the same block, the block itself may make them fail.
MAX_LOSSES_PER_BLOCK = 3


@dataclass(kw_only=True)
class Measurer:
    """Starts the servers of a stage, sends the requests of its blocks and writes their files.

    A stage is a part of a run during which the same servers run.
    earlier: the blocks that earlier pods measured; they are used unchanged.
    numbers: yields the numbers of new blocks: the next numbers that no file has yet.
    blocks: all blocks measured so far, in the order of measuring.
    stage: the stage for which this pod last prepared servers; None: it has needed no server yet.
    replayed: the last stage in which a block of `earlier` was used; None: no block was used yet.
    doing: the run's current activity, in words that follow "the deadline passed".
    """

    spec: RunSpec
    environment: Environment
    files: RunFiles
    journal: Journal
    servers: StageServers
    gates: AnswerGates
    context: ContextCases
    earlier: Mapping[BlockKey, BlockResult]
    numbers: itertools.count[int]
    planned: PlannedBlocks
    blocks: list[BlockResult] = field(default_factory=list)
    stage: Stage | None = None
    replayed: Stage | None = None
    doing: str = ""

    async def measure(self, turn: Round) -> None:
        """Measure each case of the round's prompt classes on each variant that gets requests.

        These variants are in `turn.stage.measured`. With `spec.parallel`, all of them get a case's
        requests at the same time. Without it, one follows another in the random order of
        `Round.order`.
        """
        for case in self.spec.cases:
            if case.prompt_class not in turn.classes:
                continue
            endpoints = turn.order(case.prompt_class, case.name, run_id=self.files.run_id)
            together = [endpoints] if self.spec.parallel else [(e,) for e in endpoints]
            for loaded in together:
                await self._measure_together(CaseRound(case=case, turn=turn), loaded)

    def _was_begun(self, turn: Round) -> bool:
        # If an earlier pod has measured a block of this stage or of this round, it has also started
        # the stage's servers. Load and number identify a round: numbers go on from stage to stage.
        return self.replayed == turn.stage or any(
            (block.load, block.round) == (turn.load, turn.number) for block in self.earlier.values()
        )

    async def _prepare(self, turn: Round) -> None:
        # Each new stage (a control is one too) restarts all its servers, because a server that has
        # seen the prompts has them in its cache. Only in a search, the baseline's server keeps
        # running.
        stage = turn.stage
        if self.stage == stage:
            return
        begins, self.stage = self.stage is None, stage
        self.doing = "while waiting for the servers"
        if self.spec.changes_servers:
            self.environment.progress(stage.label)
        is_first = stage == first_stage(self.spec)
        restart = not (is_first or stage.candidate or self._was_begun(turn))
        if begins and not restart:
            await self.servers.find(stage.running)
        else:
            await self.servers.change(stage.running, restart=restart)
        self.doing = "while a server answered its first prompt"
        await self.gates.pass_all(stage.running, wait=lambda: self.servers.again(stage.running))

    async def _measure_together(self, case_round: CaseRound, endpoints: Sequence[Endpoint]) -> None:
        """Send a case's requests to all `endpoints` at the same time; again if a server is lost.

        Each endpoint gets one block. If earlier pods have measured all these blocks, use their
        blocks and send nothing.
        """
        keys = [case_round.key(endpoint) for endpoint in endpoints]
        if all(key in self.earlier for key in keys):
            self.blocks += [self.earlier[key] for key in keys]
            self.replayed = case_round.turn.stage
            return
        stage = case_round.turn.stage
        await self._prepare(case_round.turn)
        case_round = replace(case_round, case=await self._case(case_round))
        started_at_unix_s = self.environment.wall_clock()
        sent = await self._send_together(case_round, endpoints)
        while lost := [s.lost for s in sent if s.lost]:
            await self._give_up(sent, started_at_unix_s, "; ".join(lost))
            await self.servers.again(stage.running)
            started_at_unix_s = self.environment.wall_clock()
            sent = await self._send_together(case_round, endpoints)
        # An earlier pod may have measured one of two variants that get requests at the same time.
        # The earlier block of that variant is used, and its new block is dropped.
        new = [s for s, key in zip(sent, keys, strict=True) if key not in self.earlier]
        self.blocks += [self.earlier.get(k, s.block) for s, k in zip(sent, keys, strict=True)]
        for s in new:
            await in_thread(self.files.write_block, s.block, s.measured)
            self.environment.progress(
                f"[block {s.block.block} of {self.planned.words}, round {s.block.round}] "
                f"{describe(s.block)}"
            )
        self.environment.advanced(len(self.blocks), self.planned)
        stems = tuple(s.block.stem for s in new)
        starts = {s.block.variant: s.start for s in new if s.start}
        self.journal.note("measured", started_at_unix_s, blocks=stems, starts=starts)
        if not stage.is_control:
            for s in new:
                self._pass_load_gate(s.block)

    def _pass_load_gate(self, block: BlockResult) -> None:
        of_variant = (b for b in self.blocks if (b.variant, b.load) == (block.variant, block.load))
        if all(r.failed for other in of_variant for r in other.requests):
            raise gate_error(
                f"gate `{LOAD}`: every request failed in {block.stem}: {first_error(block)}",
                is_baseline=block.variant == self.spec.baseline,
            )

    async def _case(self, case_round: CaseRound) -> Case:
        running = case_round.turn.stage.running
        return await self.context.of(
            case_round.case,
            case_round.turn.load,
            baseline=next(endpoint for endpoint in running if endpoint.is_baseline),
            wait=lambda: self.servers.again(running),
        )

    async def _send(self, case_round: CaseRound, endpoint: Endpoint, *, number: int) -> Sent:
        shape, environment = self.spec.shape, self.environment
        turn, url, api_key = case_round.turn, endpoint.base_url, environment.api_key
        client = environment.make_client(base_url=url, shape=shape, api_key=api_key)
        batch = BatchPlan(
            spec=self.spec,
            case=case_round.case,
            turn=turn,
            request_prefix=f"{self.files.run_id}/{number:04d}",
        ).batch()
        before = await server_counters.read_metrics(url, api_key=api_key)
        started_at_unix_s = environment.wall_clock()
        seed = shape.seed + turn.number
        outcome = await environment.engine.send(client, batch, turn.load, seed=seed)
        ended_at_unix_s = environment.wall_clock()
        after = await server_counters.read_metrics(url, api_key=api_key)
        latencies = (m.record.inter_token_latency_s for m in outcome.unmeasured)
        measured_latencies = [latency for latency in latencies if latency is not None]
        block = BlockResult(
            **case_round.key(endpoint)._asdict(),
            run_id=self.files.run_id,
            experiment=self.spec.experiment,
            repetition=turn.stage.repetition,
            slot=endpoint.slot,
            block=number,
            model=shape.model,
            started_at_unix_s=started_at_unix_s,
            ended_at_unix_s=ended_at_unix_s,
            warmup_requests=len(batch.warmup),
            fillers=outcome.fillers,
            others=OtherRequests(
                inter_token_latency_sum_s=sum(measured_latencies),
                inter_token_latency_count=len(measured_latencies),
            ),
            max_tokens_per_step=endpoint.max_tokens_per_step,
            speculation=server_counters.speculation_between(before, after),
            server=server_counters.timings_between(before, after),
            requests=tuple(m.record for m in outcome.measured),
            answering_models=_distinct(m.model_name for m in outcome.measured),
            prefix_cache=server_counters.prefix_cache_between(before, after),
        )
        lost = await self._why_lost(endpoint, block, before, after)
        start = server_counters.server_start(after)
        return Sent(block=block, measured=outcome.measured, lost=lost, start=start)

    async def _why_lost(
        self,
        endpoint: Endpoint,
        block: BlockResult,
        before: server_counters.ServerMetrics,
        after: server_counters.ServerMetrics,
    ) -> str:
        # Return why the server was lost; empty if it still runs. Then the block counts, with its
        # failed requests.
        if not any(record.failed for record in block.requests):
            return ""
        answer = await health(endpoint, self.environment.api_key)
        if answer != READY:
            return f"{endpoint.variant} is not ready any more: {answer}; {first_error(block)}"
        if server_counters.restarted(before, after):
            return f"{endpoint.variant} restarted during the block; {first_error(block)}"
        return ""

    async def _send_together(
        self, case_round: CaseRound, endpoints: Sequence[Endpoint]
    ) -> list[Sent]:
        numbers = [next(self.numbers) for _ in endpoints]
        self.doing = f"in block {numbers[0]}"
        sends = [
            self._send(case_round, endpoint, number=number)
            for endpoint, number in zip(endpoints, numbers, strict=True)
        ]
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(send) for send in sends]
        except ExceptionGroup as errors:
            # Callers expect a single error, not a group, so only the first one is raised.
            raise errors.exceptions[0] from errors
        return [task.result() for task in tasks]

    async def _give_up(self, sent: Sequence[Sent], started_at_unix_s: float, reason: str) -> None:
        """Write blocks during which a server was lost into the folder of interrupted blocks.

        No verdict reads that folder.
        sent: blocks that were sent at the same time. reason: why a server was lost.
        DraftworthError: the same block was lost `MAX_LOSSES_PER_BLOCK` times.
        """
        for s in sent:
            await in_thread(self.files.write_lost, s.block, s.measured)
        stems = tuple(s.block.stem for s in sent)
        self.journal.note("lost", started_at_unix_s, blocks=stems, reason=reason)
        self.environment.progress(
            f"[block {sent[0].block.block}] given up, will be measured again: {reason}"
        )
        times = times_lost(self.journal.entries, subject_of(stems[0]))
        if times >= MAX_LOSSES_PER_BLOCK:
            raise DraftworthError(
                f"servers were lost {times} times in {subject_of(stems[0])}, which may make "
                f"them fail; the last time: {reason}"
            )
