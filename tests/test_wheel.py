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

from draftworth.cli import COMMANDS
from tests.conftest import ROOT
from tests.support.shipped import copy_with_bytecode
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
    install = (*PIP, "--python", python, "install", *ALONE, "--no-compile", wheel)
    subprocess.run(install, check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    for name in needed(PROJECT["dependencies"]):
        files = distribution(name).files or ()
        for top in {file.parts[0] for file in files} - {"..", "__pycache__"}:
            (packages / top).symlink_to(str(distribution(name).locate_file(top)))
    # Modules that are those of this checkout get its bytecode; others are compiled when they are
    # first imported.
    for file in (packages / "draftworth").rglob("*.py"):
        source = ROOT / file.relative_to(packages)
        if file.read_bytes() == source.read_bytes():
            copy_with_bytecode(source, file)
    return folder


# Runs a program once for each command line that standard input has as JSON; prints exit codes and
# outputs as JSON.
EACH = """
import io, json, runpy, sys, traceback
from contextlib import redirect_stderr, redirect_stdout

answers = []
for command in json.load(sys.stdin):
    output, code = io.StringIO(), 0
    with redirect_stdout(output), redirect_stderr(output):
        sys.argv = command
        try:
            runpy.run_path(command[0], run_name="__main__")
        except SystemExit as end:
            code = end.code
        except BaseException:
            code = traceback.format_exc()
    answers.append((code, output.getvalue()))
print(json.dumps(answers))
"""


def run(
    installed: Path, program: str, *words: object, cwd: Path, code: int = 0, text_in: str = ""
) -> str:
    """Run a program of the environment outside of a checkout; return its output.

    text_in: what it reads from standard input.
    """
    done = subprocess.run(
        [str(installed / "bin" / program), *map(str, words)],
        cwd=cwd,
        env={"PATH": "/usr/bin:/bin", "HOME": str(cwd)},
        input=text_in,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, "Traceback" in done.stderr) == (code, False), done.stderr
    return done.stdout + done.stderr


def run_each(installed: Path, *commands: tuple[object, ...], cwd: Path) -> list[tuple[int, str]]:
    """Run the environment's `draftworth` with each command's words, all in one process.

    Returns each one's exit code and output.
    """
    program = str(installed / "bin" / "draftworth")
    commands_json = json.dumps([[program, *map(str, words)] for words in commands])
    answers: list[tuple[int, str]] = json.loads(
        run(installed, "python", "-c", EACH, cwd=cwd, text_in=commands_json)
    )
    assert not any("Traceback" in f"{code}{output}" for code, output in answers), answers
    return answers


COMPLETION = ("completion", "bash")
ESTIMATE = (
    *("estimate", str(ROOT / "experiments/rehearsal.yaml")),
    *("--answers", str(ROOT / "rehearsal/tiny_pair/answers")),
)
INIT = ("init", "mine.yaml", "--yes", "--prompts", str(ROOT / "prompts"))
PLAN = ("plan", "mine.yaml")
HELPS = tuple((command, "--help") for command in COMMANDS)
# Command lines that need more than the wheel, and what they advise.
NEEDS_MORE: dict[tuple[str, ...], str] = {
    (
        "manifests",
        "x",
        "--out",
        "y",
    ): "`manifests` needs a checkout of draftworth: charts/ is not in the",
    ("report", "s3://bucket/runs/r"): "next: in a clone of the repository `pip install '.[aws]'`",
}

# {words of a command: its exit code and output}
Answers = dict[tuple[str, ...], tuple[int, str]]


@pytest.fixture(scope="module")
def answers(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Answers:
    """What the environment's `draftworth` answers; one process starts for all commands."""
    commands = (COMPLETION, ESTIMATE, INIT, PLAN, *HELPS, *NEEDS_MORE)
    folder = tmp_path_factory.mktemp("outside")
    return dict(zip(commands, run_each(installed, *commands, cwd=folder), strict=True))


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
    assert "\n  mails  " in output  # what it says of them depends on how busy the machine is
    (folder,) = (tmp_path / "runs").iterdir()
    plain_report, page = run_each(
        installed,
        ("report", folder),
        ("report", folder, "--out", tmp_path / "page"),
        cwd=tmp_path,
    )
    assert plain_report[0] == 0
    assert "Next:  " in plain_report[1]
    # Plots need an extra.
    assert page[0] == 1
    assert "`report` needs the Python package matplotlib" in page[1]
    assert "`pip install '.[plots]'`" in page[1]


@pytest.mark.parametrize("words", NEEDS_MORE)
def test_a_command_that_needs_more_says_what(answers: Answers, words: tuple[str, ...]) -> None:
    code, output = answers[words]
    assert code == 1
    assert NEEDS_MORE[words] in output


def test_an_estimate_takes_an_engine_that_is_there(answers: Answers) -> None:
    code, output = answers[ESTIMATE]
    assert code == 2
    assert "--engine: given .engine-venv, allowed outside of a checkout: a virtual env" in output


def test_its_command_plans_an_experiment(answers: Answers) -> None:
    assert [answers[words][0] for words in (INIT, PLAN)] == [0, 0]
    assert "fused_draft" in answers[PLAN][1]


@pytest.mark.parametrize("words", HELPS)
def test_every_command_shows_its_help(answers: Answers, words: tuple[str, ...]) -> None:
    code, output = answers[words]
    assert code == 0
    assert output.startswith(f"usage: draftworth {words[0]} ")


def test_a_shell_completes_it(answers: Answers) -> None:
    code, script = answers[COMPLETION]
    assert code == 0
    completed = {
        "comp": "compare completion",
        "compare --ba": "--baseline",
        "logs --fo": "--follow",
    }
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
