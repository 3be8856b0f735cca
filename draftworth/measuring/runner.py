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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial

from draftworth.errors import DraftworthError
from draftworth.measuring.blocks import BlockSender, Measurer
from draftworth.measuring.client import Client
from draftworth.measuring.clock import WallClock, raise_scheduling_class, unix_clock
from draftworth.measuring.context import ContextCases
from draftworth.measuring.findings import run_result, shortfall_reason, write_findings
from draftworth.measuring.http import API_KEY_VARIABLE
from draftworth.measuring.journal import BlockKey, Entry, History, Journal
from draftworth.measuring.load import AsyncioEngine, LoadEngine
from draftworth.measuring.result_files import RunFiles, Sink, SinkError, in_thread
from draftworth.measuring.run_specification import RunSpec
from draftworth.measuring.schedule import Precision, Rounds, first_stage, stages
from draftworth.measuring.search import SearchRounds, Spending
from draftworth.measuring.servers import (
    FixedServers,
    Readiness,
    ReadServerState,
    Servers,
    StageServers,
)
from draftworth.records.codec import dump_record
from draftworth.records.reading import Run
from draftworth.records.readings import Reading
from draftworth.records.results import RUN_FILE, BlockResult, RunResult
from draftworth.records.search import SEARCH_FILE, SearchResult
from draftworth.searching.policy import CandidateForecast, SearchState

Progress = Callable[[str], None]
# Of a run, by its id, what `ReadOutputs` says.
ReadRunsOutputs = Callable[[str, Sequence[BlockResult]], Mapping[str, Sequence[Reading]]]

INTERRUPTED = "ended before the last block: interrupted"
DEFECT = "ended before the last block: a program error; see the log"
TERMINATED = "its pod was terminated, as when its node is drained"


def reads_nothing(_run_id: str, _blocks: Sequence[BlockResult]) -> Mapping[str, Sequence[Reading]]:
    """Where nobody has the drafts at hand: a search goes by what its servers do."""
    return {}


def new_run_id(experiment: str) -> str:
    """A run's id: sorts by time and cannot collide."""
    return f"{experiment}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"


def measure_here(
    spec: RunSpec,
    sink: Sink,
    progress: Progress,
    *,
    servers: Servers | None = None,
    read_outputs: ReadRunsOutputs = reads_nothing,
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
        read_outputs=read_outputs,
    )
    return asyncio.run(runner.run())


