"""The real engine: servers of the shipped rehearsal's variants."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from draftworth.measuring.run_specification import RequestShape
from draftworth.planning.resolved import ResolvedExperiment, ResolvedVariant
from draftworth.planning.specify_run import Server, run_spec
from draftworth.serving.dialects import serving_command
from draftworth.serving.server_command import ModelPaths
from rehearsal.engine_processes import EngineServer, process_servers
from tests.conftest import ROOT

PAIR = ROOT / "rehearsal/tiny_pair"
# Tokens per request, half as many as in the shipped rehearsal, which is enough for its result.
OUTPUT_TOKENS = 75

# A stand-in for pip, because each run of the real pip takes half a second.
STAND_IN_PIP = """
import pathlib, sys, zipfile
given = next((a for a in sys.argv if "==" in a), None) or open(sys.argv[-1]).read().strip()
wheel = pathlib.Path({wheels!r}, given.replace("-", "_").replace("==", "-") + "-py3-none-any.whl")
if not wheel.exists():
    sys.exit(f"ERROR: No matching distribution found for {{given}}")
environment = pathlib.Path(sys.argv[sys.argv.index("--python") + 1]).parents[1]
(packages,) = environment.glob("lib/python*/site-packages")
zipfile.ZipFile(wheel).extractall(packages)
"""


# As above, for `pip download`: it takes all wheels of the folder.
STAND_IN_DOWNLOAD = """
import pathlib, shutil, sys
for wheel in pathlib.Path({wheels!r}).glob("*.whl"):
    shutil.copy(wheel, sys.argv[sys.argv.index("--dest") + 1])
"""


def stand_in_pip(
    folder: Path, wheels: Path, monkeypatch: pytest.MonkeyPatch, *, program: str = STAND_IN_PIP
) -> None:
    """Make child processes use a pip that installs from one folder, or another `program`."""
    folder.mkdir()
    (folder / "pip.py").write_text(program.format(wheels=str(wheels)))
    monkeypatch.setenv("PYTHONPATH", str(folder))


def engine_python() -> Path:
    """The engine's interpreter; skips the test if there is none."""
    python = os.environ.get("DRAFTWORTH_ENGINE_PYTHON")
    if python is None:
        pytest.skip("set DRAFTWORTH_ENGINE_PYTHON to the engine's interpreter (make test-engine)")
    return Path(python)


def engine_server(
    folder: Path, experiment: ResolvedExperiment, variant: ResolvedVariant
) -> EngineServer:
    """Return a variant's server, not yet started; its log is in the folder."""
    paths = ModelPaths(target=str(PAIR / "target"), draft=str(PAIR / "draft"))
    command = serving_command(experiment.spec, variant.spec, paths)
    return EngineServer(
        python=engine_python(),
        name=variant.name,
        arguments=command.arguments,
        environment=command.environment,
        log_path=folder / f"{variant.name}.log",
    )


@contextmanager
def serve_together(servers: Sequence[EngineServer]) -> Iterator[None]:
    """Run all servers until they are healthy; end them with the block."""
    by_place = {f"{place}-{server.name}": server for place, server in enumerate(servers)}
    with process_servers(by_place, by_place.keys()):
        yield


def request_shape(experiment: ResolvedExperiment) -> RequestShape:
    servers = {v.name: [Server(base_url="http://127.0.0.1:1")] for v in experiment.variants}
    return run_spec(experiment, servers=servers, ready_deadline_seconds=60.0).shape
