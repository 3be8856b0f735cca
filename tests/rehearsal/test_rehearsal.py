"""The whole rehearsal, with stand-in servers and with the real engine."""

import json
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import chdir, contextmanager
from pathlib import Path

import pytest

from draftworth.analysis.engine_loss import EngineVerdict, engine_losses_of
from draftworth.analysis.likelihood_check import judged
from draftworth.analysis.pairing import Traffic
from draftworth.analysis.summary import groups_of, summarize
from draftworth.claims.judging import judge, read_claims
from draftworth.cli import main
from draftworth.cli.progress import RunProgress
from draftworth.decision.verdict import compare
from draftworth.estimate.run_teacher_forcing import Reader
from draftworth.measuring.result_files import FolderSink
from draftworth.measuring.server_lifecycle import FixedServers
from draftworth.metrics.definitions import ACCEPTANCE_RATE, TOKENS_PER_STEP
from draftworth.planning.resolved import ResolvedLocal, load
from draftworth.planning.specify_run import Server, run_spec
from draftworth.records import likelihoods
from draftworth.records.judgement import Judgement
from draftworth.records.results import BlockResult
from draftworth.records.run_folder import read_run
from draftworth.records.transcripts import read_transcripts
from draftworth.report.sentences import headline
from rehearsal.prediction_checks import Check, checks_of
from rehearsal.rehearse import _fetched, _Rehearsal
from rehearsal.trained import fetching
from tests.conftest import ROOT, every_request_counts
from tests.draftworth.report.runs import make_facts, make_run
from tests.rehearsal.engines import engine_python, stand_in_pip
from tests.support.rehearsals import short_rehearsal
from tests.support.stand_in_runs import server
from tests.support.stream_server import stream_server

# The judgement for each class, and the tiny pair's tokens per step.
LESSON: dict[str, tuple[Judgement, float]] = {
    "structured": (Judgement.CHEAPER, 8.0),
    "open_ended": (Judgement.MORE_EXPENSIVE, 1.1),
}
# The widest interval of a cost ratio on a machine without other work.
WIDEST_QUIET = 0.3


def rehearse_with_stand_ins(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    read_outputs: Callable[..., object],
    *,
    requests: int,
    trained: bool = False,
) -> int:
    """Rehearse with two stand-in servers: one token per step, four tokens per step."""

    @contextmanager
    def stand_ins(experiment: ResolvedLocal, *_: object, **__: object) -> Iterator[object]:
        with (
            stream_server(server(*[1] * 8, gap_seconds=0.02)) as slow,
            stream_server(server(4, 4, gap_seconds=0.02)) as fast,
        ):
            urls = zip(experiment.variants, (slow.base_url, fast.base_url), strict=True)
            servers = {variant.name: [Server(base_url=url)] for variant, url in urls}
            yield run_spec(experiment, servers=servers, ready_deadline_seconds=60), FixedServers()

    monkeypatch.setattr("rehearsal.server_slots.local_engines", stand_ins)
    monkeypatch.setattr("rehearsal.install.install_engine", lambda path, **_: path)
    monkeypatch.setattr("rehearsal.rehearse._Rehearsal.read_outputs", read_outputs)
    experiment = short_rehearsal(folder, requests=requests)
    monkeypatch.setattr("rehearsal.rehearse._fetched", lambda *_: experiment)
    choice = ("--pair", "smollm2") if trained else ("--experiment", str(experiment))
    return main(["rehearse", *choice, "--out", str(folder / "runs")])


