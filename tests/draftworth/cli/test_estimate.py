"""The command `estimate`, with a fake that runs no model and, in some tests, with the engine."""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from draftworth.analysis.likelihood_check import judged
from draftworth.cli import estimate
from draftworth.estimate.run_tokenizing import TargetTokenizer
from draftworth.records import likelihoods
from draftworth.records.acceptance_profile import load_profile, text_hash
from draftworth.records.codec import dump_record
from draftworth.records.logged_traffic import read_prompt_forecasts
from draftworth.records.readings import Output, TokenIds
from tests.conftest import ROOT
from tests.draftworth.cli.step_cost_cards import card, drafted, plain
from tests.draftworth.conftest import Ran
from tests.draftworth.estimate.written_runs import CLASSES, HUB_EXPERIMENT, TINY_PAIR, write_answers
from tests.rehearsal.engines import engine_python
from tests.support.blocks import make_run
from tests.support.experiments import put, resolved, write_experiment
from tests.support.predictions import prediction
from tests.support.profiles import draft_of, write_profile_of
from tests.support.readings import HalfRight
from tests.support.rehearsals import short_rehearsal

REHEARSAL = ROOT / "experiments/rehearsal.yaml"
DRAFT = ROOT / "rehearsal/tiny_pair/draft"
# The id of the run that `write_answers` writes.
RUN_ID = make_run().run_id
PLAIN_AND_NGRAM = [
    {"name": "b", "method": "none"},
    {"name": "ngram-k5", "method": "ngram", "window": 5},
]


def printed_estimates(output: str) -> Any:
    """The estimates in a command's output that begins with JSON and goes on with messages."""
    document = json.JSONDecoder().raw_decode(output)[0]
    assert document["schema"] == "draftworth.estimate/1"
    return document["estimates"]


@pytest.mark.engine
@pytest.mark.usefixtures("_every_request_counts")
def test_the_cpu_engines_broken_sampler_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ran: Ran
) -> None:
    """With a draft, vLLM 0.32.0 on CPU samples noise at temperature 0.8; without one, it does not.

    The target's generation_config.json has `top_k` 1, by which only the most likely token could be
    drawn. The baseline passes the check, so the run does not use this setting.
    """
    engine = engine_python().parents[1]
    monkeypatch.chdir(ROOT)
    experiment = short_rehearsal(tmp_path, requests=8)
    text = experiment.read_text()
    target = shutil.copytree(ROOT / "rehearsal/tiny_pair/target", tmp_path / "target")
    settings = json.loads((target / "generation_config.json").read_text())
    (target / "generation_config.json").write_text(json.dumps({**settings, "top_k": 1}))
    text = text.replace(str(ROOT / "rehearsal/tiny_pair/target"), str(target))
    experiment.write_text(text.replace("workload:\n", "workload:\n  temperature: 0.8\n"))
    runs = tmp_path / "runs"

    output = ran("rehearse", "--experiment", experiment, "--out", runs, "--engine", engine)
    (run,) = runs.iterdir()
    by_variant = {
        k.variant: k
        for k in likelihoods.read_likelihoods(run, run.name)
        if isinstance(k, likelihoods.Likelihood)
    }
    assert judged(by_variant["baseline"]).is_the_targets, by_variant
    assert not judged(by_variant["tiny-draft-k7"]).is_the_targets
    assert by_variant["tiny-draft-k7"].per_token < -1
    assert "its answers are not the target's" in output
    caught_by_the_draft_too(experiment, run, tmp_path / "tokenizer", engine, ran)


def caught_by_the_draft_too(
    experiment: Path, run: Path, tokenizer: Path, engine: Path, ran: Ran
) -> None:
    """Check the outputs again on a machine without the target's weights, so by the draft model."""
    (run / likelihoods.LIKELIHOODS_FILE).unlink()
    shutil.copytree(
        ROOT / "rehearsal/tiny_pair/target", tokenizer, ignore=shutil.ignore_patterns("*.safetens*")
    )
    options = ("--answers", run, "--target", tokenizer, "--engine", engine)
    ran("estimate", experiment, *options, "--out", tokenizer.parent / "read")
    # The noise differs each time the server starts. Under the draft it may be as likely as the
    # target's own words in one class, or in both classes pooled, but not in each class.
    by_class = likelihoods.read_likelihoods(run, run.name)
    assert all(isinstance(reading, likelihoods.DraftLikelihood) for reading in by_class)
    assert False in {judged(reading).is_the_targets for reading in by_class}, by_class


