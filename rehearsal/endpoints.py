"""The servers of a rehearsal: a local engine for each variant and slot."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from draftworth.experiment.model import beside
from draftworth.measuring.run_specification import RunSpec
from draftworth.measuring.servers import Progress, Servers
from draftworth.planning.resolved import ResolvedLocal, ResolvedVariant
from draftworth.planning.run_specification import Server, run_spec
from draftworth.serving.command import ModelPaths
from draftworth.serving.dialects import serving_command
from rehearsal.engine import EngineServer, process_servers
from rehearsal.install import install_engine

READY_DEADLINE_SECONDS = 60.0


@contextmanager
def local_engines(
    experiment: ResolvedLocal, engine_dir: Path, *, progress: Progress
) -> Iterator[tuple[RunSpec, Servers]]:
    """Install the engine if needed; run the variants' servers. Raises DraftworthError."""
    python = install_engine(engine_dir, progress=progress)
    places = list(_places(experiment))
    servers = {
        place.name: _server(experiment, place, python, engine_dir, progress) for place in places
    }
    first = {p.name for p in places if p.is_home and experiment.starts_up(p.variant)}
    with process_servers(servers, first) as manager:
        spec = run_spec(
            experiment,
            servers=_by_variant(places, servers),
            ready_deadline_seconds=READY_DEADLINE_SECONDS,
        )
        yield spec, manager


@dataclass(frozen=True, kw_only=True)
class _Place:
    """A variant's server in a slot; `is_home`: it is the variant's first server."""

    variant: ResolvedVariant
    slot: int
    is_home: bool

    @property
    def name(self) -> str:
        return self.variant.name if self.is_home else f"{self.variant.name}-slot{self.slot}"


def _places(experiment: ResolvedLocal) -> Iterator[_Place]:
    """Yield the first server of each variant, then the second servers that repetitions or a
    control need, each in the next slot. All candidates of a search have slot 1."""
    spec, variants = experiment.spec, experiment.variants
    for number, variant in enumerate(variants):
        slot = number if spec.search is None else int(not variant.is_baseline)
        yield _Place(variant=variant, slot=slot, is_home=True)
    for slot, variant in enumerate(variants):
        if spec.repetitions > 1 or (spec.control and variant.is_baseline):
            yield _Place(variant=variant, slot=(slot + 1) % len(variants), is_home=False)


def _by_variant(
    places: Sequence[_Place], servers: Mapping[str, EngineServer]
) -> dict[str, list[Server]]:
    found: dict[str, list[Server]] = {}
    for place in places:
        server = Server(base_url=servers[place.name].base_url, slot=place.slot, name=place.name)
        found.setdefault(place.variant.name, []).append(server)
    return found


def _server(
    experiment: ResolvedLocal,
    place: _Place,
    python: Path,
    engine_dir: Path,
    progress: Progress,
) -> EngineServer:
    target = experiment.spec.target.path
    paths = ModelPaths(
        target=str(beside(experiment.path, target)),
        draft=str(beside(experiment.path, place.variant.draft or target)),
    )
    command = serving_command(experiment.spec, place.variant.spec, paths)
    return EngineServer(
        python=python,
        name=place.name,
        arguments=command.arguments,
        environment=command.environment,
        log_path=engine_dir / f"{place.name}.log",
        progress=progress,
    )
