"""The two servers of a rehearsal: local engines, or the user's own endpoints."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from draftworth.cli.measure import checked_base_url
from draftworth.errors import UserInputError
from draftworth.experiment.model import (
    Experiment,
    LocalExperiment,
    LocalSpeculative,
    Variant,
    baseline,
    resolve,
    speculative,
)
from draftworth.measuring.run_specification import RunSpec
from draftworth.planning.run_specification import run_spec
from draftworth.serving.dialects import ModelPaths, serving_command
from rehearsal.engine import EngineServer, serve_together
from rehearsal.install import install_engine

Progress = Callable[[str], None]

READY_DEADLINE_SECONDS = 60.0


def own_endpoints(
    experiment: Experiment,
    experiment_path: Path,
    *,
    base_url: str,
    speculative_url: str,
    model: str,
) -> RunSpec:
    """The experiment's workload against two servers that are already there."""
    speculating = speculative(experiment)
    if len(speculating) != 1:
        raise UserInputError(
            f"{experiment_path}: {len(speculating)} speculative variants, but --speculative-url is "
            "one server; keep one of them"
        )
    urls = {
        baseline(experiment).name: checked_base_url(base_url),
        speculating[0].name: checked_base_url(speculative_url, option="--speculative-url"),
    }
    spec = run_spec(
        experiment,
        experiment_path,
        base_urls=urls,
        ready_deadline_seconds=READY_DEADLINE_SECONDS,
    )
    return dataclasses.replace(spec, shape=dataclasses.replace(spec.shape, model=model))


@contextmanager
def local_engines(
    experiment: Experiment, experiment_path: Path, engine_dir: Path, *, progress: Progress
) -> Iterator[RunSpec]:
    """Install the engine where needed, start a server for each variant, end them on leaving.

    Raises:
        UserInputError: the experiment is for Trainium.
        EngineUnavailableError: the engine cannot be had here; the message offers own endpoints.
    """
    if not isinstance(experiment, LocalExperiment):
        raise UserInputError(
            f"{experiment_path}: release {experiment.release} runs on AWS; a rehearsal takes an "
            "experiment with a local release (experiments/rehearsal.yaml), or your own endpoints "
            "(--base-url, --speculative-url, --model)"
        )
    python = install_engine(engine_dir, progress=progress)
    servers = {
        variant.name: _server(experiment, variant, experiment_path, python, engine_dir, progress)
        for variant in experiment.variants
    }
    with serve_together(list(servers.values())):
        yield run_spec(
            experiment,
            experiment_path,
            base_urls={name: server.base_url for name, server in servers.items()},
            ready_deadline_seconds=READY_DEADLINE_SECONDS,
        )


def _server(
    experiment: LocalExperiment,
    variant: Variant,
    experiment_path: Path,
    python: Path,
    engine_dir: Path,
    progress: Progress,
) -> EngineServer:
    draft = variant.draft.path if isinstance(variant, LocalSpeculative) else experiment.target.path
    paths = ModelPaths(
        target=str(resolve(experiment_path, experiment.target.path)),
        draft=str(resolve(experiment_path, draft)),
    )
    command = serving_command(experiment, variant, paths)
    return EngineServer(
        python,
        name=variant.name,
        arguments=command.arguments,
        environment=command.environment,
        log_path=engine_dir / f"{variant.name}.log",
        progress=progress,
    )
