"""The command line: exit codes and exact words, no traceback for a user's mistake."""

import json
import os
import socket
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from draftworth.measuring.result_files import FolderSink
from tests.conftest import ROOT
from tests.draftworth.conftest import Ran
from tests.support.experiments import put, write_experiment
from tests.support.stream_server import Request, Step, completion, plain, stream_server

# Returns what a test's server answers to a request.
Answer = Callable[[Request], Sequence[Step]]


def healthy(request: Request) -> Sequence[Step]:
    return plain("200 OK", b"") if request.method == "GET" else completion(1, 2, 2)


@pytest.fixture
def measured(ran: Ran, tmp_path: Path) -> Ran:
    """A function that runs `measure` on a server whose answers a test gives; returns the output."""

    def run(answer: Answer, *more: str, path: str = "", code: int = 0) -> str:
        prompts = ROOT / "prompts" / "structured" / "count.jsonl"
        with stream_server(answer) as server:
            to = ("--base-url", server.base_url + path, "--model", "m", "--prompts", prompts)
            return ran("measure", *to, "--out", tmp_path, *more, code=code)

    return run


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (
            ["reprot"],
            "COMMAND: given 'reprot'; did you mean 'report'?, allowed: init, plan, ",
        ),
        (
            ["plan"],
            "experiment: given nothing, allowed: experiment file, YAML; next: draftworth pl",
        ),
    ],
)
def test_wrong_usage_exits_with_2_and_advice(argv: list[str], message: str, ran: Ran) -> None:
    assert message in ran(*argv, code=2)


def test_plan_of_a_wrong_file_gives_advice(tmp_path: Path, ran: Ran) -> None:
    output = ran("plan", write_experiment(tmp_path, put("release", value="neuron-2.32.0")), code=2)
    assert "fused_draft needs release neuron-2.26.1" in output
    assert "Traceback" not in output


def test_schema_is_json(ran: Ran) -> None:
    assert json.loads(ran("schema"))["title"] == "draftworth experiment"


def test_measure_writes_a_run_and_prints_its_figures(
    tmp_path: Path, measured: Ran, ran: Ran
) -> None:
    text = measured(healthy, "--requests-per-case", "3", path="/v1/")
    assert text.startswith("One server was measured")
    (folder,) = tmp_path.iterdir()
    assert "structured" in ran("report", folder)
    next((folder / "blocks").glob("*.result.json")).unlink()
    assert "1 of 1 result files are missing" in ran("report", folder, code=2)


def test_measure_of_a_broken_server_keeps_the_files(tmp_path: Path, measured: Ran) -> None:
    def broken(request: Request) -> Sequence[Step]:
        ok = request.path == "/health"
        return plain("200 OK", b"") if ok else plain("500 Internal Server Error", b"boom")

    text = measured(broken, code=1)
    assert text.startswith(
        "No decision, the run is not complete: gate `baseline answers`: measured at http"
    )
    assert "500: boom" in text
    assert (next(tmp_path.iterdir()) / "run.json").exists()


def test_a_dead_address_is_reported_before_any_run(tmp_path: Path, ran: Ran) -> None:
    prompts = ROOT / "prompts" / "structured" / "count.jsonl"
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        to = ("--base-url", url, "--model", "m", "--prompts", prompts, "--out", tmp_path)
        output = ran("measure", *to, code=2)
    assert f"--base-url: given {url}/v1/models: Connection refused" in output
    assert "next: start it, or correct the address" in output
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["report", "/nonexistent"], "RUN: given '/nonexistent', allowed: the folder of a run"),
        (["plan", "/nonexistent.yaml"], "no such file"),
        (["plan", ROOT / "README.md"], "given a file whose name ends with '.md', allowed: a name"),
        (["plan", "/"], "/: cannot be read: a folder; next: give the path of a YAML file"),
    ],
)
def test_a_users_mistake_is_a_sentence_with_2(argv: list[object], message: str, ran: Ran) -> None:
    assert message in ran(*argv, code=2)


# A folder in which nobody can write, not even root.
NO_FILES = Path("/proc/self")


def test_the_probe_of_an_output_folder_leaves_nothing(tmp_path: Path) -> None:
    FolderSink(tmp_path / "deep" / "out").check()
    assert list((tmp_path / "deep" / "out").iterdir()) == []


@pytest.mark.skipif(not NO_FILES.is_dir(), reason="needs Linux's /proc")
def test_an_unwritable_rehearsal_looks_for_no_engine(tmp_path: Path, ran: Ran) -> None:
    output = ran("rehearse", "--out", NO_FILES, "--engine", tmp_path / "e", code=2)
    assert "/proc/self: no results can be written there" in output
    assert not (tmp_path / "e").exists()


def test_a_key_is_sent_everywhere_or_reported_missing(
    measured: Ran, monkeypatch: pytest.MonkeyPatch
) -> None:
    def guarded(request: Request) -> Sequence[Step]:
        if request.headers.get("authorization") != "Bearer k":
            return plain("401 Unauthorized", b"")
        return healthy(request)

    output = measured(guarded, code=2)
    assert "it answers HTTP 401; allowed: with its key; next: set the environment" in output
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    measured(guarded)


def test_manifests_find_the_environments_own_node(
    monkeypatch: pytest.MonkeyPatch, ran: Ran
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    ran("schema")
    assert (Path(os.environ["PATH"].split(os.pathsep)[0]) / "python").exists()


def test_a_command_names_its_missing_library(monkeypatch: pytest.MonkeyPatch, ran: Ran) -> None:
    """The package moto emulates AWS in a rehearsal; an environment for deploys lacks it."""

    def without_moto(name: str) -> None:
        raise ModuleNotFoundError(name="moto.server")

    monkeypatch.setattr("draftworth.cli.importlib.import_module", without_moto)
    output = ran("rehearse", code=1)
    assert "`rehearse` needs the Python package moto" in output
    assert "requirements/rehearsal.txt" in output