@pytest.mark.engine
def test_the_shipped_answers_need_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ran: Ran
) -> None:
    """The shipped answers are the tiny target's own: it would choose nearly all of their tokens."""
    engine = engine_python().parents[1]
    monkeypatch.chdir(ROOT)
    target, draft = "rehearsal/tiny_pair/target", "rehearsal/tiny_pair/draft"

    models = ("--draft", target, "--draft", draft, "--engine", engine)
    options = ("--json", "--out", tmp_path, "--answers", "rehearsal/tiny_pair/answers", *models)
    _, by_target, by_draft = printed_estimates(
        ran("estimate", "experiments/rehearsal.yaml", *options)
    )
    assert (by_target["outputs"], by_draft["outputs"]) == (64, 64)
    assert by_target["hit_rate"] > 0.99, "answers of another target: make them again"
    assert 0.4 < by_draft["hit_rate"] < 0.7


def test_an_unreadable_draft_is_refused_with_next_steps(tmp_path: Path, ran: Ran) -> None:
    output = ran("estimate", ROOT / "experiments/llama-3.1-8b-eagle3.yaml", code=2)
    assert "read the target's hidden states, which no text holds" in output
    target, answers = ("--target", TINY_PAIR / "target"), ("--answers", TINY_PAIR / "answers")
    output = ran("estimate", HUB_EXPERIMENT, *target, *answers, "--tokens-per-day", "9")
    assert "the drafts are not read: " in output
    assert "n-gram drafting, " in output
    assert f"tokens of the tokenizer in {TINY_PAIR.relative_to(ROOT) / 'target'} after" in output
    assert re.search(r"A draft model must beat 1\.\d\d tokens per step \(window 5", output)
    assert "so it saves nothing there; a vLLM of your own serves it" in output
    assert "What would settle it" not in output
    assert "--draft DIR" in output
    assert "--draft s3://BUCKET/Qwen/Qwen3-1.7B/main (BUCKET: the stack's output" in output
    output = ran("estimate", HUB_EXPERIMENT, code=2)
    assert "--target s3://BUCKET/Qwen/Qwen3-32B/main (BUCKET" in output
    output = ran("estimate", short_rehearsal(tmp_path), "--out", tmp_path, code=2)
    assert "no answers lie beside its prompts" in output
    assert "--answers RUN" in output


TOKEN_IDS = TargetTokenizer.token_ids
IDS_OF: dict[str, list[TokenIds]] = {}


def token_ids(
    tokenizer: TargetTokenizer, outputs: Sequence[Output], *, enable_thinking: bool
) -> list[TokenIds]:
    """Stand for `TargetTokenizer.token_ids`: one process makes the ids of equal outputs."""
    key = repr((tokenizer, outputs, enable_thinking))
    if key not in IDS_OF:
        IDS_OF[key] = TOKEN_IDS(tokenizer, outputs, enable_thinking=enable_thinking)
    return IDS_OF[key]


@pytest.fixture
def estimated(ran: Ran, monkeypatch: pytest.MonkeyPatch) -> Ran:
    """Runs `estimate` on a run with a fake reader, which runs no model and makes up readings."""
    monkeypatch.setattr(estimate, "Reader", HalfRight)
    monkeypatch.setattr(TargetTokenizer, "token_ids", token_ids)
    monkeypatch.setattr("rehearsal.install.install_engine", lambda *_, **__: Path("python"))
    monkeypatch.chdir(ROOT)

    def run(answers: Path, *options: object, experiment: Path = REHEARSAL, code: int = 0) -> str:
        return ran("estimate", experiment, "--answers", answers, *options, code=code)

    return run


@pytest.mark.parametrize("draft", [None, "rehearsal/tiny_pair/draft", "link"])
def test_the_experiments_draft_is_recognized_by_any_name(
    tmp_path: Path, estimated: Ran, draft: str | None
) -> None:
    run = write_answers(tmp_path / "run", classes=CLASSES)
    if draft == "link":
        draft = str(tmp_path / "link")
        os.symlink(DRAFT, draft)
    output = estimated(run, *(["--draft", draft] if draft else []))
    assert f"\n{draft or 'rehearsal/tiny_pair/draft'}\n" in output
    assert "Predicted without a server" in output
    assert "each step as predicted" in output
    kept = likelihoods.read_predictions(run, RUN_ID)
    of_draft = {("tiny-draft-k7", name) for name in CLASSES}
    assert {(p.variant, p.prompt_class) for p in kept} == of_draft


