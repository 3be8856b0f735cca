"""The command, with models that read nothing; with the engine, beside servers with a draft."""

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from draftworth.analysis.likelihoods import judged
from draftworth.cli import estimate, main
from draftworth.estimate.reader import Reader
from draftworth.records import likelihoods
from draftworth.records.codec import dump_record
from draftworth.records.readings import Output, Reading
from tests.conftest import ROOT
from tests.draftworth.cli.test_estimate_settling import card, drafted, plain
from tests.draftworth.estimate.written_runs import HUB_EXPERIMENT, TINY_PAIR, write_answers
from tests.rehearsal.engines import engine_python
from tests.rehearsal.test_rehearsal import short_rehearsal
from tests.support.blocks import make_run
from tests.support.experiments import both, put, resolved, write_experiment
from tests.support.readings import make_reading

REHEARSAL = ROOT / "experiments/rehearsal.yaml"
CLASSES = ("structured", "open_ended")
# Of the built run.
RUN_ID = make_run().run_id
DRAFT = {"path": str(ROOT / "rehearsal/tiny_pair/draft")}


def variant(window: int) -> dict[str, object]:
    return {"name": f"k{window}", "method": "draft_model", "draft": dict(DRAFT), "window": window}


@pytest.mark.engine
def test_a_pass_over_the_baselines_outputs_predicts_what_every_window_yields(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    engine = engine_python().parents[1]
    monkeypatch.chdir(ROOT)
    experiment = write_experiment(
        tmp_path,
        both(
            put("target", "path", value=str(ROOT / "rehearsal/tiny_pair/target")),
            put("variants", value=[{"name": "b", "method": "none"}, variant(3), variant(12)]),
            put("workload", "classes", 0, "cases", value=["count"]),
            put("workload", "classes", 1, "cases", value=["poem"]),
            put("workload", "requests_per_round", value=8),
        ),
        base="rehearsal",
    )
    engine_option = ("--engine", str(engine))
    runs = tmp_path / "runs"
    assert (
        main(["rehearse", "--experiment", str(experiment), *engine_option, "--out", str(runs)]) == 0
    )
    (run,) = runs.iterdir()
    capsys.readouterr()
    greedy = likelihoods.read_likelihoods(run, run.name)
    assert [k.variant for k in greedy] == ["b", "k3", "k12"]
    assert all(judged(k).is_the_targets for k in greedy), greedy

    code = main(
        [
            *("estimate", str(experiment), "--answers", str(run), "--json", *engine_option),
            *("--out", str(tmp_path / "estimates")),
        ]
    )

    assert code == 0
    (found,) = json.loads(capsys.readouterr().out)
    predictions = found["predictions"]
    assert len(predictions) == 4, "two windows in two classes"
    for prediction in predictions:
        assert abs(prediction["difference"]) <= 0.01, prediction
        assert prediction["requests"] == 8
    # A machine that is busy merges chunks, and those requests do not show their steps.
    shown, same = (sum(p[name] for p in predictions) for name in ("shown", "same_sequence"))
    if shown >= 16:
        assert same >= 0.75 * shown, predictions


@pytest.mark.engine
def test_the_broken_sampler_of_the_cpu_engine_is_caught_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a draft, vLLM 0.32.0 on CPU samples noise at temperature 0.8; without, it does not.

    Nor does it draw as the target's own generation_config.json would have it: the most likely token
    alone.
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

    code = main(
        [
            *("rehearse", "--experiment", str(experiment), "--out", str(runs)),
            *("--engine", str(engine)),
        ]
    )

    assert code == 0
    (run,) = runs.iterdir()
    found = {
        k.variant: k
        for k in likelihoods.read_likelihoods(run, run.name)
        if isinstance(k, likelihoods.Likelihood)
    }
    assert judged(found["baseline"]).is_the_targets, found
    assert not judged(found["tiny-draft-k7"]).is_the_targets
    assert found["tiny-draft-k7"].per_token < -1
    output = capsys.readouterr().out
    assert "inconclusive; tiny-draft-k7: its answers are not the target's" in output
    caught_by_the_draft_too(experiment, run, tmp_path / "tokenizer", engine)


def caught_by_the_draft_too(experiment: Path, run: Path, tokenizer: Path, engine: Path) -> None:
    """Where nobody has the target's weights."""
    (run / likelihoods.LIKELIHOODS_FILE).unlink()
    shutil.copytree(
        ROOT / "rehearsal/tiny_pair/target", tokenizer, ignore=shutil.ignore_patterns("*.safetens*")
    )
    code = main(
        [
            *("estimate", str(experiment), "--answers", str(run), "--target", str(tokenizer)),
            *("--engine", str(engine), "--out", str(tokenizer.parent / "read")),
        ]
    )

    assert code == 0
    # What noise it is differs from start to start: it may be as likely as the target's own words in
    # one class, and in both together, but not in each.
    by_class = likelihoods.read_likelihoods(run, run.name)
    assert all(isinstance(found, likelihoods.DraftLikelihood) for found in by_class)
    assert False in {judged(found).is_the_targets for found in by_class}, by_class


@pytest.mark.engine
def test_the_shipped_answers_need_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are what the target of the tiny pair says: it would have said every token of them."""
    engine = engine_python().parents[1]
    monkeypatch.chdir(ROOT)
    target, draft = "rehearsal/tiny_pair/target", "rehearsal/tiny_pair/draft"

    code = main(
        [
            *("estimate", "experiments/rehearsal.yaml", "--json", "--out", str(tmp_path)),
            *("--answers", "rehearsal/tiny_pair/answers", "--draft", target, "--draft", draft),
            *("--engine", str(engine)),
        ]
    )

    assert code == 0
    by_target, by_draft = json.loads(capsys.readouterr().out)
    assert (by_target["outputs"], by_draft["outputs"]) == (64, 64)
    assert by_target["hit_rate"] > 0.99, "answers of another target: make them again"
    assert 0.4 < by_draft["hit_rate"] < 0.7


def test_heads_are_refused_with_the_reason(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["estimate", str(ROOT / "experiments/llama-3.1-8b-eagle3.yaml")])

    assert code == 2
    assert "read the target's hidden states, which no text holds" in capsys.readouterr().err


def test_a_draft_of_the_hub_wants_its_folder(capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--target", str(TINY_PAIR / "target"), "--answers", str(TINY_PAIR / "answers"))

    code = main(["estimate", str(HUB_EXPERIMENT), *options])

    assert code == 2
    error = capsys.readouterr().err
    assert "--draft DIR" in error
    assert "--draft s3://BUCKET/Qwen/Qwen3-1.7B/main (BUCKET: the stack's output" in error


def test_a_target_of_the_hub_wants_its_tokenizer(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["estimate", str(HUB_EXPERIMENT)])

    assert code == 2
    assert "--target s3://BUCKET/Qwen/Qwen3-32B/main (BUCKET" in capsys.readouterr().err


def test_prompts_without_answers_say_where_to_get_some(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["estimate", str(short_rehearsal(tmp_path)), "--out", str(tmp_path)])

    assert code == 2
    error = capsys.readouterr().err
    assert "no answers lie beside its prompts" in error
    assert "--answers RUN" in error


class HalfRight(Reader):
    """Reads nothing: of ten tokens the draft would have said all but the fifth."""

    def readings(self, model: Path, outputs: Sequence[Output], **_: Any) -> list[Reading]:
        assert model.is_dir()
        return [make_reading("1111011111", of=output) for output in outputs]


def estimated(
    run: Path, monkeypatch: pytest.MonkeyPatch, *options: str, experiment: Path = REHEARSAL
) -> int:
    monkeypatch.setattr(estimate, "Reader", HalfRight)
    monkeypatch.setattr("rehearsal.install.install_engine", lambda *_, **__: Path("python"))
    return main(["estimate", str(experiment), "--answers", str(run), *options])


@pytest.mark.parametrize("draft", [None, "rehearsal/tiny_pair/draft", "link"])
def test_the_experiments_own_draft_is_known_however_it_is_named(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    draft: str | None,
) -> None:
    run = write_answers(tmp_path / "run", classes=CLASSES)
    monkeypatch.chdir(ROOT)
    if draft == "link":
        draft = str(tmp_path / "link")
        os.symlink(DRAFT["path"], draft)

    assert estimated(run, monkeypatch, *(["--draft", draft] if draft else [])) == 0

    output = capsys.readouterr().out
    assert f"\n{draft or 'rehearsal/tiny_pair/draft'}\n" in output
    assert "Predicted without a server" in output
    assert "each step as predicted" in output
    kept = likelihoods.read_predictions(run, RUN_ID)
    assert {(p.variant, p.prompt_class) for p in kept} == {
        ("tiny-draft-k7", name) for name in CLASSES
    }


def test_predictions_of_another_draft_stay_in_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = write_answers(tmp_path / "run", classes=CLASSES)
    monkeypatch.chdir(ROOT)
    other = likelihoods.Prediction(
        variant="other",
        prompt_class=CLASSES[0],
        requests=1,
        predicted=2.0,
        measured=2.0,
        shown=1,
        same_sequence=1,
    )
    record = likelihoods.Predictions(run_id=RUN_ID, predictions=(other,))
    (run / likelihoods.PREDICTIONS_FILE).write_bytes(dump_record(record))

    assert estimated(run, monkeypatch) == 0

    assert {p.variant for p in likelihoods.read_predictions(run, RUN_ID)} == {
        "other",
        "tiny-draft-k7",
    }


def test_answers_of_nowhere_are_refused_with_what_may_be_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert estimated(tmp_path / "nowhere", monkeypatch) == 2

    error = capsys.readouterr().err
    assert "nowhere, where nothing is" in error
    assert "a folder with CLASS/CASE.jsonl" in error


def test_the_page_says_what_the_terminal_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = write_answers(tmp_path / "run", classes=CLASSES)
    page = tmp_path / "estimate.html"

    assert estimated(run, monkeypatch, "--html", str(page)) == 0

    shown = [line for line in capsys.readouterr().out.splitlines() if "step cost" in line]
    assert shown
    text = page.read_text()
    assert "<h2>Predicted without a server" in text
    assert "step cost = tokens a step to break even" in text
    assert "cost of a token, traffic mix" in text


def test_a_card_and_a_price_say_what_an_hour_settles_and_what_a_day_can_save(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    classes = [c.name for c in resolved().spec.workload.classes]
    run = write_answers(tmp_path / "run", "Qwen/Qwen3-32B", of=HUB_EXPERIMENT, classes=classes)
    path = tmp_path / "step_costs.json"
    path.write_bytes(dump_record(card(plain(), drafted())))
    pair = ("--draft", str(TINY_PAIR / "draft"), "--target", str(TINY_PAIR / "target"))
    options = (*pair, "--card", str(path), "--tokens-per-day", "1000000")

    assert estimated(run, monkeypatch, *options, experiment=HUB_EXPERIMENT) == 0

    output = capsys.readouterr().out
    assert "What would settle it: a run that measures window" in output
    assert "by the assumptions of `plan`: " in output
    assert " billed minutes x 1 node" in output
    assert "1,000,000 tokens a day x" in output
    assert "x 0.04 s a step /" in output


def test_steps_of_sampled_outputs_are_not_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = write_answers(tmp_path / "run", classes=CLASSES, temperature=0.8)

    assert estimated(run, monkeypatch) == 0

    assert "as predicted" not in capsys.readouterr().out


def test_windows_go_from_the_methods_least_to_15_and_to_the_experiments_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    edit = both(
        put("target", "path", value=str(ROOT / "rehearsal/tiny_pair/target")),
        put("variants", value=[{"name": "b", "method": "none"}, variant(20)]),
    )
    experiment = write_experiment(tmp_path, edit, base="rehearsal")
    run = write_answers(tmp_path / "run", of=experiment, classes=CLASSES)

    assert estimated(run, monkeypatch, "--json", experiment=experiment) == 0

    (found,) = json.loads(capsys.readouterr().out)
    assert [w["window"] for w in found["windows"]] == [*range(1, 16), 20]
