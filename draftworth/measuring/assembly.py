"""How a run is put together: the objects that measure it, its files, its journal and its plan."""

import asyncio
import itertools
import os
from functools import partial

from draftworth.measuring import runner
from draftworth.measuring.blocks import BlockSender, Measurer
from draftworth.measuring.clock import raise_scheduling_class
from draftworth.measuring.context import ContextCases
from draftworth.measuring.http import API_KEY_VARIABLE
from draftworth.measuring.journal import BlockKey, Entry, History, Journal
from draftworth.measuring.result_files import RunFiles, Sink
from draftworth.measuring.run_specification import RunSpec
from draftworth.measuring.schedule import Plan, Precision, Rounds, stages
from draftworth.measuring.search import SearchRounds
from draftworth.measuring.servers import FixedServers, Readiness, Servers, StageServers
from draftworth.records.codec import dump_record
from draftworth.records.results import RunResult


def measure_here(
    spec: RunSpec,
    sink: Sink,
    progress: runner.Progress,
    *,
    servers: Servers | None = None,
    read_outputs: runner.ReadRunsOutputs = runner.reads_nothing,
) -> RunResult:
    """Measure a run that belongs to this process and ends with it."""
    environment = runner.Environment(
        progress=progress,
        scheduling=raise_scheduling_class(),
        api_key=os.environ.get(API_KEY_VARIABLE),
        servers=servers or FixedServers(),
        read_outputs=read_outputs,
    )
    run_id = runner.new_run_id(spec.experiment)
    return asyncio.run(make_runner(spec, sink, run_id, environment).run())


def make_runner(
    spec: RunSpec,
    sink: Sink,
    run_id: str,
    environment: runner.Environment,
    history: History | None = None,
) -> runner.Runner:
    """Put a run together.

    Args:
        spec: what is measured.
        sink: takes the files, whose names begin with the run's id.
        run_id: the run's id.
        environment: where it runs.
        history: what earlier pods left, empty for the first one; None: no other pod continues.
    """
    known = history or History()
    progress, clock, api_key = environment.progress, environment.wall_clock, environment.api_key
    files = RunFiles(sink=sink, run_id=run_id, progress=progress)
    journal = Journal(
        entries=list(known.entries),
        attempt=known.attempt,
        clock=clock,
        write=(lambda _: None) if history is None else partial(_write_entry, files),
    )
    readiness = Readiness(
        api_key=api_key,
        progress=progress,
        clock=clock,
        poll_seconds=environment.ready_poll_seconds,
        server_state=environment.server_state,
    )
    servers = StageServers(
        spec=spec,
        servers=environment.servers,
        readiness=readiness,
        journal=journal,
        clock=clock,
    )
    sender = BlockSender(
        spec=spec,
        run_id=run_id,
        api_key=api_key,
        make_client=environment.make_client,
        engine=environment.engine,
        readiness=readiness,
        wall_clock=clock,
    )
    measurer = Measurer(
        spec=spec,
        progress=progress,
        clock=clock,
        files=files,
        journal=journal,
        sender=sender,
        servers=servers,
        context=ContextCases(spec=spec, api_key=api_key, progress=progress),
        earlier={BlockKey.of(block): block for block in known.blocks},
        numbers=itertools.count(known.next_block),
    )
    plan: Plan
    if spec.search:
        plan = SearchRounds(
            spec=spec,
            search=spec.search,
            blocks=measurer.blocks,
            progress=progress,
            read_outputs=partial(environment.read_outputs, run_id),
            elapsed_seconds=servers.elapsed_seconds,
            begun=[*dict.fromkeys(block.variant for block in known.blocks)],
        )
    else:
        plan = Rounds(
            spec=spec,
            precision=Precision(spec=spec, progress=progress),
            blocks=measurer.blocks,
            stages=[*stages(spec)],
        )
    return runner.Runner(
        spec=spec,
        run_id=run_id,
        environment=environment,
        history=history,
        files=files,
        journal=journal,
        servers=servers,
        measurer=measurer,
        plan=plan,
    )


def _write_entry(files: RunFiles, entry: Entry) -> None:
    # The first at once: where nothing can be recorded, nothing is to be measured.
    write = files.write_now if entry.kind == "started" else files.write
    write(entry.name, dump_record(entry))
