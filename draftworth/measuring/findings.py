"""What a complete run found, written just before `run.json`: `verdict.json`, `step_costs.json`.

Who sees `run.json` looks for the verdict at once, so it must be there by then. And accelerator
nodes are paid for until `run.json` is there, so it waits for the findings a moment only, and for
those that fail not at all.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from draftworth.analysis.answer import verdict_of
from draftworth.analysis.facts import facts_of
from draftworth.analysis.step_costs import step_costs_of
from draftworth.measuring.runfiles import RunFiles
from draftworth.records.codec import dump_record
from draftworth.records.reading import Run
from draftworth.records.step_costs import STEP_COSTS_FILE
from draftworth.records.verdict import VERDICT_FILE

# A thousand requests take a fifth of a second.
WAIT_SECONDS = 2.0


def write_findings(run: Run, files: RunFiles, *, wait_seconds: float = WAIT_SECONDS) -> None:
    """Write the findings, and return when they are there, have failed, or the time is over.

    In a thread that goes on when the time is over: a verdict that is late is still one.
    """
    pool = ThreadPoolExecutor(max_workers=1)
    writing = pool.submit(_write_all, run, files)
    pool.shutdown(wait=False)
    try:
        writing.result(wait_seconds)
    except TimeoutError:
        files.progress(
            f"{VERDICT_FILE} or {STEP_COSTS_FILE} takes long; the end of the run does not wait"
        )


def _write_all(run: Run, files: RunFiles) -> None:
    # There is a verdict only where there is something to compare.
    if len(run.result.variants) > 1:
        _write(files, VERDICT_FILE, lambda: verdict_of(facts_of(run, files.token_ids)))
    _write(files, STEP_COSTS_FILE, lambda: step_costs_of(run))


def _write(files: RunFiles, name: str, find: Callable[[], Any]) -> None:
    try:
        files.write_now(name, dump_record(find(), indent=2))
    except Exception as error:  # noqa: BLE001 - whatever it is, the run is measured
        files.progress(f"{name} is not written: {type(error).__name__}: {error}")
