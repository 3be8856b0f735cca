"""`verdict.json` of a run that is complete, written just before `run.json`.

Who sees `run.json` looks for the verdict at once, so it must be there by then. And accelerator
nodes are paid for until `run.json` is there, so it waits for the verdict a moment only, and for a
verdict that fails not at all.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from draftworth.analysis.answer import verdict_of
from draftworth.analysis.facts import facts_of
from draftworth.measuring.runfiles import RunFiles
from draftworth.records.codec import dump_record
from draftworth.records.reading import Run
from draftworth.records.verdict import VERDICT_FILE

# A thousand requests take a fifth of a second.
WAIT_SECONDS = 2.0


def write_verdict(run: Run, files: RunFiles, *, wait_seconds: float = WAIT_SECONDS) -> None:
    """Write the verdict, and return when it is there, has failed, or the time is over.

    In a thread that goes on when the time is over: a verdict that is late is still one.
    """
    pool = ThreadPoolExecutor(max_workers=1)
    writing = pool.submit(_write, run, files)
    pool.shutdown(wait=False)
    try:
        writing.result(wait_seconds)
    except TimeoutError:
        files.progress(f"{VERDICT_FILE} takes long; the end of the run does not wait for it")


def _write(run: Run, files: RunFiles) -> None:
    try:
        files.write_now(VERDICT_FILE, dump_record(verdict_of(facts_of(run, {})), indent=2))
    except Exception as error:  # noqa: BLE001 - whatever it is, the run is measured
        files.progress(f"{VERDICT_FILE} is not written: {type(error).__name__}: {error}")
