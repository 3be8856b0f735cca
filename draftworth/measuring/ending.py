"""How a run ended: why it is not complete, and its `run.json`."""

from __future__ import annotations

from collections.abc import Sequence

from draftworth.analysis.control import without_control
from draftworth.measuring.blocks import first_error
from draftworth.measuring.journal import Entry, account, interruptions, server_starts
from draftworth.measuring.run_specification import RunSpec
from draftworth.records.results import (
    CONTROL,
    BlockResult,
    RunResult,
    RunStatus,
)


def shortfall_reason(blocks: Sequence[BlockResult]) -> str:
    """Why a run that measured every block is not complete; empty if it is.

    A control that fails leaves the variants' figures as they are: its report says that it has none.
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
    entries: Sequence[Entry],
    *,
    run_id: str,
    reason: str,
    ended_at_unix_s: float,
    scheduling: str,
    shortened: str,
) -> RunResult:
    """What `run.json` says. reason: why the run failed; empty: it is complete."""
    status: RunStatus = "failed" if reason else "complete"
    variants = [e.variant for e in spec.variants]
    if spec.search:  # most candidates are not measured
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
        target_interval_width=spec.sampling.target_interval_width,
        temperature=spec.shape.temperature,
        class_weights=spec.class_weights,
        limits=spec.limits,
        price=spec.price,
        load_generator=spec.load_generator,
        scheduling=scheduling,
        repetitions=spec.repetitions,
        shortened=shortened,
        time=account(entries, ended_at_unix_s=ended_at_unix_s),
        interruptions=interruptions(entries),
        server_starts={v: s for v, s in server_starts(entries).items() if v in variants},
        serving=spec.serving,
    )
