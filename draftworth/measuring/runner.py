"""The measuring program: rounds of every case against every variant, until the answer is known.

A run measures its stages one after the other (`stages`), and in each first what every load and
class gets, then more where intervals are too wide (`rounds`). Result files are written as each
block completes; `run.json` comes last, when the run is over, and just before it, of a run that is
complete, its findings. With a `history` the run is one that several pods share: what is measured
already is taken as it is, in its place, so every decision is that of a run without interruptions;
and a pod that is terminated leaves the run open for the next one.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from draftworth.errors import DraftworthError
from draftworth.measuring.blocks import BlockSender, CaseRound, Sent, describe, first_error
from draftworth.measuring.client import Client
from draftworth.measuring.clock import WallClock, unix_clock
from draftworth.measuring.context import ContextCases
from draftworth.measuring.findings import write_findings
from draftworth.measuring.history import BlockKey, History
from draftworth.measuring.http import API_KEY_VARIABLE
from draftworth.measuring.journal import (
    Entry,
    Journal,
    account,
    interruptions,
    subject_of,
    times_lost,
)
from draftworth.measuring.load import AsyncioEngine, LoadEngine
from draftworth.measuring.precision import Precision
from draftworth.measuring.readiness import Readiness, ReadServerState
from draftworth.measuring.rounds import Round, Rounds
from draftworth.measuring.run_specification import Endpoint, RunSpec
from draftworth.measuring.runfiles import RunFiles
from draftworth.measuring.scheduling import raise_scheduling_class
from draftworth.measuring.servers import FixedServers, Servers, StageServers
from draftworth.measuring.sink import Sink, SinkError
from draftworth.measuring.stages import Stage, stages
from draftworth.records.codec import dump_record
from draftworth.records.prompts import Case
from draftworth.records.reading import Run
from draftworth.records.results import (
    CONTROL,
    RUN_FILE,
    BlockResult,
    RunResult,
    RunStatus,
    ServerStart,
)

Progress = Callable[[str], None]

# A block whose servers are lost so often may make them fail.
MAX_LOSSES_OF_A_BLOCK = 3

INTERRUPTED = "ended before the last block: interrupted"
DEFECT = "ended before the last block: a program error; see the log"
TERMINATED = "its pod was terminated, as when its node is drained"


def new_run_id(experiment: str) -> str:
    """A run's id: sorts by time and cannot collide."""
    return f"{experiment}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"


def measure_here(
    spec: RunSpec, sink: Sink, progress: Progress, *, servers: Servers | None = None
) -> RunResult:
    """A run that belongs to this process and ends with it."""
    runner = Runner(
        spec=spec,
        sink=sink,
        run_id=new_run_id(spec.experiment),
        progress=progress,
        scheduling=raise_scheduling_class(),
        api_key=os.environ.get(API_KEY_VARIABLE),
        servers=servers or FixedServers(),
    )
    return asyncio.run(runner.run())


