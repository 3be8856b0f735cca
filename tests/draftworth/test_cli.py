"""The command line: exit codes and exact words, no traceback for a user's mistake."""

import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from draftworth.cli import COMMANDS, main
from draftworth.measuring.result_files import FolderSink
from tests.conftest import ROOT
from tests.support.experiments import put, write_experiment
from tests.support.stream_server import Request, Step, completion, plain, stream_server

QWEN = str(ROOT / "experiments" / "qwen3-32b.yaml")


def healthy(request: Request) -> Sequence[Step]:
    return plain("200 OK", b"") if request.method == "GET" else completion(1, 2, 2)


def measure(url: str, out: Path, *more: str) -> int:
    prompts = str(ROOT / "prompts" / "structured" / "count.jsonl")
    to = ["--base-url", url, "--model", "m", "--prompts", prompts, "--out", str(out)]
    return main(["measure", *to, *more])


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as done:
        main(["--help"])
    assert done.value.code == 0
    text = capsys.readouterr().out
    assert all(name in text for name in COMMANDS)


def test_no_command_at_all_prints_the_list_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    said = capsys.readouterr()
    assert all(f"  {name} " in said.err for name in COMMANDS)
    assert said.out == ""


@pytest.mark.parametrize("argv", [["plann"], ["plan"], ["measure", "--base-url", "x"]])
def test_wrong_usage_exits_with_two(argv: list[str]) -> None:
    with pytest.raises(SystemExit) as done:
        main(argv)
    assert done.value.code == 2


def test_plan_shows_variants_placement_keys_flags_and_cost(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["plan", QWEN]) == 0

    text = capsys.readouterr().out
    assert "variant     qwen3-1.7b-k7: fused_draft, draft Qwen/Qwen3-1.7B, window 7, " in text
    assert "at most 7 tokens a step" in text
    assert "placement   1 x trn2.48xlarge in us-east-2c, spot" in text
    sent = "4 cases x 2 variants x 48 to 56 requests at c1, c2, c4 in 2 repetitions"
    assert f"{sent} = 384 to 448 requests of 600" in text
    assert "cost        8.60 USD an hour" in text
    assert "note: Qwen/Qwen3-32B@main is not pinned" in text


def test_plan_of_a_wrong_file_says_what_is_allowed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_experiment(tmp_path, put("release", value="neuron-2.32.0"))

    assert main(["plan", str(path)]) == 2

    text = capsys.readouterr().err
    assert "fused_draft needs release neuron-2.26.1" in text
    assert "Traceback" not in text


def test_schema_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "draftworth experiment"


def test_measure_writes_a_run_and_prints_its_figures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with stream_server(healthy) as server:
        code = measure(server.base_url + "/v1/", tmp_path, "--requests-per-case", "3")

    assert code == 0
    text = capsys.readouterr().out
    assert "complete" in text
    assert "measured" in text
    (folder,) = tmp_path.iterdir()
    assert main(["report", str(folder)]) == 0
    assert "structured" in capsys.readouterr().out


def test_measure_of_a_broken_server_exits_with_one_and_keeps_the_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(request: Request) -> Sequence[Step]:
        ok = request.path == "/health"
        return plain("200 OK", b"") if ok else plain("500 Internal Server Error", b"boom")

    with stream_server(broken) as server:
        code = measure(server.base_url, tmp_path)

    assert code == 1
    assert "the run failed: every request failed in 1 of 1 blocks" in (
        text := capsys.readouterr().err
    )
    assert "500: boom" in text
    assert (next(tmp_path.iterdir()) / "run.json").exists()


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["report", "/nonexistent"], "no run.json there"),
        (["plan", "/nonexistent.yaml"], "no such experiment file"),
        (["plan", "/"], "a folder. Give the path of a YAML file"),
        (["rehearse", "--base-url", "http://h"], "--speculative-url, --model missing"),
        (
            ["rehearse", "--base-url=http://h", "--model=m", "--speculative-url=127.0.0.1:8001"],
            "--speculative-url: given '127.0.0.1:8001'",
        ),
    ],
)
def test_a_users_mistake_is_a_sentence_and_exit_code_two(
    argv: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv) == 2
    assert message in capsys.readouterr().err


# Where nobody can write, not even root.
NO_FILES = Path("/proc/self")


def test_the_probe_of_an_output_folder_leaves_nothing(tmp_path: Path) -> None:
    FolderSink(tmp_path / "deep" / "out").check()
    assert list((tmp_path / "deep" / "out").iterdir()) == []


@pytest.mark.skipif(not NO_FILES.is_dir(), reason="needs Linux's /proc")
def test_a_rehearsal_is_told_before_an_engine_is_looked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["rehearse", "--out", str(NO_FILES), "--engine", str(tmp_path / "e")]) == 2
    assert "/proc/self: no results can be written there" in capsys.readouterr().err
    assert not (tmp_path / "e").exists()


def test_a_run_with_missing_result_files_gets_no_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with stream_server(healthy) as server:
        measure(server.base_url, tmp_path)
    (folder,) = tmp_path.iterdir()
    next((folder / "blocks").glob("*.result.json")).unlink()
    capsys.readouterr()

    assert main(["report", str(folder)]) == 2
    assert "1 of 1 result files are missing" in capsys.readouterr().err


def test_a_server_that_wants_a_key_is_told_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with stream_server(lambda _: plain("401 Unauthorized", b"")) as server:
        assert measure(server.base_url, tmp_path) == 1
    told = capsys.readouterr()
    assert "set the environment variable OPENAI_API_KEY" in told.err
    assert "Medians" not in told.out, "a run without a block has no table"


def test_the_key_is_sent_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")

    def guarded(request: Request) -> Sequence[Step]:
        if request.headers.get("authorization") != "Bearer k":
            return plain("401 Unauthorized", b"")
        return healthy(request)

    with stream_server(guarded) as server:
        assert measure(server.base_url, tmp_path) == 0


def test_manifests_find_the_environments_own_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert main(["plan", QWEN]) == 0
    assert (Path(os.environ["PATH"].split(os.pathsep)[0]) / "python").exists()


def test_a_command_whose_library_is_not_installed_says_which(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A deployer's environment has no emulated AWS, which the rehearsal takes."""

    def without_moto(name: str) -> None:
        raise ModuleNotFoundError(name="moto.server")

    monkeypatch.setattr("draftworth.cli.importlib.import_module", without_moto)
    assert main(["rehearse"]) == 1
    told = capsys.readouterr().err
    assert "`rehearse` needs the Python package moto" in told
    assert "requirements/rehearsal.txt" in told
