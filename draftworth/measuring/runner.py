"""Measures the rounds of a run's plan one after the other, and writes the run's files.

A block's result files are written when the block ends. `run.json` is written last, after the
verdict and the step costs. A run whose files can be read back (`history` is not None) may be
continued by other pods: blocks that an earlier pod measured are used unchanged, at the same step of
the plan, so every decision is the same as without an interruption. A pod that is terminated leaves
such a run open for the next pod.
"""

import asyncio
import itertools
import os
import secrets
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial

from draftworth.errors import DraftworthError
from draftworth.measuring import final_files
from draftworth.measuring.blocks import Measurer
from draftworth.measuring.clock import raise_scheduling_class
from draftworth.measuring.gates import AnswerGates, BaselineGateError
from draftworth.measuring.http_client import API_KEY_VARIABLE
from draftworth.measuring.journal import BlockKey, Entry, History, Journal
from draftworth.measuring.prompt_lengths import ContextCases
from draftworth.measuring.result_files import RunFiles, Sink, SinkError, StorageFullError, in_thread
from draftworth.measuring.run_specification import RunSpec
from draftworth.measuring.schedule import Plan, Rounds, planned_blocks, stages
from draftworth.measuring.search_plan import SearchRounds
from draftworth.measuring.server_lifecycle import (
    Advanced,
    Environment,
    FixedServers,
    Progress,
    ReadRunsOutputs,
    Servers,
    StageServers,
    reads_nothing,
)
from draftworth.records.codec import dump_record
from draftworth.records.results import RUN_FILE, RunResult
from draftworth.records.run_folder import Run
from draftworth.records.search_result import SEARCH_FILE

INTERRUPTED = "it was interrupted before its last block"
DEFECT = "ended before the last block: a program error; see the log"
TERMINATED = "its process was ended by a signal, as by Ctrl-C, or when a pod's node is drained"


def new_run_id(experiment: str) -> str:
    """Return an id that no other run has; sorted ids of one experiment are in the order of time."""
    return f"{experiment}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"


@dataclass(frozen=True, kw_only=True)
class Ending:
    """How a run ended.

    reason: why the run failed; empty if it is complete.
    shortened: why a complete run ended before the end of its plan; empty if it did not.
    """

    reason: str = ""
    shortened: str = ""


