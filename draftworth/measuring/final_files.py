"""Makes the last files of a run: `run.json`, `verdict.json` and `step_costs.json`.

A program that sees `run.json` expects the verdict too, so `run.json` is written last. It is written
even if the other two files cannot be made: until it exists or the deadline has passed, the capacity
controller keeps the nodes, which cost money.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from draftworth import __version__
from draftworth.analysis.control import without_control
from draftworth.analysis.costs import step_costs_of
from draftworth.decision.facts import facts_of
from draftworth.measuring import journal
from draftworth.measuring.blocks import first_error
from draftworth.measuring.result_files import RunFiles
from draftworth.measuring.run_specification import RunSpec
from draftworth.measuring.schedule import stopping_rule
from draftworth.records.codec import dump_record
from draftworth.records.findings import VERDICT_FILE
from draftworth.records.results import CONTROL, BlockResult, RunResult, RunStatus
from draftworth.records.run_folder import Run
from draftworth.records.step_costs import STEP_COSTS_FILE
from draftworth.report.sentences import verdict_of


def shortfall_reason(blocks: Sequence[BlockResult]) -> str:
    """Return why a run that measured every block is not complete; empty if it is complete.

    It is not complete if all requests of a block failed. Blocks of a control do not count, because
    they do not change the variants' figures.
    """
    measured, _ = without_control(blocks)
    empty = [b for b in measured if all(r.failed for r in b.requests)]
    if not empty:
        return ""
    return (
        f"every request failed in {len(empty)} of {len(measured)} blocks, first in "
        f"{empty[0].stem}: {first_error(empty[0])}"
    )


def run_result(
    spec: RunSpec,
    blocks: Sequence[BlockResult],
    entries: Sequence[journal.Entry],
    *,
    run_id: str,
    reason: str,
    ended_at_unix_s: float,
    scheduling: str,
    shortened: str,
) -> RunResult:
    """Return the content of `run.json`.

    blocks: the blocks that count. entries: the journal of all pods of the run.
    scheduling: the operating system's scheduling class of the client's threads, in words.
    reason: why the run failed; empty if it is complete.
    shortened: why a complete run ended before the end of its plan; empty if it did not.
    """
    status: RunStatus = "failed" if reason else "complete"
    variants = [e.variant for e in spec.variants]
    if spec.search:  # a search measures only some candidates; only those are listed
        variants = [v for v in variants if any(block.variant == v for block in blocks)]
    most = {
        e.variant: n
        for e in spec.variants
        if e.variant in variants and (n := e.max_tokens_per_step) is not None
    }
    if any(block.variant == CONTROL for block in blocks):
        variants.append(CONTROL)
        most |= {CONTROL: most[spec.baseline]} if spec.baseline in most else {}
    return RunResult(
        run_id=run_id,
        experiment=spec.experiment,
        status=status,
        reason=reason,
        started_at_unix_s=min(entry.started_at_unix_s for entry in entries),
        ended_at_unix_s=ended_at_unix_s,
        variants=tuple(variants),
        baseline=spec.baseline,
        blocks=tuple(dict.fromkeys(block.stem for block in blocks)),
        max_tokens_per_step=most,
        lookup_lengths={e.variant: both for e in spec.variants if (both := e.lookup_lengths)},
        target_interval_width=spec.sampling.target_interval_width,
        looks=stopping_rule(spec).looks(spec),
        temperature=spec.shape.temperature,
        prompt_cache=spec.shape.prompt_cache,
        chosen_by={case.prompt_class: case.chosen_by for case in spec.cases if case.chosen_by},
        class_weights=spec.class_weights,
        limits=spec.limits,
        price=spec.price,
        load_generator=spec.load_generator,
        scheduling=scheduling,
        repetitions=spec.repetitions,
        shortened=shortened,
        time=journal.account(entries, ended_at_unix_s=ended_at_unix_s),
        interruptions=journal.interruptions(entries),
        server_starts={v: s for v, s in journal.server_starts(entries).items() if v in variants},
        self_tests=journal.self_tests(entries),
        serving=spec.serving,
        gates=tuple(gate for entry in entries for gate in entry.gates),
        draftworth_version=__version__,
    )


T = TypeVar("T")


def write_findings(run: Run, files: RunFiles) -> None:
    """Write `verdict.json` and `step_costs.json`; an error in making one is only reported."""
    # A verdict compares variants, so a run with one variant has none.
    if len(run.result.variants) > 1:
        write_if_possible(files, VERDICT_FILE, lambda: verdict_of(facts_of(run, files.token_ids)))
    write_if_possible(files, STEP_COSTS_FILE, lambda: step_costs_of(run))


def write_if_possible(files: RunFiles, name: str, make: Callable[[], T | None]) -> T | None:
    """Write the record that `make` returns, if any, to the file `name`, and return the record.

    None: there is no record, or it could not be made or written, which is only reported.
    """
    try:
        if record := make():
            files.write_now(name, dump_record(record, indent=2))
    except Exception as error:  # noqa: BLE001 - whatever fails here, the run is measured
        files.progress(f"{name} is not written: {type(error).__name__}: {error}")
        return None
    return record
