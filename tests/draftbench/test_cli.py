"""The command line: exit codes and exact words, no traceback for a user's mistake."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from draftbench.cli import COMMANDS, main
from tests.conftest import ROOT
from tests.support.experiments import put, write_experiment
from tests.support.stream_server import Request, Step, completion, plain, stream_server

QWEN = str(ROOT / "experiments" / "qwen3-32b.yaml")


def healthy(request: Request) -> Sequence[Step]:
    return plain("200 OK", b"") if request.method == "GET" else completion(1, 2, 2)


def measure(url: str, out: Path, *more: str) -> int:
    prompts = str(ROOT / "prompts" / "structured" / "count.jsonl")
    return main(
        [
            "measure",
            "--base-url",
            url,
            "--model",
            "m",
            "--prompts",
            prompts,
            "--out",
            str(out),
            *more,
        ]
    )


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as done:
        main(["--help"])
    assert done.value.code == 0
    text = capsys.readouterr().out
    assert all(name in text for name in COMMANDS)


@pytest.mark.parametrize("argv", [[], ["plann"], ["plan"], ["measure", "--base-url", "x"]])
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
    assert "8 cases x 2 variants x 16 to 64 requests at c4 = 256 to 1024 requests of 600" in text
    assert "cost        8.60 USD an hour" in text
    assert "at most 34.40 USD for the 240 minutes" in text
    assert "note: Qwen/Qwen3-32B is not pinned" in text


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
    assert json.loads(capsys.readouterr().out)["title"] == "draftbench experiment"


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
    assert "the run failed: every request failed" in capsys.readouterr().err
    assert (next(tmp_path.iterdir()) / "run.json").exists()


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["report", "/nonexistent"], "no run.json there"),
        (["plan", "/nonexistent.yaml"], "no such experiment file"),
        (
            [
                "measure",
                "--base-url",
                "localhost:8000",
                "--model",
                "m",
                "--prompts",
                "p",
                "--out",
                "o",
            ],
            "allowed: http://HOST:PORT",
        ),
        (
            [
                "measure",
                "--base-url",
                "http://h",
                "--model",
                "m",
                "--prompts",
                "/none",
                "--out",
                "o",
            ],
            "no .jsonl file there",
        ),
        (["rehearse", "--base-url", "http://h"], "--speculative-url, --model missing"),
    ],
)
def test_a_users_mistake_is_a_sentence_and_exit_code_two(
    argv: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv) == 2
    assert message in capsys.readouterr().err
