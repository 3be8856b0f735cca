"""Mutation testing: plants defects in important files, and counts how many their tests catch.

    make mutants            a sample of each file's mutants, the same one each time
    make mutants ARGS="--of codec --sample 400"

cosmic-ray makes the mutants in a clone of the current commit. A mutant is caught when a test fails
or exceeds the time limit.
"""

import argparse
import random
import sqlite3
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COSMIC_RAY = ROOT / ".mutants-venv" / "bin" / "cosmic-ray"
TEST_SECONDS = 120.0
SAMPLE = 40
SEED = 21
# cosmic-ray's kinds of mutants that are left out: another operator in place of `|`, which nearly
# always stands in annotations such as `X | None`, and removed decorators.
LEFT_OUT = "core/ReplaceBinaryOperator_BitOr_%", "core/RemoveDecorator"

SUBJECTS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def main() -> None:
    """Print a table with a row for each file of `SUBJECTS`: how many of its mutants were caught."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--of", choices=SUBJECTS, nargs="+", default=[*SUBJECTS])
    parser.add_argument("--sample", type=int, default=SAMPLE, help="mutants of each file")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        clone = Path(scratch) / "draftworth"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        (clone / "node_modules").symlink_to(ROOT / "node_modules")
        print("| file | mutants | tried | caught |\n|---|---|---|---|", flush=True)
        for name in arguments.of:
            about = SUBJECTS[name]
            row = _row(about["file"], about["tests"], clone, Path(scratch), arguments.sample)
            print(row, flush=True)


def _row(file: str, tests: Sequence[str], clone: Path, scratch: Path, sample: int) -> str:
    session = _mutants_of(file, tests, clone, scratch)
    made, tried = _thin_out(session, sample)
    _cosmic_ray(clone, "exec", "mutants.toml", str(session))
    with sqlite3.connect(session) as database:
        (survived,) = database.execute(
            "select count(*) from work_results where test_outcome = 'SURVIVED'"
        ).fetchone()
    caught = tried - survived
    return f"| `{file}` | {made} | {tried} | {caught} ({caught / tried:.0%}) |"


def _mutants_of(file: str, tests: Sequence[str], clone: Path, scratch: Path) -> Path:
    command = f"{sys.executable} -m pytest -x -q -p no:cacheprovider {' '.join(tests)}"
    (clone / "mutants.toml").write_text(
        f'[cosmic-ray]\nmodule-path = "{file}"\ntimeout = {TEST_SECONDS}\n'
        f'excluded-modules = []\ntest-command = "{command}"\n'
        '[cosmic-ray.distributor]\nname = "local"\n'
    )
    session = scratch / f"{Path(file).stem}.sqlite"
    _cosmic_ray(clone, "baseline", "mutants.toml")
    _cosmic_ray(clone, "init", "mutants.toml", str(session))
    return session


def _thin_out(session: Path, sample: int) -> tuple[int, int]:
    """Delete all but a sample of the mutants in cosmic-ray's database.

    session: the database's file. sample: how many mutants to keep.
    Return the number of mutants before, and the number of those that are kept.
    """
    with sqlite3.connect(session) as database:
        rows = database.execute(
            "select job_id from mutation_specs where operator_name not like ? and "
            "operator_name != ? order by operator_name, occurrence",
            LEFT_OUT,
        )
        jobs = [job for (job,) in rows]
        kept = random.Random(SEED).sample(jobs, min(sample, len(jobs)))  # noqa: S311 (no secret)
        marks = ",".join("?" * len(kept))
        database.execute(f"delete from work_items where job_id not in ({marks})", kept)  # noqa: S608
    return len(jobs), len(kept)


def _cosmic_ray(clone: Path, *arguments: str) -> None:
    subprocess.run([str(COSMIC_RAY), *arguments], cwd=clone, check=True)


if __name__ == "__main__":
    main()
