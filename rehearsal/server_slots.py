"""The servers of a rehearsal: a local vLLM for each slot of each variant.

In a cluster a slot is the devices of one server; here it is only a number.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from draftworth.experiment.model import beside
from draftworth.measuring.run_specification import RunSpec
from draftworth.measuring.server_lifecycle import Progress, Servers
from draftworth.planning.resolved import ResolvedLocal, ResolvedVariant
from draftworth.planning.specify_run import Server, run_spec
from draftworth.serving.dialects import serving_command
from draftworth.serving.server_command import ModelPaths
from rehearsal.engine_processes import EngineServer, process_servers
from rehearsal.install import install_engine

READY_DEADLINE_SECONDS = 60.0


@contextmanager
def local_engines(
    experiment: ResolvedLocal, engine_dir: Path, *, progress: Progress
) -> Iterator[tuple[RunSpec, Servers]]:
    """Run the variants' servers; yield the run specification and the manager of the servers.

    Raise DraftworthError if the engine cannot be installed or a server cannot start.
    engine_dir: where the engine is, or gets installed.
    """
    python = install_engine(engine_dir, progress=progress)
    engines: dict[str, EngineServer] = {}
    servers: dict[str, list[Server]] = {}
    for variant, slot, name in _places(experiment):
        engines[name] = _engine(experiment, variant, name, python, engine_dir, progress)
        server = Server(base_url=engines[name].base_url, slot=slot, name=name)
        servers.setdefault(variant.name, []).append(server)
    first = {variant.name for variant in experiment.variants if experiment.starts_up(variant)}
    with process_servers(engines, first) as manager:
        yield (
            run_spec(experiment, servers=servers, ready_deadline_seconds=READY_DEADLINE_SECONDS),
            manager,
        )


def _places(experiment: ResolvedLocal) -> Iterator[tuple[ResolvedVariant, int, str]]:
    """Yield the variant, the slot and the name of each server.

    First comes one server per variant, then the second servers that repetitions or a control need,
    each in the slot after that of its variant's first server. In a search the baseline has slot 0,
    and all candidates have slot 1.
    """
    spec, variants = experiment.spec, experiment.variants
    for number, variant in enumerate(variants):
        slot = number if spec.search is None else int(not variant.is_baseline)
        yield variant, slot, variant.name
    for number, variant in enumerate(variants, start=1):
        if spec.repetitions > 1 or (spec.control and variant.is_baseline):
            slot = number % len(variants)
            yield variant, slot, f"{variant.name}-slot{slot}"


def _engine(
    experiment: ResolvedLocal,
    variant: ResolvedVariant,
    name: str,
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
        name=name,
        arguments=command.arguments,
        environment=command.environment,
        log_path=engine_dir / f"{name}.log",
        progress=progress,
    )
