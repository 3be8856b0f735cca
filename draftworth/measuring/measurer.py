"""Measures a run's rounds block by block, and again where servers were lost."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from draftworth.errors import DraftworthError
from draftworth.measuring.blocks import BlockSender, CaseRound, Sent, describe
from draftworth.measuring.clock import WallClock
from draftworth.measuring.context import ContextCases
from draftworth.measuring.history import BlockKey
from draftworth.measuring.journal import Journal, subject_of, times_lost
from draftworth.measuring.rounds import Round
from draftworth.measuring.run_specification import Endpoint, RunSpec
from draftworth.measuring.runfiles import RunFiles
from draftworth.measuring.servers import StageServers
from draftworth.measuring.stages import Stage, first_stage
from draftworth.measuring.threads import in_thread
from draftworth.records.prompts import Case
from draftworth.records.results import BlockResult

# A block whose servers are lost so often may make them fail.
MAX_LOSSES_OF_A_BLOCK = 3


@dataclass(kw_only=True)
class Measurer:
    """Has the servers of a stage run, sends its blocks, writes their files.

    earlier: blocks that earlier pods measured, which are taken as they are. numbers: of blocks that
    no file has. blocks: what is measured, in the order of measuring. stage: the one that it is at;
    doing: in words. replayed: the last stage that an earlier pod has measured something of.
    """

    spec: RunSpec
    progress: Callable[[str], None]
    clock: WallClock
    files: RunFiles
    journal: Journal
    sender: BlockSender
    servers: StageServers
    context: ContextCases
    earlier: Mapping[BlockKey, BlockResult]
    numbers: itertools.count[int]
    blocks: list[BlockResult] = field(default_factory=list)
    stage: Stage | None = None
    replayed: Stage | None = None
    doing: str = ""

    async def measure(self, turn: Round) -> None:
        """Every case of its classes against every variant, one variant loaded at a time.

        The order turns around from case to case and from round to round (ABBA), so that a drift of
        the machine falls on both variants alike.
        """
        for index, case in enumerate(self.spec.cases):
            if case.prompt_class not in turn.classes:
                continue
            turned = (index + turn.number) % 2 == 0
            endpoints = turn.stage.measured[::-1] if turned else turn.stage.measured
            together = [endpoints] if self.spec.parallel else [(e,) for e in endpoints]
            for loaded in together:
                await self._measure_together(CaseRound(case=case, turn=turn), loaded)

    def _was_begun(self, turn: Round) -> bool:
        """Whether servers of its stage have answered an earlier pod: in a round before it, or in
        it, for rounds at a load are numbered over all stages."""
        return self.replayed == turn.stage or any(
            (block.load, block.round) == (turn.load, turn.number) for block in self.earlier.values()
        )

    async def _prepare(self, turn: Round) -> None:
        """Have the stage's servers run, alone and ready; those of a new stage are new, but for a
        search's baseline.

        In a control too: a server that has met the prompts before would have them in its cache.
        """
        stage = turn.stage
        if self.stage == stage:
            return
        begins, self.stage = self.stage is None, stage
        self.doing = "while waiting for the servers"
        if self.spec.changes_servers:
            self.progress(stage.label)
        is_first = stage == first_stage(self.spec)
        restart = not (is_first or stage.candidate or self._was_begun(turn))
        if begins and not restart:
            await self.servers.find(stage.running)
        else:
            await self.servers.change(stage.running, restart=restart)

    async def _measure_together(self, case_round: CaseRound, endpoints: Sequence[Endpoint]) -> None:
        """The variants that are loaded at once, unless they are measured; again when lost."""
        keys = [case_round.key(endpoint) for endpoint in endpoints]
        if all(key in self.earlier for key in keys):
            self.blocks += [self.earlier[key] for key in keys]
            self.replayed = case_round.turn.stage
            return
        stage = case_round.turn.stage
        await self._prepare(case_round.turn)
        case_round = replace(case_round, case=await self._case(case_round))
        started_at_unix_s = self.clock()
        sent = await self._send_together(case_round, endpoints)
        while lost := [s.lost for s in sent if s.lost]:
            await self._give_up(sent, started_at_unix_s, "; ".join(lost))
            await self.servers.again(stage.running)
            started_at_unix_s = self.clock()
            sent = await self._send_together(case_round, endpoints)
        # A variant that was measured before the pod ended, and the one loaded beside it was not,
        # has been loaded again and nothing more.
        new = [s for s, key in zip(sent, keys, strict=True) if key not in self.earlier]
        self.blocks += [self.earlier.get(k, s.block) for s, k in zip(sent, keys, strict=True)]
        for s in new:
            await in_thread(self.files.write_block, s.block, s.measured)
            self.progress(f"[block {s.block.block}, round {s.block.round}] {describe(s.block)}")
        stems = tuple(s.block.stem for s in new)
        starts = {s.block.variant: s.start for s in new if s.start}
        self.journal.note("measured", started_at_unix_s, blocks=stems, starts=starts)

    async def _case(self, case_round: CaseRound) -> Case:
        """With prompts as long as the load wants them; all are made before the first block."""
        running = case_round.turn.stage.running
        return await self.context.of(
            case_round.case,
            case_round.turn.load,
            baseline=next(endpoint for endpoint in running if endpoint.is_baseline),
            wait=lambda: self.servers.again(running),
        )

    async def _send_together(
        self, case_round: CaseRound, endpoints: Sequence[Endpoint]
    ) -> list[Sent]:
        numbers = [next(self.numbers) for _ in endpoints]
        self.doing = f"in block {numbers[0]}"
        sends = [
            self.sender.send(case_round, endpoint, number=number)
            for endpoint, number in zip(endpoints, numbers, strict=True)
        ]
        if len(sends) == 1:
            return [await sends[0]]
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(send) for send in sends]
        except ExceptionGroup as errors:  # one block's, as if it had been loaded alone
            raise errors.exceptions[0] from errors
        return [task.result() for task in tasks]

    async def _give_up(self, sent: Sequence[Sent], started_at_unix_s: float, reason: str) -> None:
        """Keep the evidence of blocks whose servers were lost, and count."""
        for s in sent:
            await in_thread(self.files.write_lost, s.block, s.measured)
        stems = tuple(s.block.stem for s in sent)
        self.journal.note("lost", started_at_unix_s, blocks=stems, reason=reason)
        self.progress(f"[block {sent[0].block.block}] given up, will be measured again: {reason}")
        times = times_lost(self.journal.entries, subject_of(stems[0]))
        if times >= MAX_LOSSES_OF_A_BLOCK:
            raise DraftworthError(
                f"servers were lost {times} times in {subject_of(stems[0])}, which may make "
                f"them fail; the last time: {reason}"
            )
