"""`compare` on a real vLLM that drafts by n-grams: its `/tokenize` tells what its texts allow."""

from dataclasses import replace
from pathlib import Path

import pytest

from draftworth.analysis.engine_loss import EngineLoss
from draftworth.cli import main
from draftworth.decision.facts import facts_of
from draftworth.planning.resolved import load
from draftworth.records.run_folder import read_run
from rehearsal.engine_processes import EngineServer
from tests.conftest import ROOT
from tests.rehearsal.engines import engine_server, serve_together

N_GRAM = (
    '--speculative-config={"method":"ngram","num_speculative_tokens":5,"prompt_lookup_max":4,'
    '"prompt_lookup_min":2}'
)


def loss_by_compare(
    folder: Path, plain: EngineServer, drafting: EngineServer, stated: str
) -> EngineLoss:
    """Return the loss that `compare` reports if its option has these lookup lengths."""
    variant = f"n-gram={drafting.base_url},window=5,ngram={stated}"
    options = ("--model", "rehearsal", "--rounds", "2", "--output-tokens", "96")
    prompts = ("--prompts", str(ROOT / "prompts/structured/count.jsonl"), "--out", str(folder))
    assert (
        main(["compare", "--baseline", plain.base_url, "--variant", variant, *options, *prompts])
        == 0
    )
    (run,) = folder.iterdir()
    (loss,) = facts_of(read_run(run), {}).engine_losses
    return loss


@pytest.mark.engine
@pytest.mark.usefixtures("_every_request_counts")
def test_a_right_engine_loses_nothing(tmp_path: Path) -> None:
    """With lengths other than the server's, other steps are allowed than those that it took.

    A busy machine merges chunks. Where these are more than one in twenty, requests with merged
    chunks are not shown to be exact, and the answer may be open.
    """
    experiment = load(ROOT / "experiments/rehearsal.yaml")
    plain, drafting = (
        replace(
            engine_server(tmp_path, experiment, experiment.variants[0]),
            name=name,
            log_path=tmp_path / f"{name}.log",
        )
        for name in ("plain", "n-gram")
    )
    drafting.arguments = [*drafting.arguments, N_GRAM]
    with serve_together([plain, drafting]):
        right = loss_by_compare(tmp_path / "right", plain, drafting, "2-4")
        wrong = loss_by_compare(tmp_path / "wrong", plain, drafting, "6")
    assert right.verdict in ("none lost", "open")
    assert right.taken > 1.1
    assert wrong.verdict == "more"
    assert right.taken_as_allowed > wrong.taken_as_allowed == 0