@pytest.mark.emulator
def test_a_run_passes_files_queue_publisher_and_metrics(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code = rehearse_with_stand_ins(tmp_path, monkeypatch, lambda *_: (), requests=6)

    output = capsys.readouterr()
    assert code == 0, output.err
    assert "publisher: 4 result files and the verdict into CloudWatch" in output.err
    assert "CloudWatch: TTFT of structured/c1/baseline" in output.err
    # The stand-ins' costs are not tested here.
    assert output.out.startswith(("Decision: ", "No decision: "))
    (folder,) = (tmp_path / "runs").iterdir()
    run = read_run(folder)
    assert len(run.blocks) == 4
    assert run.result.status == "complete"
    published = judge(read_claims(ROOT / "experiments/claims/published.yaml"), make_facts(run))
    assert [verdict.answer for verdict in published] == ["not comparable"] * 7
    # On a busy machine samples are excluded, and a figure may be absent.
    reasons = ("neuron-2.26.1", "has no such figure", "no search")
    assert all(any(r in f.sentence for r in reasons) for f in published), published


@pytest.mark.emulator
@pytest.mark.parametrize("right", [0, 1])
def test_a_trained_pairs_run_ends_with_checks(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    right: int,
) -> None:
    check = Check(what="ids", variant="k7", right=right, requests=1)
    monkeypatch.setattr("rehearsal.rehearse.checks_of", lambda *_: [check])
    read = {"read_outputs": lambda *_: (), "requests": 1, "trained": True}
    code = rehearse_with_stand_ins(tmp_path, monkeypatch, **read)  # type: ignore[arg-type]
    assert code == 1 - right
    ending = f"Timings are of this CPU, and of no other device.\n{check}\n"
    assert capsys.readouterr().out.endswith(ending)


def test_a_pair_states_its_needs_first(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []
    monkeypatch.setattr("rehearsal.install.install_engine", lambda path, **_: path)
    monkeypatch.setattr(fetching, "prepare", lambda *_, **__: events.append("begins"))
    path = _fetched(Namespace(pair="qwen", engine=Path("no-engine")), events.append)
    assert path.is_file()
    assert "about 35 minutes on two slow cores; the engine, which is not there yet" in events[0]
    assert "nothing but the SHA-256" in events[0]
    assert events[1:] == ["begins"]


@pytest.mark.emulator
def test_an_interrupt_while_reading_keeps_the_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    code = rehearse_with_stand_ins(tmp_path, monkeypatch, interrupted, requests=1)

    output = capsys.readouterr()
    assert code == 1
    assert "its outputs are not read: interrupted" in output.err
    assert output.err.endswith("draftworth: interrupted\n")
    assert output.out.startswith("No decision: ")
    assert f"Files: {tmp_path / 'runs'}" in output.out


def test_the_headline_comes_before_models_read_outputs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    experiment = load(ROOT / "experiments/rehearsal.yaml")
    assert isinstance(experiment, ResolvedLocal)
    rehearsal = _Rehearsal(
        arguments=Namespace(),
        experiment=experiment,
        folder=FolderSink(tmp_path),
        readings=tmp_path,
        run_progress=RunProgress(bar=None, started_seconds=None),
    )
    rehearsal.print_headline(make_run())
    answer, next_step = capsys.readouterr().err.splitlines()
    assert answer == headline(make_facts(make_run()))
    assert "the models read the outputs now" in next_step


def test_without_an_engine_measuring_endpoints_is_offered(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in_pip(tmp_path / "pip", tmp_path, monkeypatch)
    code = main(
        [
            "rehearse",
            *("--experiment", str(short_rehearsal(tmp_path)), "--engine", str(tmp_path / "e")),
            *("--out", str(tmp_path / "runs")),
        ]
    )

    output = capsys.readouterr()
    assert code == 1
    assert "No matching distribution found for torch" in output.err
    assert "draftworth compare --baseline URL" in output.err
    assert output.out == ""
    assert list((tmp_path / "runs").iterdir()) == [], "a run without an engine"


def test_an_experiment_for_trainium_is_not_rehearsed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code = main(["rehearse", "--experiment", str(ROOT / "experiments/qwen3-32b.yaml")])

    assert code == 2
    assert "which runs on AWS, allowed: an experiment with a local" in capsys.readouterr().err


def assert_lesson(blocks: Sequence[BlockResult], traffic: Traffic, right: Judgement) -> None:
    verdict = compare(blocks, traffic, variant="tiny-draft-k7", baseline="baseline")
    assert verdict.identical_outputs == verdict.compared_outputs == verdict.pairs
    assert verdict.cost_ratio is not None
    width = verdict.cost_ratio.relative_width
    if width is not None and width <= WIDEST_QUIET:
        assert verdict.judgement == right
        assert (verdict.cost_ratio.value < 1) == (right == Judgement.CHEAPER)


@pytest.fixture(scope="module")
def rehearsed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A rehearsal with the real engine: its experiment, and its run's folder."""
    folder = tmp_path_factory.mktemp("rehearsed")
    draft = {"path": str(ROOT / "rehearsal/tiny_pair/draft")}
    more_variants = [
        {"name": "ngram-k5", "method": "ngram", "window": 5},
        {"name": "tiny-draft-k3", "method": "draft_model", "draft": draft, "window": 3},
    ]
    experiment = short_rehearsal(
        folder, lambda data: data["variants"].extend(more_variants), requests=8, rounds=2
    )
    engine = ("--engine", str(engine_python().parents[1]))
    with chdir(ROOT), every_request_counts():
        code = main(
            [
                *("rehearse", "--experiment", str(experiment), *engine),
                *("--out", str(folder / "runs")),
            ]
        )
    assert code == 0
    (run,) = (folder / "runs").iterdir()
    return experiment, run


@pytest.mark.engine
def test_the_real_engine_gives_both_answers(
    rehearsed: tuple[Path, Path],
) -> None:
    """Speculation pays for one class and costs for the other, by factors of two and more.

    Tokens per step, from our chunks, agree with the acceptance by the server's counters.
    """
    run = read_run(rehearsed[1])
    groups = groups_of(run.blocks)
    assert [group.prompt_class for group in groups] == list(LESSON)
    for group in groups:
        right, tokens_per_step = LESSON[group.prompt_class]
        drafted = summarize(run.blocks, group, "tiny-draft-k7")
        plain_one = summarize(run.blocks, group, "baseline")
        assert plain_one.value(TOKENS_PER_STEP) == 1.0
        acceptance = drafted.value(ACCEPTANCE_RATE)
        assert acceptance is not None
        # The counters include accepted tokens that max_tokens cut off, so they lie a little above.
        assert drafted.value(TOKENS_PER_STEP) == pytest.approx(1 + 7 * acceptance, rel=0.08)
        # Greedy outputs do not depend on the machine's other work.
        assert 1 + 7 * acceptance == pytest.approx(tokens_per_step, rel=0.1)
        assert_lesson(run.blocks, Traffic.of(group), right)


@pytest.mark.engine
def test_one_pass_over_outputs_predicts_every_window(
    rehearsed: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    experiment, run = rehearsed
    greedy = likelihoods.read_likelihoods(run, run.name)
    variants = ["baseline", "tiny-draft-k7", "ngram-k5", "tiny-draft-k3"]
    assert [k.variant for k in greedy] == variants
    assert all(judged(k).is_the_targets for k in greedy), greedy

    options = ("--json", "--engine", engine_python().parents[1], "--out", tmp_path)
    with chdir(ROOT):
        assert main([str(a) for a in ("estimate", experiment, "--answers", run, *options)]) == 0
    by_ngram, by_draft = json.loads(capsys.readouterr().out)["estimates"]
    predictions = [*by_ngram["predictions"], *by_draft["predictions"]]
    assert len(predictions) == 6, "three variants in two classes"
    for prediction in predictions:
        # A busy server merges chunks, and then fewer steps of n-gram drafting are counted than
        # there were, but never more. The checks below compare the steps of each request.
        least = -1.0 if prediction["variant"] == "ngram-k5" else -0.01
        assert least <= prediction["difference"] <= 0.01, prediction
        assert prediction["requests"] == 8
    losses = engine_losses_of(read_run(run))
    assert {loss.variant for loss in losses} == {*variants[1:]}
    for loss in losses:
        assert loss.verdict is EngineVerdict.NONE_LOST, loss
        assert loss.taken_as_allowed == loss.requests == 16

    done, target = read_run(run), ROOT / "rehearsal/tiny_pair/target"
    python, texts = engine_python(), read_transcripts(run, done.blocks)
    reader = Reader(
        python=python, target=target, folder=tmp_path, enable_thinking=False, precision="float32"
    )
    checks = list(checks_of(load(experiment), done, texts, reader))  # type: ignore[arg-type]
    assert [check.holds for check in checks] == [True] * 6, [*map(str, checks)]