def test_predictions_of_another_draft_stay_in_the_run(tmp_path: Path, estimated: Ran) -> None:
    run = write_answers(tmp_path / "run", classes=CLASSES)
    other = (prediction(variant="other"),)
    record = likelihoods.Predictions(run_id=RUN_ID, predictions=other)
    (run / likelihoods.PREDICTIONS_FILE).write_bytes(dump_record(record))
    estimated(run)
    kept = likelihoods.read_predictions(run, RUN_ID)
    assert {p.variant for p in kept} == {"other", "tiny-draft-k7"}


@pytest.mark.parametrize("linked", [likelihoods.PREDICTIONS_FILE, ".predictions.json.partial"])
def test_no_file_outside_of_the_run_is_written(tmp_path: Path, estimated: Ran, linked: str) -> None:
    run = write_answers(tmp_path / "run", classes=CLASSES)
    mine = tmp_path / "mine"
    record = likelihoods.Predictions(run_id=RUN_ID, predictions=())
    mine.write_bytes(before := dump_record(record))
    (run / linked).symlink_to(mine)
    estimated(run)
    assert mine.read_bytes() == before
    assert likelihoods.read_predictions(run, RUN_ID)


def test_missing_answers_are_refused_with_what_is_allowed(tmp_path: Path, estimated: Ran) -> None:
    error = estimated(tmp_path / "nowhere", code=2)
    assert "nowhere, where nothing is" in error
    assert "a folder with CLASS/CASE.jsonl" in error


@pytest.mark.usefixtures("undrawn")
def test_the_page_says_what_the_terminal_does(tmp_path: Path, estimated: Ran) -> None:
    page = tmp_path / "estimate.html"
    output = estimated(write_answers(tmp_path / "run", classes=CLASSES), "--html", page)
    assert "step costs are published, not measured" in output
    assert "the run's own step costs are not used: " in output
    text = page.read_text()
    assert "<h2>Predicted without a server" in text
    assert "step cost = tokens per step to break even" in text
    assert "cost of a token, traffic mix" in text


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("is_in_run", [False, True], ids=["--card", "the run's own card"])
def test_card_and_price_show_what_a_day_saves(
    tmp_path: Path, estimated: Ran, is_in_run: bool
) -> None:
    classes = [c.name for c in resolved().spec.workload.classes]
    run = write_answers(tmp_path / "run", "Qwen/Qwen3-32B", of=HUB_EXPERIMENT, classes=classes)
    path = (run if is_in_run else tmp_path) / "step_costs.json"
    path.write_bytes(dump_record(card(plain(), drafted())))
    pair = ("--draft", TINY_PAIR / "draft", "--target", TINY_PAIR / "target")
    page = tmp_path / "estimate.html"
    options = (*pair, "--tokens-per-day", "1000000", "--html", page)
    card_option = () if is_in_run else ("--card", path)
    output = estimated(run, *options, *card_option, experiment=HUB_EXPERIMENT)
    for words in (
        "What would settle it: a run that measures window",
        "by the assumptions of `plan`: ",
        " billed minutes x 1 node",
        "1,000,000 tokens per day x",
        "x 0.04 s per step /",
        "forecast: by outputs that were read; step costs are measured on servers with a",
    ):
        assert words in output
    assert "the assumptions of <code>plan</code>: " in page.read_text()
    assert "`" not in page.read_text()


def test_steps_of_sampled_outputs_are_not_compared(tmp_path: Path, estimated: Ran) -> None:
    run = write_answers(tmp_path / "run", classes=CLASSES, temperature=0.8)
    assert "as predicted" not in estimated(run)


def test_windows_range_to_15_and_the_experiments_window(tmp_path: Path, estimated: Ran) -> None:
    edit = put("variants", 1, "window", value=20)
    experiment = write_experiment(tmp_path, edit, base="rehearsal")
    run = write_answers(tmp_path / "run", of=experiment, classes=CLASSES)
    by_ngram, by_draft = printed_estimates(estimated(run, "--json", experiment=experiment))
    assert [w["window"] for w in by_draft["windows"]] == [*range(1, 16), 20]
    assert [w["window"] for w in by_ngram["windows"]] == [*range(1, 16)]


