"""`pip install .` makes a package: it has the right files and dependencies, and works alone."""

import json
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Sequence
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.conftest import ROOT
from tests.support.stream_server import Request, Script, Step, completion, plain, stream_server

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PIP = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
ALONE = ("--no-deps", "--no-index")
# Modules that need torch, the extra `aws`, or a checkout.
ELSEWHERE = (
    *("draftworth.estimate.forward_pass", "draftworth.account", "draftworth.cli.manifests"),
    "draftworth.__main__",
)


def needed(requirements: Sequence[str]) -> set[str]:
    """Return the distributions that these requirements install, directly or indirectly."""
    names: set[str] = set()
    waiting = [*requirements]
    while waiting:
        requirement = Requirement(waiting.pop())
        name = canonicalize_name(requirement.name)
        wanted = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        if wanted and name not in names:
            names.add(name)
            waiting += distribution(name).requires or ()
    return names


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from this checkout without a network."""
    folder = tmp_path_factory.mktemp("wheel")
    command = (*PIP, "wheel", *ALONE, "--no-build-isolation", "--wheel-dir", folder, ROOT)
    subprocess.run(command, check=True)
    (wheel_file,) = folder.iterdir()
    return wheel_file


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel and its dependencies, and nothing else."""
    folder = tmp_path_factory.mktemp("environment")
    python = folder / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    # Bytecode is compiled where a module is first imported.
    install = (*PIP, "--python", python, "install", *ALONE, "--no-compile", wheel)
    subprocess.run(install, check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    for name in needed(PROJECT["dependencies"]):
        files = distribution(name).files or ()
        for top in {file.parts[0] for file in files} - {"..", "__pycache__"}:
            (packages / top).symlink_to(str(distribution(name).locate_file(top)))
    return folder


def run(installed: Path, program: str, *words: object, cwd: Path, code: int = 0) -> str:
    """Run a program of the environment outside of a checkout; return its output."""
    done = subprocess.run(
        [str(installed / "bin" / program), *map(str, words)],
        cwd=cwd,
        env={"PATH": "/usr/bin:/bin", "HOME": str(cwd)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, "Traceback" in done.stderr) == (code, False), done.stderr
    return done.stdout + done.stderr


def test_the_wheel_has_the_domain_and_nothing_else(wheel: Path) -> None:
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    files = (ROOT / "draftworth").rglob("*.*")
    assert {str(f.relative_to(ROOT)) for f in files if f.suffix != ".pyc"} <= names
    assert {name.split("/")[0] for name in names} == {"draftworth"}


def test_every_module_imports_with_the_wheels_requirements(installed: Path, tmp_path: Path) -> None:
    paths = (p.relative_to(ROOT).with_suffix("") for p in (ROOT / "draftworth").rglob("*.py"))
    modules = [".".join(path.parts).removesuffix(".__init__") for path in paths]
    code = f"import {', '.join(m for m in modules if not m.startswith(ELSEWHERE))}"
    run(installed, "python", "-c", code, cwd=tmp_path)


def server(*chunk_tokens: int) -> Script:
    def script(request: Request) -> Sequence[Step]:
        if request.method == "GET":
            return plain("200 OK" if request.path == "/health" else "404 Not Found", b"")
        return completion(*chunk_tokens, gap_seconds=0.01)

    return script


def test_two_servers_are_compared_and_read_again(installed: Path, tmp_path: Path) -> None:
    mails = tmp_path / "mails" / "inbox.jsonl"
    mails.parent.mkdir()
    mails.write_text("".join(json.dumps({"id": f"{n}", "prompt": "?"}) + "\n" for n in range(8)))
    options = ("--model", "m", "--prompts", mails, "--rounds", 2)
    with stream_server(server(*[1] * 8)) as slow, stream_server(server(4, 4)) as fast:
        servers = ("--baseline", slow.base_url, "--variant", f"fast={fast.base_url},window=4")
        output = run(installed, "draftworth", "compare", *servers, *options, cwd=tmp_path)
    assert "  mails c1  " in output
    (folder,) = (tmp_path / "runs").iterdir()
    assert "Next:  " in run(installed, "draftworth", "report", folder, cwd=tmp_path)
    # Plots need an extra.
    words = ("report", folder, "--out", tmp_path / "page")
    output = run(installed, "draftworth", *words, cwd=tmp_path, code=1)
    assert "`report` needs the Python package matplotlib" in output
    assert "`pip install 'draftworth[plots]'`" in output


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        (["manifests", "x"], "`manifests` needs a checkout of draftworth: charts/ is not in the"),
        (["report", "s3://bucket/runs/r"], "next: `pip install 'draftworth[aws]'`"),
    ],
)
def test_a_command_that_needs_more_says_what(
    installed: Path, tmp_path: Path, words: list[str], advice: str
) -> None:
    assert advice in run(installed, "draftworth", *words, cwd=tmp_path, code=1)


def test_an_estimate_takes_an_engine_that_is_there(installed: Path, tmp_path: Path) -> None:
    words = (ROOT / "experiments/rehearsal.yaml", "--answers", ROOT / "rehearsal/tiny_pair/answers")
    output = run(installed, "draftworth", "estimate", *words, cwd=tmp_path, code=2)
    assert "--engine: given .engine-venv, allowed outside of a checkout: a virtual env" in output


def test_its_command_plans_an_experiment(installed: Path, tmp_path: Path) -> None:
    words = ("init", "mine.yaml", "--yes", "--prompts", ROOT / "prompts")
    run(installed, "draftworth", *words, cwd=tmp_path)
    assert "fused_draft" in run(installed, "draftworth", "plan", "mine.yaml", cwd=tmp_path)
    assert "usage: draftworth plan " in run(installed, "draftworth", "plan", "-h", cwd=tmp_path)


def test_a_shell_completes_it(installed: Path, tmp_path: Path) -> None:
    script = run(installed, "draftworth", "completion", "bash", cwd=tmp_path)
    completed = {"comp": "compare completion", "compare --ba": "--baseline", "mani": "manifests"}
    for typed in completed:
        script += (
            f"\nCOMP_WORDS=(draftworth {typed}); COMP_CWORD={typed.count(' ') + 1}"
            '\n_shtab_draftworth; echo "${COMPREPLY[*]}"'
        )
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert [line.split() for line in done.stdout.splitlines()] == [
        words.split() for words in completed.values()
    ]


@pytest.mark.parametrize("extra", ["", *PROJECT["optional-dependencies"]])
def test_ranges_begin_tested_and_end_before_a_major(
    extra: str,
) -> None:
    files = ("requirements.txt", "requirements/rehearsal.txt")
    locked = [line for f in files for line in (ROOT / f).read_text().splitlines() if "==" in line]
    pins = {canonicalize_name(n): v for n, v in (line.split("==") for line in locked)}
    ranges = PROJECT["optional-dependencies"][extra] if extra else PROJECT["dependencies"]
    for requirement in map(Requirement, ranges):
        major_minor = ".".join(pins[canonicalize_name(requirement.name)].split(".")[:2])
        assert str(requirement.specifier) == f"~={major_minor}", requirement.name