class Runner:
    """Carries out one run, with its files, its journal, its servers and its plan.

    sink: stores the run's files, whose names begin with the run's id.
    history: the files of earlier pods, empty for the first pod; None: no pod can continue the run.
    """

    def __init__(
        self,
        spec: RunSpec,
        sink: Sink,
        run_id: str,
        environment: Environment,
        history: History | None = None,
    ) -> None:
        earlier = history or History()
        self.spec, self.run_id, self.environment, self.history = spec, run_id, environment, history
        self.files = RunFiles(sink=sink, run_id=run_id, progress=environment.progress)
        self.journal = Journal(
            entries=list(earlier.entries),
            attempt=earlier.attempt,
            clock=environment.wall_clock,
            write=(lambda _: None) if history is None else self._write_entry,
        )
        self.servers = StageServers(spec=spec, environment=environment, journal=self.journal)
        self.measurer = Measurer(
            spec=spec,
            environment=environment,
            files=self.files,
            journal=self.journal,
            servers=self.servers,
            gates=AnswerGates(
                spec=spec, environment=environment, journal=self.journal, run_id=run_id
            ),
            context=ContextCases(spec=spec, environment=environment),
            earlier={BlockKey.of(block): block for block in earlier.blocks},
            numbers=itertools.count(earlier.next_block),
            planned=planned_blocks(spec),
        )
        self.plan = self._plan(earlier)

    def _plan(self, earlier: History) -> Plan:
        spec, progress, blocks = self.spec, self.environment.progress, self.measurer.blocks
        if not spec.search:
            return Rounds(spec=spec, progress=progress, blocks=blocks, stages=[*stages(spec)])
        return SearchRounds(
            spec=spec,
            search=spec.search,
            blocks=blocks,
            progress=progress,
            read_outputs=partial(self.environment.read_outputs, self.run_id),
            elapsed_seconds=self.servers.elapsed_seconds,
            begun=[*dict.fromkeys(block.variant for block in earlier.blocks)],
        )

    def _write_entry(self, entry: Entry) -> None:
        # An error in writing the first entry is raised: without a journal nothing is measured.
        write = self.files.write_now if entry.kind == "started" else self.files.write
        write(entry.name, dump_record(entry))

    async def run(self) -> RunResult:
        """Measure the whole plan, and return the content of `run.json`.

        A signal cancels this call. If no other pod can continue the run (`history` is None),
        `run.json` then says that the run failed. Else the journal gets an `ended` entry instead,
        and another pod continues the run.
        StorageFullError: there is no room for results; another pod can continue the run.
        """
        self._begin()
        try:
            ending = await self._measure()
        except StorageFullError as error:
            if self.history is not None:
                # The full disk has no room for run.json either. Another pod can continue the run.
                raise
            ending = Ending(reason=str(error))
        except asyncio.CancelledError:
            if self.history is None:
                self._finish(Ending(reason=INTERRUPTED))
            else:
                self.files.flush()
                self.journal.note("ended", reason=TERMINATED)
            raise
        except BaseException:
            self._finish(Ending(reason=DEFECT))
            raise
        return self._finish(ending)

    def fail(self, reason: str) -> RunResult:
        """Write `run.json` of a run that cannot begin, and return the file's content.

        Without this file, the run would look unfinished, so the capacity controller would keep
        its nodes, which cost money, until the deadline.
        """
        self._begin()
        return self._finish(Ending(reason=reason))

    def _begin(self) -> None:
        self.journal.note("started")
        if self.history is not None:
            self.files.complete(self.history.blocks, self.history.names)
        if earlier := self.measurer.earlier:
            count = "one block that is" if len(earlier) == 1 else f"{len(earlier)} blocks that are"
            self.environment.progress(f"continuing after {count} measured already")

    async def _measure(self) -> Ending:
        # After a DraftworthError, the run is shortened but not failed if what it has measured is
        # already enough for a verdict.
        shortened = ""
        try:
            await self._measure_until_deadline()
        except StorageFullError:
            raise
        except SinkError as error:
            return Ending(reason=str(error))
        except DraftworthError as error:
            stage = self.measurer.stage
            if stage is None or not self.plan.has_answer(stage):
                return Ending(reason=str(error))
            shortened = f"{stage.label}: {error}"
            self.environment.progress(f"the run ends here, with what it has: {shortened}")
        failed = self.plan.left_out()
        counted = [block for block in self.measurer.blocks if block.variant not in failed]
        return Ending(reason=final_files.shortfall_reason(counted), shortened=shortened)

    async def _measure_until_deadline(self) -> None:
        try:
            async with asyncio.timeout(None) as scope:
                watching = asyncio.ensure_future(self._watch_deadline(scope))
                try:
                    await self._measure_rounds()
                finally:
                    watching.cancel()
        except TimeoutError:
            if not scope.expired():
                raise
            minutes = (self.environment.deadline_seconds() or 0) / 60
            raise DraftworthError(
                f"the deadline, {minutes:g} minutes from the run's start, passed "
                f"{self.measurer.doing}; {len(self.measurer.blocks)} blocks are measured"
            ) from None

    async def _watch_deadline(self, scope: asyncio.Timeout) -> None:
        while not scope.expired():
            if (total_seconds := self.environment.deadline_seconds()) is not None:
                left_seconds = self.servers.seconds_left(total_seconds)
                scope.reschedule(asyncio.get_running_loop().time() + left_seconds)
            await asyncio.sleep(self.environment.deadline_poll_seconds)

    async def _measure_rounds(self) -> None:
        rounds = iter(self.plan)
        # The next round is chosen in a thread, because for this a search may run draft models for
        # minutes.
        while turn := await in_thread(next, rounds, None):
            try:
                await self.measurer.measure(turn)
            except (SinkError, BaselineGateError):
                raise
            except DraftworthError as error:
                if not self.plan.leave_out(turn.stage, str(error)):
                    raise

    def _finish(self, ending: Ending) -> RunResult:
        if unwritten := self.files.flush():
            lost = f"result files that could not be written: {', '.join(unwritten)}"
            ending = replace(ending, reason=f"{ending.reason}; {lost}" if ending.reason else lost)
        # Blocks of earlier pods are listed even if this pod did not come to their step of the plan,
        # because reports read only the blocks that `run.json` lists.
        blocks = (*self.measurer.blocks, *self.measurer.earlier.values())
        result = final_files.run_result(
            self.spec,
            blocks,
            self.journal.entries,
            run_id=self.run_id,
            reason=ending.reason,
            ended_at_unix_s=self.environment.wall_clock(),
            scheduling=self.environment.scheduling,
            shortened=ending.shortened,
        )
        if result.status == "complete":
            measured = {block.stem: block for block in blocks}
            listed = tuple(measured[stem] for stem in sorted(result.blocks))
            search_result = final_files.write_if_possible(
                self.files, SEARCH_FILE, lambda: self.plan.search_result(self.run_id)
            )
            final_files.write_findings(
                Run(result=result, blocks=listed, search=search_result), self.files
            )
        self.files.write_now(RUN_FILE, dump_record(result))
        return result


def measure_here(
    spec: RunSpec,
    run_id: str,
    sink: Sink,
    progress: Progress,
    *,
    history: History | None = None,
    advanced: Advanced = lambda _done, _planned: None,
    servers: Servers | None = None,
    read_outputs: ReadRunsOutputs = reads_nothing,
) -> RunResult:
    """Measure a run in this process; return the content of its `run.json`.

    sink: stores the run's files.
    history: the run's files of earlier processes; None: no later process can continue the run.
    advanced: is called after blocks were measured, with their number and the planned number.
    servers: starts and stops the run's servers; None: they already run.
    read_outputs: returns how well each draft of a search predicts the baseline's outputs.
    """
    environment = Environment(
        progress=progress,
        advanced=advanced,
        scheduling=raise_scheduling_class(),
        api_key=os.environ.get(API_KEY_VARIABLE),
        servers=servers or FixedServers(),
        read_outputs=read_outputs,
    )
    return asyncio.run(Runner(spec, sink, run_id, environment, history).run())