@dataclass(kw_only=True)
class Runner:
    """One run. `sink` gets names relative to the results root, run id first.

    history: what earlier pods left, empty for the first one; None: this process is the only one.
    deadline_seconds: for the whole run, from the start of its first pod; asked again and again, so
        that it may be moved while the run lasts. None: without an end.
    server_state: what servers say of themselves, where they do.
    servers: starts and stops them, where the run repeats, has a control or searches.
    read_outputs: of a search, what its drafts say of the baseline's outputs.
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
    read_outputs: ReadRunsOutputs = reads_nothing
    _shortened: str = ""

    def __post_init__(self) -> None:
        known = self.history or History()
        self._files = RunFiles(sink=self.sink, run_id=self.run_id, progress=self.progress)
        self._journal = Journal(
            entries=list(known.entries),
            attempt=known.attempt,
            clock=self.wall_clock,
            write=self._write_entry,
        )
        readiness = Readiness(
            api_key=self.api_key,
            progress=self.progress,
            clock=self.wall_clock,
            poll_seconds=self.ready_poll_seconds,
            server_state=self.server_state,
        )
        self._servers = StageServers(
            spec=self.spec,
            servers=self.servers,
            readiness=readiness,
            journal=self._journal,
            clock=self.wall_clock,
        )
        self._measurer = Measurer(
            spec=self.spec,
            progress=self.progress,
            clock=self.wall_clock,
            files=self._files,
            journal=self._journal,
            sender=self._sender(readiness),
            servers=self._servers,
            context=ContextCases(spec=self.spec, api_key=self.api_key, progress=self.progress),
            earlier={BlockKey.of(block): block for block in known.blocks},
            numbers=itertools.count(known.next_block),
        )
        search = self.spec.search
        candidates = {c.variant for c in search.candidates} if search else set()
        self._search = (
            None
            if search is None
            else SearchRounds(
                spec=self.spec,
                search=search,
                blocks=self._measurer.blocks,
                progress=self.progress,
                read_outputs=partial(self.read_outputs, self.run_id),
                why_over=self._why_over,
                begun=[*dict.fromkeys(b.variant for b in known.blocks if b.variant in candidates)],
            )
        )

    def _sender(self, readiness: Readiness) -> BlockSender:
        return BlockSender(
            spec=self.spec,
            run_id=self.run_id,
            api_key=self.api_key,
            make_client=self.make_client,
            engine=self.engine,
            readiness=readiness,
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
        if earlier := self._measurer.earlier:
            measured = (
                "one block that is" if len(earlier) == 1 else f"{len(earlier)} blocks that are"
            )
            self.progress(f"continuing after {measured} measured already")

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
            doing, count = self._measurer.doing, len(self._measurer.blocks)
            reason = (
                f"the deadline, {minutes:g} minutes from the run's start, passed {doing}; {count} "
                "blocks are measured"
            )
            if not self._shorten(reason):
                return reason
        left_out = self._search.failed if self._search else {}
        return shortfall_reason([b for b in self._measurer.blocks if b.variant not in left_out])

    async def _watch_deadline(self, scope: asyncio.Timeout) -> None:
        while not scope.expired():
            if (total_seconds := self.deadline_seconds()) is not None:
                left_seconds = self._servers.seconds_left(total_seconds)
                scope.reschedule(asyncio.get_running_loop().time() + left_seconds)
            await asyncio.sleep(self.deadline_poll_seconds)

    async def _measure_all(self) -> None:
        """Round after round, until every class has its interval or its requests."""
        if self._search:
            await self._measure_candidates(self._search)
            return
        rounds = Rounds(
            spec=self.spec,
            precision=Precision(spec=self.spec, progress=self.progress),
            blocks=self._measurer.blocks,
            stages=[*stages(self.spec)],
        )
        for turn in rounds:
            await self._measurer.measure(turn)

    async def _measure_candidates(self, search: SearchRounds) -> None:
        """One candidate after the other; one that cannot be measured is left out."""
        turns = iter(search)
        # In a thread: what decides which is next may take minutes to read.
        while turn := await in_thread(next, turns, None):
            try:
                await self._measurer.measure(turn)
            except SinkError:
                raise
            except DraftworthError as error:
                if not search.give_up(turn.stage.candidate, str(error)):
                    raise
                turns = iter(search)
        if not search.order:
            reasons = "; ".join(f"{name}: {why}" for name, why in search.failed.items())
            raise DraftworthError(f"no candidate could be measured: {reasons}")

    def _why_over(self, expected: CandidateForecast | None, state: SearchState) -> str:
        spending = Spending(spec=self.spec, elapsed_s=self._servers.elapsed_seconds)
        return spending.why_over(expected, state)

    def _finish(self, reason: str) -> RunResult:
        if unwritten := self._files.flush():
            lost = f"result files that could not be written: {', '.join(unwritten)}"
            reason = f"{reason}; {lost}" if reason else lost
        result = self._result(reason)
        if result.status == "complete":
            measured = {block.stem: block for block in self._blocks}
            listed = tuple(measured[stem] for stem in sorted(result.blocks))
            found = self._write_search()
            write_findings(Run(result=result, blocks=listed, search=found), self._files)
        self._files.write_now(RUN_FILE, dump_record(result))
        return result

    @property
    def _blocks(self) -> tuple[BlockResult, ...]:
        """Also those of earlier pods that this one did not come to: only what is listed is read."""
        return (*self._measurer.blocks, *self._measurer.earlier.values())

    def _result(self, reason: str) -> RunResult:
        return run_result(
            self.spec,
            self._blocks,
            self._journal.entries,
            run_id=self.run_id,
            reason=reason,
            ended_at_unix_s=self.wall_clock(),
            scheduling=self.scheduling,
            shortened=self._shortened,
        )

    def _write_search(self) -> SearchResult | None:
        """What the search found; the run ends whatever becomes of that."""
        if self._search is None:
            return None
        try:
            found = self._search.result(self.run_id)
            self._files.write_now(SEARCH_FILE, dump_record(found, indent=2))
        except Exception as error:  # noqa: BLE001 - whatever it is, the run is measured
            self.progress(f"{SEARCH_FILE} is not written: {type(error).__name__}: {error}")
            return None
        return found

    def _shorten(self, reason: str) -> bool:
        """Take the run for complete without the rest, where its first stage is whole; of a search,
        where a candidate is measured."""
        stage = self._measurer.stage
        has_answer = bool(self._search.order) if self._search else stage != first_stage(self.spec)
        if stage is None or not has_answer:
            return False
        self._shortened = f"{stage.label}: {reason}"
        self.progress(f"the run ends here, with what it has: {self._shortened}")
        return True
