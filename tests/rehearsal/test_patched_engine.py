"""A real engine with a planted fault, which shows only beside what its texts allow."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from draftworth.analysis.engine_loss import EngineVerdict, engine_losses_of
from draftworth.planning.resolved import load
from draftworth.records.run_folder import read_run
from rehearsal.engine_processes import EngineServer
from tests.conftest import ROOT
from tests.draftworth.conftest import Ran, ran
from tests.rehearsal.engines import OUTPUT_TOKENS, engine_server, serve_together
from tests.support.experiments import write_experiment

__all__ = ["ran"]
# Python imports this module before a program's first line. It makes seven of eight proposals of
# vLLM's n-gram drafting wrong; the engine rejects such drafts, so its outputs stay as they are.
FAULT = """
import itertools, sys
from importlib.machinery import PathFinder

class Patching:
    def find_spec(self, name, path=None, target=None):
        if name != "vllm.v1.spec_decode.ngram_proposer":
            return None
        spec = PathFinder.find_spec(name, path)
        run = spec.loader.exec_module

        def exec_module(module):
            run(module)
            propose, calls = module.NgramProposer.propose, itertools.count(1)

            def faulty(self, *args, **kwargs):
                drafts = propose(self, *args, **kwargs)
                if next(calls) % 8 == 0:
                    return drafts
                return [[(int(token) + 1) % 500 for token in draft] for draft in drafts]

            module.NgramProposer.propose = faulty

        spec.loader.exec_module = exec_module
        return spec

sys.meta_path.insert(0, Patching())
"""


def written_experiment(folder: Path) -> Path:
    def edit(data: dict[str, Any]) -> None:
        data["variants"] = [
            {"name": "baseline", "method": "none"},
            {"name": "right", "method": "ngram", "window": 5},
            {"name": "faulty", "method": "ngram", "window": 4},
        ]
        classes = [{"name": "structured", "cases": ["count"]}]
        data["workload"] |= {"output_tokens": OUTPUT_TOKENS, "classes": classes}

    return write_experiment(folder, edit, base="rehearsal")


def faulty(server: EngineServer, folder: Path) -> EngineServer:
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(FAULT)
    return replace(server, environment={**server.environment, "PYTHONPATH": str(folder)})


@pytest.mark.engine
@pytest.mark.usefixtures("_every_request_counts")
def test_a_patched_engines_loss_is_named(tmp_path: Path, ran: Ran) -> None:
    path = written_experiment(tmp_path)
    experiment = load(path)
    plain, right, patched = (engine_server(tmp_path, experiment, v) for v in experiment.variants)
    servers = [plain, right, faulty(patched, tmp_path / "fault")]
    with serve_together(servers):
        options = [f"--baseline={plain.base_url}"]
        options += [
            f"--variant={server.name}={server.base_url},window={window}"
            for server, window in zip(servers[1:], (5, 4), strict=True)
        ]
        prompts = ("--prompts", ROOT / "prompts/structured/count.jsonl")
        requests = ("--output-tokens", OUTPUT_TOKENS, "--fixed-length", "--token-ids")
        out = ("--rounds", "2", "--out", tmp_path / "runs")
        ran("compare", *options, "--model", "rehearsal", *prompts, *requests, *out)

    (run,) = (tmp_path / "runs").iterdir()
    assert "right at one request at a time: this server yields " in ran(
        "estimate", path, "--answers", run
    )
    losses = {loss.variant: loss for loss in engine_losses_of(read_run(run))}
    assert losses["right"].verdict is EngineVerdict.NONE_LOST
    assert losses["right"].taken_as_allowed == losses["right"].requests == 16
    # A few of these eight prompts have most of the drafts, so the interval over prompts is wide.
    # But both sides are exact: each request that took more steps than allowed has lost some.
    faulty_loss = losses["faulty"]
    assert faulty_loss.verdict is not EngineVerdict.NONE_LOST
    assert faulty_loss.ratio.value < 0.98
    assert faulty_loss.taken_as_allowed < faulty_loss.requests
    assert "faulty at one request at a time: this server yields " in ran("report", run, "--verbose")