def test_ngram_drafting_needs_no_model_and_no_engine(
    tmp_path: Path, ran: Ran, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(estimate, "Reader", None)
    edit = put("variants", value=PLAIN_AND_NGRAM)
    experiment = write_experiment(tmp_path, edit, base="rehearsal")
    answers = ("--answers", TINY_PAIR / "answers")
    (estimated,) = printed_estimates(ran("estimate", experiment, *answers, "--json"))
    assert (estimated["method"], estimated["draft"], estimated["hit_rate"]) == ("ngram", None, None)
    curve = [w["tokens_per_step"]["structured"]["value"] for w in estimated["windows"]]
    assert curve == sorted(curve)
    assert curve[-1] > 2, "lists, code and JSON repeat themselves"
    assert estimated["windows"][-1]["tokens_per_step"]["open_ended"]["value"] < 1.5

    run = write_answers(tmp_path / "run", of=experiment, classes=CLASSES)
    assert "No image for Neuron" not in ran("estimate", experiment, "--answers", run)
    kept = likelihoods.read_predictions(run, RUN_ID)
    assert [p.variant for p in kept] == ["ngram-k5", "ngram-k5"]

    short = tmp_path / "short"
    shutil.copytree(TINY_PAIR / "answers", short)
    for path in (short / "open_ended").iterdir():
        lines = map(json.loads, path.read_text().splitlines())
        path.write_text("".join(json.dumps({**line, "text": "a"}) + "\n" for line in lines))
    output = ran("estimate", experiment, "--answers", short, code=2)
    assert "outputs of class open_ended: given: none longer than one token" in output


def test_a_draft_is_estimated_without_the_targets_tokens(tmp_path: Path, estimated: Ran) -> None:
    target = tmp_path / "target"
    target.mkdir()
    for name in ("config.json", "tokenizer_config.json"):
        shutil.copy(TINY_PAIR / "target" / name, target)
    (target / "model.safetensors").touch()
    options = ("--json", "--target", target)
    output = estimated(write_answers(tmp_path / "run", classes=CLASSES), *options)
    assert "n-gram drafting is not estimated: " in output
    (draft_estimate,) = printed_estimates(output)
    assert draft_estimate["method"] == "draft_model"


def test_the_profile_names_models_texts_and_windows_once(tmp_path: Path, estimated: Ran) -> None:
    classes = [c.name for c in resolved().spec.workload.classes]
    run = write_answers(tmp_path / "run", "Qwen/Qwen3-32B", of=HUB_EXPERIMENT, classes=classes)
    draft = shutil.copytree(TINY_PAIR / "draft", tmp_path / "Qwen3-1.7B")
    pair = ("--draft", draft, "--target", TINY_PAIR / "target")
    options = (*pair, "--profile", tmp_path / "profile.json", "--out", tmp_path / "kept")
    estimated(run, *options, experiment=HUB_EXPERIMENT)
    profile = load_profile((tmp_path / "profile.json").read_bytes())
    assert (profile.target, profile.target_revision) == ("Qwen/Qwen3-32B", "main")
    assert profile.text_sha256 == text_hash([hashlib.sha256(b"1 2 3").hexdigest()])
    by_ngram, by_draft = profile.drafts
    assert by_ngram.method == "ngram"
    assert (by_draft.draft, by_draft.draft_revision) == ("Qwen/Qwen3-1.7B", "main")
    windows = by_draft.classes["structured"]
    assert [w.drafts_checked for w in windows] == [*range(1, 15)], "one less than the window"
    assert [share.value for share in windows[2].accepted] == [0.5, 0.5, 0.5]

    for name, why in (
        ("in/no/folder.json", "cannot be written: No such file or directory; next: give another"),
        ("profile.yaml", "profile.yaml, allowed: a name that ends with .json"),
    ):
        refused = estimated(
            run, *pair, "--profile", tmp_path / name, experiment=HUB_EXPERIMENT, code=2
        )
        assert why in refused


def test_each_prompt_gets_a_forecast_of_its_steps(
    tmp_path: Path, ran: Ran, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(estimate, "Reader", None)
    edit = put("variants", value=PLAIN_AND_NGRAM)
    experiment = write_experiment(tmp_path, edit, base="rehearsal")
    options = ("--answers", TINY_PAIR / "answers", "--by-prompt", tmp_path / "forecasts.json")
    printed = printed_estimates(ran("estimate", experiment, *options, "--json"))
    forecasts = read_prompt_forecasts(tmp_path / "forecasts.json")
    (window,) = (w for w in printed[0]["windows"] if w["window"] == forecasts.window)
    for prompt_class, tokens in window["tokens_per_step"].items():
        of_class = [f for f in forecasts.prompts if f.prompt_class == prompt_class]
        mean = sum(f.tokens for f in of_class) / sum(f.steps for f in of_class)
        assert mean == pytest.approx(tokens["value"], abs=1e-5)
    assert len(forecasts.prompts) == printed[0]["outputs"]


def test_a_draft_models_forecasts_come_first(tmp_path: Path, estimated: Ran) -> None:
    run = write_answers(tmp_path / "run", classes=CLASSES)
    estimated(run, "--by-prompt", tmp_path / "forecasts.json")
    forecasts = read_prompt_forecasts(tmp_path / "forecasts.json")
    assert (forecasts.draft, forecasts.window) == ("rehearsal/tiny_pair/draft", 7)
    nowhere = tmp_path / "in" / "no" / "folder.json"
    refused = estimated(run, "--by-prompt", nowhere, code=2)
    assert "cannot be written: No such file or directory; next: give another file" in refused


def test_forecasts_are_of_the_draft_that_is_measured(tmp_path: Path, estimated: Ran) -> None:
    """A hub's draft is read only where `--draft` names its folder; n-gram drafting is another."""
    classes = [c.name for c in resolved().spec.workload.classes]
    run = write_answers(tmp_path / "run", "Qwen/Qwen3-32B", of=HUB_EXPERIMENT, classes=classes)
    forecasts, target = tmp_path / "forecasts.json", ("--target", TINY_PAIR / "target")
    options = (*target, "--by-prompt", forecasts)
    refused = estimated(run, *options, experiment=HUB_EXPERIMENT, code=2)
    assert "--by-prompt: given without --draft" in refused
    assert not forecasts.exists()
    draft = ("--draft", TINY_PAIR / "draft")
    estimated(run, *options, *draft, experiment=HUB_EXPERIMENT)
    assert forecasts.exists()


def test_measured_acceptance_needs_no_output_and_no_model(tmp_path: Path, ran: Ran) -> None:
    """An acceptance profile can also be of an EAGLE head, which outputs alone cannot estimate.

    Shown are the windows that all classes have and whose step cost is known.
    """
    head = draft_of("RedHatAI/head")
    head["classes"] = {"coding": head["classes"]["structured"][:3]}
    write_profile_of(tmp_path, head)
    options = ("--acceptance", tmp_path / "profile.json")
    eagle, experiment = ROOT / "experiments/llama-3.1-8b-eagle3.yaml", HUB_EXPERIMENT
    (estimated,) = printed_estimates(ran("estimate", experiment, *options, "--json"))
    assert estimated["source"] == "Acceptance of Qwen/Qwen3-32B by a test"
    assert [w["drafts_checked"] for w in estimated["windows"]] == [2, 3, 4]
    assert estimated["windows"][0]["tokens_per_step"]["coding"]["value"] == 1.5
    output = ran("estimate", experiment, *options)
    assert "forecast: by acceptance that was given; step costs are published" in output
    assert "Acceptance of Qwen/Qwen3-32B by a test. A step: published for fused_draft" in output
    output = ran("estimate", eagle, *options, code=2)
    assert "--card: given nothing, allowed: the step-cost card of a run with eagle3" in output

    output = ran("estimate", experiment, *options, "--draft", tmp_path, code=2)
    assert "--draft: given with --acceptance, allowed: without, as no output is read" in output
    output = ran("estimate", experiment, *options, "--by-prompt", tmp_path / "f", code=2)
    assert "--by-prompt: given with --acceptance" in output
    head["classes"]["coding"] = [{"drafts_checked": 40, "tokens_per_step": {"value": 2.0}}]
    write_profile_of(tmp_path, head)
    output = ran("estimate", experiment, *options, code=2)
    assert "RedHatAI/head: given other windows, allowed: 1 to 14 drafts checked" in output
    assert "cannot be read: No such" in ran(
        "estimate", experiment, "--acceptance", tmp_path / "no", code=2
    )