@dataclass(kw_only=True)
class Runner:
    """One run. `sink` gets names relative to the results root, run id first.

    history: what earlier pods left, empty for the first one; None: this process is the only one.
    deadline_seconds: for the whole run, from the start of its first pod; asked again and again, so
        that it may be moved while the run lasts. None: without an end.
    server_state: what servers say of themselves, where they do.
    servers: starts and stops them, where the run repeats or has a control.
    """

    spec: RunSpec
    sink: Sink
    run_id: str
    progress: Progress
    scheduling: str = ""
    api_key: str | None = None
    history: History | None = None
    deadline_seconds: Callable[[], float | None] = lambda: None
    wall_clock: WallClock = unix_clock
    make_client: Callable[..., Client] = Client
    engine: LoadEngine = field(default_factory=AsyncioEngine)
    ready_poll_seconds: float = 1.0
    deadline_poll_seconds: float = 30.0
    server_state: ReadServerState = lambda _: None
    servers: Servers = field(default_factory=FixedServers)
    _blocks: list[BlockResult] = field(default_factory=list)
    _starts: dict[str, ServerStart] = field(default_factory=dict)
    _stage: Stage | None = None
    _shortened: str = ""
    _doing: str = ""

    def __post_init__(self) -> None:
        known = self.history or History()
        self._earlier = {BlockKey.of(block): block for block in known.blocks}
        self._numbers = itertools.count(known.next_block)
        self._files = RunFiles(sink=self.sink, run_id=self.run_id, progress=self.progress)
        self._journal = Journal(
            entries=list(known.entries),
            attempt=known.attempt,
            clock=self.wall_clock,
            write=self._write_entry,
        )
        self._precision = Precision(spec=self.spec, progress=self.progress)
        self._readiness = Readiness(
            api_key=self.api_key,
            progress=self.progress,
            clock=self.wall_clock,
            poll_seconds=self.ready_poll_seconds,
            server_state=self.server_state,
        )
        self._stage_servers = StageServers(
            spec=self.spec,
            servers=self.servers,
            readiness=self._readiness,
            journal=self._journal,
            clock=self.wall_clock,
        )
        self._context = ContextCases(spec=self.spec, api_key=self.api_key, progress=self.progress)
        self._sender = BlockSender(
            spec=self.spec,
            run_id=self.run_id,
            api_key=self.api_key,
            make_client=self.make_client,
            engine=self.engine,
            readiness=self._readiness,
            wall_clock=self.wall_clock,
        )

    async def run(self) -> RunResult:
        """Measure everything; the result says whether the run is complete, and if not, why.

        A run that is cancelled (a signal) is over, and its `run.json` says that it failed; with a
        history it is not: the journal has a note, and another pod continues.
        """
        self._begin()
        try:
            reason = await self._measure_until_deadline()
        except DraftworthError as error:
            reason = str(error)
        except asyncio.CancelledError:
            if self.history is None:
                self._finish(INTERRUPTED)
            else:
                self._files.flush()
                self._journal.note("ended", reason=TERMINATED)
            raise
        except BaseException:
            self._finish(DEFECT)
            raise
        return self._finish(reason)

    def fail(self, reason: str) -> RunResult:
        """End a run that cannot even begin: who pays for its servers looks for its `run.json`."""
        self._begin()
        return self._finish(reason)

    def _begin(self) -> None:
        self._journal.note("started")
        if self.history is not None:
            self._files.complete(self.history.blocks, self.history.names)
        if self._earlier:
            self.progress(f"continuing after {len(self._earlier)} blocks that are measured already")

    def _write_entry(self, entry: Entry) -> None:
        """A file only where another pod may need it."""
        if self.history is None:
            return
        # The first at once: where nothing can be recorded, nothing is to be measured.
        write = self._files.write_now if entry.kind == "started" else self._files.write
        write(entry.name, dump_record(entry))

    async def _measure_until_deadline(self) -> str:
        """Why the run is not complete; empty if it is."""
        try:
            async with asyncio.timeout(None) as scope:
                watching = asyncio.ensure_future(self._watch_deadline(scope))
                try:
                    await self._measure_all()
                except DraftworthError as error:
                    if isinstance(error, SinkError) or not self._shorten(str(error)):
                        raise
                finally:
                    watching.cancel()
        except TimeoutError:
            if not scope.expired():
                raise
            minutes = (self.deadline_seconds() or 0) / 60
            reason = (
                f"the deadline, {minutes:g} minutes from the run's start, passed {self._doing}; "
                f"{len(self._blocks)} blocks are measured"
            )
            if not self._shorten(reason):
                return reason
        return self._shortfall()

    async def _watch_deadline(self, scope: asyncio.Timeout) -> None:
        while not scope.expired():
            if (total_seconds := self.deadline_seconds()) is not None:
                left_seconds = self._stage_servers.seconds_left(total_seconds)
                scope.reschedule(asyncio.get_running_loop().time() + left_seconds)
            await asyncio.sleep(self.deadline_poll_seconds)

    def _was_begun(self, stage: Stage) -> bool:
        """Whether its servers have answered already, this pod's or an earlier one's."""
        blocks = itertools.chain(self._blocks, self._earlier.values())
        return any(
            block.repetition == stage.repetition and (block.variant == CONTROL) == stage.is_control
            for block in blocks
        )

    async def _prepare(self, stage: Stage) -> None:
        """Have the stage's servers run, alone and ready; those of a new stage are new.

        In a control too: a server that has met the prompts before would have them in its cache.
        """
        if self._stage == stage:
            return
        begins, self._stage = self._stage is None, stage
        self._doing = "while waiting for the servers"
        if self.spec.repetitions > 1 or self.spec.control:
            self.progress(stage.label)
        is_first = stage == next(stages(self.spec))
        restart = not is_first and not self._was_begun(stage)
        if begins and not restart:
            await self._stage_servers.find(stage.running)
        else:
            await self._stage_servers.change(stage.running, restart=restart)

    async def _measure_all(self) -> None:
        """Round after round, until every class has its interval or its requests."""
        for turn in Rounds(spec=self.spec, precision=self._precision, blocks=self._blocks):
            await self._measure_round(turn)

    async def _measure_round(self, turn: Round) -> None:
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

    async def _measure_together(self, case_round: CaseRound, endpoints: Sequence[Endpoint]) -> None:
        """The variants that are loaded at once, unless they are measured; again when lost."""
        keys = [case_round.key(endpoint) for endpoint in endpoints]
        if all(key in self._earlier for key in keys):
            self._blocks += [self._earlier[key] for key in keys]
            return
        stage = case_round.turn.stage
        await self._prepare(stage)
        case_round = replace(case_round, case=await self._case(case_round))
        started_at_unix_s = self.wall_clock()
        sent = await self._send_together(case_round, endpoints)
        while lost := [s.lost for s in sent if s.lost]:
            await self._give_up(sent, started_at_unix_s, "; ".join(lost))
            await self._stage_servers.again(stage.running)
            started_at_unix_s = self.wall_clock()
            sent = await self._send_together(case_round, endpoints)
        # A variant that was measured before the pod ended, and the one loaded beside it was not,
        # has been loaded again and nothing more.
        new = [s for s, key in zip(sent, keys, strict=True) if key not in self._earlier]
        self._blocks += [self._earlier.get(k, s.block) for s, k in zip(sent, keys, strict=True)]
        for s in new:
            await _in_thread(self._files.write_block, s.block, s.measured)
            if s.start:
                self._starts[s.block.variant] = s.start
            self.progress(f"[block {s.block.block}, round {s.block.round}] {describe(s.block)}")
        stems = tuple(s.block.stem for s in new)
        self._journal.note("measured", started_at_unix_s, blocks=stems)

    async def _case(self, case_round: CaseRound) -> Case:
        """With prompts as long as the load wants them; all are made before the first block."""
        running = case_round.turn.stage.running
        return await self._context.of(
            case_round.case,
            case_round.turn.load,
            baseline=next(endpoint for endpoint in running if endpoint.is_baseline),
            wait=lambda: self._stage_servers.again(running),
        )

    async def _send_together(
        self, case_round: CaseRound, endpoints: Sequence[Endpoint]
    ) -> list[Sent]:
        numbers = [next(self._numbers) for _ in endpoints]
        self._doing = f"in block {numbers[0]}"
        sends = [
            self._sender.send(case_round, endpoint, number=number)
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
            await _in_thread(self._files.write_lost, s.block, s.measured)
        stems = tuple(s.block.stem for s in sent)
        self._journal.note("lost", started_at_unix_s, blocks=stems, reason=reason)
        self.progress(f"[block {sent[0].block.block}] given up, will be measured again: {reason}")
        times = times_lost(self._journal.entries, subject_of(stems[0]))
        if times >= MAX_LOSSES_OF_A_BLOCK:
            raise DraftworthError(
                f"servers were lost {times} times in {subject_of(stems[0])}, which may make "
                f"them fail; the last time: {reason}"
            )

    def _finish(self, reason: str) -> RunResult:
        if unwritten := self._files.flush():
            lost = f"result files that could not be written: {', '.join(unwritten)}"
            reason = f"{reason}; {lost}" if reason else lost
        ended_at_unix_s = self.wall_clock()
        status: RunStatus = "failed" if reason else "complete"
        # Also those of earlier pods that this one did not come to: only what is listed is read.
        blocks = (*self._blocks, *self._earlier.values())
        result = self._result(blocks, status=status, reason=reason, ended_at_unix_s=ended_at_unix_s)
        if status == "complete":
            measured = {block.stem: block for block in blocks}
            listed = tuple(measured[stem] for stem in sorted(result.blocks))
            write_findings(Run(result=result, blocks=listed), self._files)
        self._files.write_now(RUN_FILE, dump_record(result))
        return result

    def _result(
        self,
        blocks: Sequence[BlockResult],
        *,
        status: RunStatus,
        reason: str,
        ended_at_unix_s: float,
    ) -> RunResult:
        spec, entries = self.spec, self._journal.entries
        variants = [e.variant for e in spec.variants]
        most = {e.variant: n for e in spec.variants if (n := e.max_tokens_per_step) is not None}
        if any(block.variant == CONTROL for block in blocks):
            variants.append(CONTROL)
            most |= {CONTROL: most[spec.baseline]} if spec.baseline in most else {}
        return RunResult(
            run_id=self.run_id,
            experiment=spec.experiment,
            status=status,
            reason=reason,
            started_at_unix_s=self._journal.started_at_unix_s,
            ended_at_unix_s=ended_at_unix_s,
            variants=tuple(variants),
            baseline=spec.baseline,
            blocks=tuple(dict.fromkeys(block.stem for block in blocks)),
            max_tokens_per_step=most,
            target_interval_width=spec.sampling.target_interval_width,
            temperature=spec.shape.temperature,
            class_weights=spec.class_weights,
            limits=spec.limits,
            price=spec.price,
            load_generator=spec.load_generator,
            scheduling=self.scheduling,
            repetitions=spec.repetitions,
            shortened=self._shortened,
            time=account(entries, ended_at_unix_s=ended_at_unix_s),
            interruptions=interruptions(entries),
            server_starts=self._starts,
            serving=spec.serving,
        )

    def _shorten(self, reason: str) -> bool:
        """Take the run for complete without the rest, where its first stage is whole."""
        if self._stage is None or self._stage == next(stages(self.spec)):
            return False
        self._shortened = f"{self._stage.label}: {reason}"
        self.progress(f"the run ends here, with what it has: {self._shortened}")
        return True

    def _shortfall(self) -> str:
        """Why a run that measured every block is not complete; empty if it is."""
        empty = [b for b in self._blocks if all(r.failed for r in b.requests)]
        if not empty:
            return ""
        return (
            f"every request failed in {len(empty)} of {len(self._blocks)} blocks, first in "
            f"{empty[0].stem}: {first_error(empty[0])}"
        )


async def _in_thread(work: Callable[..., None], *arguments: Any) -> None:
    """Let a thread write, so that a signal reaches the run during an upload.

    A run that is cancelled meanwhile ends when the files are whole.
    """
    writing = asyncio.ensure_future(asyncio.to_thread(work, *arguments))
    try:
        await asyncio.shield(writing)
    except asyncio.CancelledError:
        await writing
        raise
