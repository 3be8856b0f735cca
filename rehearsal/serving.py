"""The winner of a rehearsal goes on serving here, and is looked at, until its budget is spent."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from pathlib import Path

from draftworth.errors import UserInputError
from draftworth.experiment.afterwards import Nothing
from draftworth.measuring.clock import unix_clock
from draftworth.measuring.http import API_KEY_VARIABLE
from draftworth.measuring.keeping import kept_winner
from draftworth.measuring.live import LiveProbes
from draftworth.measuring.readiness import Readiness
from draftworth.measuring.run_specification import RunSpec
from draftworth.measuring.runner import Progress
from draftworth.measuring.sink import FolderSink, Sink
from draftworth.planning.resolved import ResolvedExperiment
from draftworth.records.prompts import CASE_SUFFIX, Case, load_case
from draftworth.records.serving_limits import ServingLimits

_POLL_SECONDS = 0.2


class _AndBucket(FolderSink):
    """Reads from the folder, writes to the bucket too."""

    def __init__(self, folder: Path, bucket: Sink) -> None:
        super().__init__(folder)
        self._bucket = bucket

    def write(self, name: str, data: bytes) -> None:
        super().write(name, data)
        self._bucket.write(name, data)


def serve_winner(
    spec: RunSpec,
    limits: ServingLimits,
    run_id: str,
    *,
    results: FolderSink,
    bucket: Sink,
    progress: Progress,
) -> bool:
    """Until it is over; whether a winner has served.

    Args:
        spec: of the run, or with other prompts for the probe.
        limits: how long.
        run_id: of the run that has ended.
        results: where the runs are; probes lie beside them.
        bucket: the probes' copy, at the bucket's top level.
        progress: gets a line of each look, and why it is over.
    """
    kept = kept_winner(results, run_id)
    if kept is None:
        return False
    api_key = os.environ.get(API_KEY_VARIABLE)
    probes = LiveProbes(
        spec=spec,
        kept=kept,
        store=_AndBucket(results.folder, bucket),
        limits=lambda: limits,
        progress=progress,
        readiness=Readiness(
            api_key=api_key,
            progress=progress,
            clock=unix_clock,
            poll_seconds=_POLL_SECONDS,
            server_state=lambda _: None,
        ),
        api_key=api_key,
    )
    progress(f"{kept.variant} goes: {asyncio.run(probes.serve())}")
    return True


def probe_cases(experiment: ResolvedExperiment, folder: Path) -> tuple[Case, ...]:
    """The prompts in a folder of prompt classes.

    Raises:
        UserInputError: nothing is probed, there are none, or one cannot be sent.
    """
    if isinstance(experiment.spec.after, Nothing):
        raise UserInputError(
            f"--probe-prompts: given {folder}, allowed: with an experiment whose winner goes on "
            f"serving; next: `after: {{kind: serve, ...}}` in {experiment.path}, as in "
            "experiments/rehearsal-serve.yaml"
        )
    most_tokens = experiment.spec.workload.output_tokens
    paths = sorted(folder.glob(f"*/*{CASE_SUFFIX}"))
    if not paths:
        raise UserInputError(
            f"--probe-prompts: given {folder}, allowed: a folder with one folder a prompt class, "
            f"and in each files that end with {CASE_SUFFIX}, as prompts/ has them"
        )
    return tuple(
        load_case(path, prompt_class=path.parent.name, most_tokens=most_tokens) for path in paths
    )


def with_cases(spec: RunSpec, cases: tuple[Case, ...]) -> RunSpec:
    """With other prompts, whose classes are all of the same weight."""
    names = dict.fromkeys(case.prompt_class for case in cases)
    return replace(spec, cases=cases, class_weights={name: 1 / len(names) for name in names})
