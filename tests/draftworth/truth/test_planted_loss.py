"""An engine that accepts fewer drafts than its text allows, from `compare` to the report.

The truth server's text repeats itself, and so does each prompt: n-gram drafting is always right, so
a window of 5 allows 6 tokens in a step. A server that sends 5 rejects each step's last draft.
Outputs have 7 tokens, because the first request of `compare` asks for no more than 8, and the truth
server sends as many tokens as its timeline has.
"""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from draftworth.records.allowed_steps import ALLOWED_STEPS_FILE
from draftworth.truth.token_timeline import MODEL, TimelineSpec
from draftworth.truth.trial import truth_server
from tests.conftest import ROOT
from tests.draftworth.conftest import Ran
from tests.support.experiments import write_experiment

TEXT = "speculative decoding "
PROMPTS = 8
PLAIN = TimelineSpec(output_tokens=7, ttft_seconds=0.002, gap_seconds=0.0005)
EXACT = replace(PLAIN, first_chunk_tokens=1, chunk_tokens=(6, 6))
LOSSY = replace(EXACT, chunk_tokens=(5, 5))


def written_experiment(folder: Path) -> tuple[Path, Path]:
    """Write prompts, and an experiment with them for `estimate`; return both paths."""
    prompts = folder / "prompts" / "repeated" / "text.jsonl"
    prompts.parent.mkdir(parents=True)
    lines = ({"id": f"p{n}", "prompt": TEXT * (2 + n)} for n in range(PROMPTS))
    prompts.write_text("".join(f"{json.dumps(line)}\n" for line in lines))

    def edit(data: dict[str, Any]) -> None:
        data["target"]["path"] = str(ROOT / "benchmarks/tokenizer")
        data["variants"] = [
            {"name": "baseline", "method": "none"},
            {"name": "k5", "method": "ngram", "window": 5},
        ]
        data["workload"] |= {
            "prompts_dir": str(folder / "prompts"),
            "classes": [{"name": "repeated"}],
        }

    return prompts, write_experiment(folder, edit, base="rehearsal")


@pytest.fixture
def urls(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The addresses of a baseline and of two servers, one of which loses drafted tokens."""
    specs = {"plain": PLAIN, "exact": EXACT, "lossy": LOSSY}
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(truth_server(spec, tmp_path / f"{name}.log"))
            for name, spec in specs.items()
        }


@pytest.mark.usefixtures("_every_request_counts")
def test_compare_itself_names_a_planted_loss(
    tmp_path: Path, urls: dict[str, str], ran: Ran
) -> None:
    """Where the user says how the server drafts, the server's own tokenizer is enough."""
    prompts, _ = written_experiment(tmp_path)
    output = ran(
        *("compare", "--baseline", urls["plain"], "--model", MODEL, "--rounds", "2"),
        *("--variant", f"exact={urls['exact']},window=5,ngram=2-4"),
        *("--variant", f"lossy={urls['lossy']},window=5,ngram=2-4"),
        *("--prompts", prompts.parent.parent, "--output-tokens", "7", "--out", tmp_path / "runs"),
    )
    (run,) = (tmp_path / "runs").iterdir()
    line = "lossy: 3.00 of the 6.00 tokens per step that texts allow, 50.0% lost"
    assert line in output.splitlines()
    assert (
        "exact at one request at a time: this server yields 6.00 tokens per step where these texts"
        in output
    )
    assert "what its engine loses" not in output
    assert line in ran("report", run).splitlines()
    losses = {v["variant"]: v["verdict"] for v in engine_losses(ran("report", run, "--json"))}
    assert losses == {"lossy": "lost", "exact": "none lost"}


def engine_losses(answer: str) -> list[dict[str, Any]]:
    losses: list[dict[str, Any]] = json.loads(answer)["engine_losses"]
    return losses


@pytest.mark.usefixtures("_every_request_counts")
def test_a_planted_loss_is_named(tmp_path: Path, urls: dict[str, str], ran: Ran) -> None:
    prompts, experiment = written_experiment(tmp_path)
    for name, expected in (("exact", "none lost"), ("lossy", "50.0% lost")):
        runs = tmp_path / name
        servers = ("--baseline", urls["plain"], "--variant", f"k5={urls[name]},window=5")
        requests = ("--model", MODEL, "--prompts", prompts.parent.parent, "--output-tokens", "7")
        ran("compare", *servers, *requests, "--rounds", "2", "--out", runs)
        (run,) = runs.iterdir()
        sentence = ran("estimate", experiment, "--answers", run)
        assert "k5 at one request at a time: this server yields " in sentence
        last = "reach draft position 5, 0.0% accept the drafted token there where 100.0% could"
        assert (last in sentence) is (name == "lossy")
        assert (run / ALLOWED_STEPS_FILE).is_file()
        (line,) = [at for at in ran("report", run).splitlines() if at.startswith("k5: ")]
        assert line.endswith(f" of the 6.00 tokens per step that texts allow, {expected}")
