"""Writes the report of a run beside its files, as `draftworth report` does.

The report is made from the stored files after `run.json` is written, so that accelerator nodes do
not wait for plots. If the pod ends before the report is complete, the next pod makes it.
"""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from draftworth.decision.facts import facts_of
from draftworth.measuring.result_files import Store
from draftworth.measuring.server_lifecycle import Progress
from draftworth.records.findings import REPORT_FOLDER, REPORT_PAGE
from draftworth.records.results import BLOCKS_FOLDER, RESULT_SUFFIX, RUN_FILE, TRANSCRIPT_SUFFIX
from draftworth.records.run_folder import read_end, read_run
from draftworth.records.search_result import SEARCH_FILE
from draftworth.records.transcripts import FILE_LIMIT_BYTES, read_transcripts
from draftworth.untrusted import MIB

_PARALLEL_FILES = 8
# If all compressed transcripts of a run are larger than this, its report is made without them: in
# memory they need thirty times as much, and the pod has 4 GiB. If a pod ran out of memory, the
# Job's next pod would try the same and run out of memory too.
MAX_TRANSCRIPT_BYTES = 48 * MIB


def add_report(store: Store, run_id: str, log: Progress) -> None:
    """Write the report of a run that is over, and log any failure instead of raising it.

    Nothing is written if the store has the report, or if no block was measured.
    store: has the run's files, and gets the report.
    """
    try:
        names = {name.removeprefix(f"{run_id}/") for name in store.names(run_id)}
        if f"{REPORT_FOLDER}/{REPORT_PAGE}" in names:
            return
        with TemporaryDirectory(prefix="draftworth-") as folder:
            if _render(store, run_id, names, Path(folder), log):
                _upload(store, run_id, names, Path(folder, REPORT_FOLDER))
                log(f"report: {run_id}/{REPORT_FOLDER}/{REPORT_PAGE}")
    except Exception as error:  # noqa: BLE001 - whatever fails here, the run is measured
        log(f"no report is written: {type(error).__name__}: {error}")


def _render(store: Store, run_id: str, names: Iterable[str], folder: Path, log: Progress) -> bool:
    """Copy the run into an empty folder, and write its report there; False: no block was measured.

    names: the names of the files that the store has of the run, such as `run.json`.
    """
    (folder / BLOCKS_FOLDER).mkdir()
    copy = partial(_copy, store, run_id, folder)
    copy(RUN_FILE)
    stems = read_end(folder).blocks
    files = {SEARCH_FILE} | {
        f"{BLOCKS_FOLDER}/{s}{end}" for s in stems for end in (RESULT_SUFFIX, TRANSCRIPT_SUFFIX)
    }
    with ThreadPoolExecutor(_PARALLEL_FILES) as pool:
        list(pool.map(copy, files & {*names}))
    if not stems:
        return False
    # Imported only after the run, because the libraries for templates and plots need a second to
    # load, and memory that measuring needs.
    from draftworth.report.contents import document_of
    from draftworth.report.writing import write_report

    run = read_run(folder)
    facts = facts_of(run, read_transcripts(folder, run.blocks) if _fit(folder, log) else {})
    write_report(document_of(facts), facts, folder / REPORT_FOLDER)
    return True


def _fit(folder: Path, log: Progress) -> bool:
    files = (folder / BLOCKS_FOLDER).glob(f"*{TRANSCRIPT_SUFFIX}")
    size_bytes = sum(file.stat().st_size for file in files)
    if size_bytes > MAX_TRANSCRIPT_BYTES:
        log(
            f"transcripts of {size_bytes:,} bytes, allowed here: {MAX_TRANSCRIPT_BYTES:,}; the "
            "report is made without them; next: `draftworth report` on a machine with "
            "more memory"
        )
    return size_bytes <= MAX_TRANSCRIPT_BYTES


def _copy(store: Store, run_id: str, folder: Path, name: str) -> None:
    (folder / name).write_bytes(store.read(f"{run_id}/{name}", limit_bytes=FILE_LIMIT_BYTES))


def _upload(store: Store, run_id: str, names: Iterable[str], folder: Path) -> None:
    """Write the report's files to the store, the HTML page last: if the page exists, all exist.

    names: the names of the files that the store has of the run; these are not written again.
    folder: the folder with the report's files.
    """
    files = {f"{REPORT_FOLDER}/{file.name}": file for file in folder.iterdir()}
    page = files.pop(f"{REPORT_FOLDER}/{REPORT_PAGE}")
    for name in sorted(files.keys() - {*names}):
        store.write(f"{run_id}/{name}", files[name].read_bytes())
    store.write(f"{run_id}/{REPORT_FOLDER}/{REPORT_PAGE}", page.read_bytes())
