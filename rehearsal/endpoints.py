"""The two servers of a rehearsal: local engines, or the user's own endpoints."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from draftworth.cli import arguments
from draftworth.errors import UserInputError
from draftworth.experiment.model import beside
from draftworth.measuring.run_specification import RunSpec
from draftworth.measuring.runner import Progress
from draftworth.planning.resolved import ResolvedExperiment, ResolvedLocal, ResolvedVariant
from draftworth.planning.run_specification import Server, run_spec
from draftworth.serving.command import ModelPaths
from draftworth.serving.dialects import serving_command
from rehearsal.engine import EngineServer, serve_together
from rehearsal.install import install_engine

READY_DEADLINE_SECONDS = 60.0


@contextmanager
def own_endpoints(
    experiment: ResolvedExperiment, *, base_url: str, speculative_url: str, model: str
) -> Iterator[RunSpec]:
    """The experiment's workload against two servers that are already there."""
    plain = [variant for variant in experiment.variants if variant.is_baseline]
    speculating = [variant for variant in experiment.variants if not variant.is_baseline]
    if len(speculating) != 1:
        raise UserInputError(
            f"{experiment.path}: {len(speculating)} speculative variants, but --speculative-url is "
            "one server; keep one of them"
        )
    urls = {
        plain[0].name: arguments.base_url(base_url),
        speculating[0].name: arguments.base_url(speculative_url, option="--speculative-url"),
    }
    name = arguments.model_name(model)
    servers = {variant: [Server(base_url=url)] for variant, url in urls.items()}
    spec = run_spec(experiment, servers=servers, ready_deadline_seconds=READY_DEADLINE_SECONDS)
    yield dataclasses.replace(spec, shape=dataclasses.replace(spec.shape, model=name))


@contextmanager
def local_engines(
    experiment: ResolvedExperiment, engine_dir: Path, *, progress: Progress
) -> Iterator[RunSpec]:
    """Install the engine where needed, start a server for each variant, end them on leaving.

    Raises:
        UserInputError: the experiment is for Trainium.
        EngineUnavailableError: the engine cannot be had here; the message offers own endpoints.
    """
    if not isinstance(experiment, ResolvedLocal):
        raise UserInputError(
            f"{experiment.path}: release {experiment.spec.release} runs on AWS; a rehearsal takes "
            "an experiment with a local release (experiments/rehearsal.yaml), or your own "
            "endpoints (--base-url, --speculative-url, --model)"
        )
    python = install_engine(engine_dir, progress=progress)
    servers = {
        variant.name: _server(experiment, variant, python, engine_dir, progress)
        for variant in experiment.variants
    }
    with serve_together(list(servers.values())):
        yield run_spec(
            experiment,
            servers={n: [Server(base_url=server.base_url)] for n, server in servers.items()},
            ready_deadline_seconds=READY_DEADLINE_SECONDS,
        )


def _server(
    experiment: ResolvedLocal,
    variant: ResolvedVariant,
    python: Path,
    engine_dir: Path,
    progress: Progress,
) -> EngineServer:
    target = experiment.spec.target.path
    paths = ModelPaths(
        target=str(beside(experiment.path, target)),
        draft=str(beside(experiment.path, variant.draft or target)),
    )
    command = serving_command(experiment.spec, variant.spec, paths)
    return EngineServer(
        python=python,
        name=variant.name,
        arguments=command.arguments,
        environment=command.environment,
        log_path=engine_dir / f"{variant.name}.log",
        progress=progress,
    )
