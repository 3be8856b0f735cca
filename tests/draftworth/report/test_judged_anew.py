"""`report --weights`, `--usd-per-hour` and `--limit`: a finished run, judged with other values.

In the built run, a request takes 1.27465 s in the mean with the baseline, and with the variant
0.748465 s in `structured` and 1.738465 s in `open_ended`. All outputs have 100 tokens.
"""

import html
import json
import shlex
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from draftworth.cli import main
from draftworth.cli.report_choices import judged_with
from draftworth.decision.facts import RunFacts, facts_of
from draftworth.decision.judged_anew import LIMITS, Choices, chosen_values, judged_anew
from draftworth.errors import UserInputError
from draftworth.experiment.workload import ServiceLimits, Workload
from draftworth.metrics.definitions import COST
from draftworth.planning import specify_run
from draftworth.records.codec import load_record
from draftworth.records.results import BLOCKS_FOLDER, Limits
from draftworth.records.run_folder import Run
from draftworth.report.answer import Answer
from tests.draftworth.report.pages import SNAPSHOTS
from tests.draftworth.report.runs import BASELINE, VARIANT, make_run, with_control, write_run
from tests.draftworth.report.searches import make_search_run
from tests.draftworth.report.states import STATES, many_prompts
from tests.support.blocks import make_price
from tests.support.present import present
from tests.support.snapshot import assert_snapshot

PLAIN_S, STRUCTURED_S, OPEN_ENDED_S = 1.27465, 0.748465, 1.738465
MOSTLY_STRUCTURED = {"structured": 90.0, "open_ended": 10.0}
OPTIONS = {
    "weights": ("--weights", "structured=90,open_ended=10"),
    "prices": ("--usd-per-hour", f"{VARIANT}=1"),
    "limits": ("--limit", "ttft_p95_ms=100"),
    "all": (
        *("--weights", "structured=3,open_ended=1"),
        *("--usd-per-hour", f"{VARIANT}=3.5", "--usd-per-hour", f"{BASELINE}=4"),
        *("--limit", "ttft_p95_ms=500,failures_percent=0"),
    ),
    "the run's own": (
        *("--weights", "structured=7,open_ended=7"),
        *("--usd-per-hour", f"{VARIANT}=2.5", "--limit", "failures_percent=2"),
    ),
}


def facts_with(run: Run, **chosen: Any) -> RunFacts:
    return replace(facts_of(judged_anew(run, Choices(**chosen)), {}), measured_as=run)


def mix_ratio(run: Run, **chosen: Any) -> float:
    (mix,) = facts_with(run, **chosen).mixes
    return present(mix.cost_ratio).value


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the run's folder, of which each test gets a copy."""
    return write_run(make_run(price=make_price()), tmp_path_factory.mktemp("written") / "run")


@pytest.fixture
def folder(written: Path, tmp_path: Path) -> Path:
    return shutil.copytree(written, tmp_path / "run")


@pytest.mark.parametrize("own_servers", [False, True])
def test_the_mix_is_judged_by_the_chosen_weights(*, own_servers: bool) -> None:
    run = make_run(class_weights={}) if own_servers else make_run()
    by_hand = (0.9 * STRUCTURED_S + 0.1 * OPEN_ENDED_S) / PLAIN_S
    assert mix_ratio(run) == pytest.approx((STRUCTURED_S + OPEN_ENDED_S) / 2 / PLAIN_S)
    assert mix_ratio(run, class_weights=MOSTLY_STRUCTURED) == pytest.approx(by_hand)
    facts = facts_with(run, class_weights=MOSTLY_STRUCTURED)
    assert facts.run.result.of_own_servers is own_servers
    assert [(v.name, v.value, v.instead_of) for v in chosen_values(facts)] == [
        ("structured", 0.9, 0.5),
        ("open_ended", 0.1, 0.5),
    ]


def test_a_cost_ratio_scales_with_one_servers_price() -> None:
    run = make_run(price=make_price())
    assert mix_ratio(run, usd_per_hour={VARIANT: 5.0}) == pytest.approx(2 * mix_ratio(run))
    facts = facts_with(run, usd_per_hour={VARIANT: 5.0})
    usd = {v.name: present(v.value(COST)) for v in facts.variants if "structured" in v.label}
    # USD for 1e6 tokens, which are 1e4 requests of 100 tokens, with four requests in flight.
    assert usd[BASELINE] == pytest.approx(1e4 * PLAIN_S / 4 * 2.5 / 3600)
    assert usd[VARIANT] == pytest.approx(1e4 * STRUCTURED_S / 4 * 5.0 / 3600)


def test_a_server_may_cost_more_than_a_node() -> None:
    run = make_run(price=make_price(usd_per_node_hour=2.5))
    prices = {BASELINE: 30.0, VARIANT: 60.0}
    assert mix_ratio(run, usd_per_hour=prices) == pytest.approx(2 * mix_ratio(make_run()))


def test_servers_without_a_price_get_the_chosen_ones() -> None:
    run = make_run()
    prices = {BASELINE: 4.0, VARIANT: 1.0}
    assert mix_ratio(run, usd_per_hour=prices) == pytest.approx(mix_ratio(run) / 4)
    values = chosen_values(facts_with(run, usd_per_hour=prices))
    assert [(v.of, v.name, v.value, v.instead_of) for v in values] == [
        ("usd_per_hour", BASELINE, 4.0, None),
        ("usd_per_hour", VARIANT, 1.0, None),
    ]


def test_the_control_needs_no_price() -> None:
    run = with_control(make_run())
    prices = {BASELINE: 4.0, VARIANT: 1.0}
    assert mix_ratio(run, usd_per_hour=prices) == pytest.approx(mix_ratio(make_run()) / 4)


def test_a_variant_is_judged_by_the_chosen_limits() -> None:
    run = many_prompts(limits=Limits(ttft_p95_s=0.1))
    (broken,), (kept,) = (
        facts_with(run, limits=limits).mixes for limits in ({}, {"ttft_p95_ms": 500.0})
    )
    assert (broken.judgement, kept.judgement) == ("outside the limits", "no difference")


def test_limits_have_names_and_units_of_experiments() -> None:
    assert LIMITS.keys() == ServiceLimits.model_fields.keys()
    chosen = dict.fromkeys(LIMITS, 40.0)
    limits = judged_anew(make_run(), Choices(limits=chosen)).result.limits
    work = cast(Workload, SimpleNamespace(limits=ServiceLimits(**chosen)))
    assert limits == specify_run.limits(work)
    before = Limits(itl_p95_s=0.5)
    after = judged_anew(make_run(limits=before), Choices(limits={"ttft_p95_ms": 40.0}))
    assert after.result.limits == replace(before, ttft_p95_s=0.04)


def test_what_is_printed_of_a_run_judged_anew(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = ""
    for name, words in {"as measured": (), **OPTIONS}.items():
        assert main(["report", str(folder), *words]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert len(lines) <= 10
        answer = [line for line in lines if not line.startswith(("Next:", "Files:"))]
        assert max(map(len, answer[1:])) <= 80
        (next_step,) = (line for line in lines if line.startswith("Next:"))
        repeated = shlex.join([str(folder), *words])
        undecided = lines[0].startswith("No decision")
        ending = "--verbose" if undecided else "--out report" if words else "--out"
        assert next_step.endswith(f"report {repeated} {ending}")
        text += "\n".join([f"# {name}", *answer, "", ""])
    assert_snapshot(text, SNAPSHOTS / "judged_anew.txt")


@pytest.mark.usefixtures("undrawn")
def test_every_form_marks_a_run_judged_anew(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, words = tmp_path / "out", OPTIONS["all"]
    title = "(judged with other weights, prices and limits than the run's own)"
    line = "limits than the run's own: structured 75.0% instead of 50.0%; open_ended 25.0% instead"
    before = {file: file.read_bytes() for file in folder.rglob("*.*")}
    assert main(["report", str(folder), *words, "--out", str(out), "--verbose"]) == 0
    assert main(["report", str(folder), *words, "--out", str(out), "--handover"]) == 0
    printed = capsys.readouterr().out
    assert printed.count(title) == printed.count(line) == 2
    pages = [(out / name).read_text() for name in ("report.md", "handover.md")]
    pages += [html.unescape((out / name).read_text()) for name in ("report.html", "handover.html")]
    for page in pages:
        assert title in page
        assert line in page.replace("\\_", "_")
        assert "manifests FILE --winner" not in page
    assert "cost_ratio" in (out / "figures.csv").read_text()
    assert {file: file.read_bytes() for file in folder.rglob("*.*")} == before
    assert main(["report", str(folder), *words, "--json"]) == 0
    answer = load_record(Answer, capsys.readouterr().out)
    assert [(v.of, v.name, v.value) for v in answer.judged_with] == [
        ("weight", "structured", 0.75),
        ("weight", "open_ended", 0.25),
        ("usd_per_hour", BASELINE, 4.0),
        ("usd_per_hour", VARIANT, 3.5),
        ("limit", "ttft_p95_ms", 500.0),
        ("limit", "failures_percent", 0.0),
    ]


def test_what_the_run_cost_stays_what_was_paid(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    of_each = []
    for words in ((), OPTIONS["all"]):
        assert main(["report", str(folder), *words, "--verbose"]) == 0
        text = capsys.readouterr().out
        price = next(line for line in text.splitlines() if line.startswith("price: "))
        spent = text[text.index("Time and cost of the run") : text.index("\nHandover\n")]
        of_each.append((price, spent))
    assert of_each[0] == of_each[1]


def test_pooled_runs_are_judged_anew_together(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = write_run(make_run(price=make_price(), run_id="other"), tmp_path / "other")
    assert main(["report", str(folder), str(other), *OPTIONS["weights"], "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["serve"] == VARIANT
    assert answer["findings"][0]["cost_ratio"] == pytest.approx(
        (0.9 * STRUCTURED_S + 0.1 * OPEN_ENDED_S) / PLAIN_S
    )


def test_a_failed_run_stays_without_a_decision(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_run(STATES["failed run"], tmp_path / "run")
    assert main(["report", str(folder), *OPTIONS["limits"]]) == 0
    assert capsys.readouterr().out.startswith("No decision, the run is not complete")


def test_a_search_is_not_judged_anew() -> None:
    with pytest.raises(UserInputError, match="which is a search, allowed: a run without one"):
        judged_with(make_search_run(), Choices(limits={"ttft_p95_ms": 40.0}))


# Options that are refused, and the messages.
REFUSED = {
    "a class is left out": (
        ["--weights", "structured=60"],
        (
            "--weights: given structured, allowed: a weight of every prompt class measured and of "
            "no other (structured, open_ended); next: add open_ended=NUMBER"
        ),
    ),
    "a class that was not measured": (
        ["--weights", "structured=60,open_ended=30,chat=10"],
        "(structured, open_ended); next: leave out chat",
    ),
    "a weight of 0": (
        ["--weights", "structured=0,open_ended=1"],
        "--weights structured: given '0', allowed: a number above 0",
    ),
    "a weight below 0": (["--weights", "structured=-1,open_ended=1"], "given '-1', allowed"),
    "a weight without a value": (
        ["--weights", "structured"],
        (
            "--weights: given 'structured', allowed: NAME=NUMBER, several with commas between "
            "them; next: for example --weights structured=60,open_ended=40"
        ),
    ),
    "a name left out": (["--weights", "=60,open_ended=40"], "--weights: given '=60', allowed"),
    "an empty text": (["--limit", ""], "--limit: given '', allowed: NAME=NUMBER"),
    "a comma at the end": (["--weights", "structured=1,"], "--weights: given '', allowed"),
    "no number": (["--usd-per-hour", "k7=x"], "--usd-per-hour k7: given 'x', allowed: a number"),
    "not a number": (["--usd-per-hour", "k7=nan"], "given 'nan', allowed: a number above 0"),
    "an infinite one": (["--usd-per-hour", "k7=inf"], "given 'inf', allowed: a number above 0"),
    "a name twice": (
        ["--usd-per-hour", "k7=1", "--usd-per-hour", "k7=2"],
        "--usd-per-hour: given k7 twice, allowed: each name once",
    ),
    "a server that was not measured": (
        ["--usd-per-hour", "k8=1"],
        (
            "--usd-per-hour: given k8, allowed: prices of the run's servers, at least of those "
            "that have none (baseline, k7); next: leave out k8"
        ),
    ),
    "a limit of another name": (
        ["--limit", "ttft_ms=1"],
        (
            "--limit: given ttft_ms, allowed: ttft_p95_ms, itl_p95_ms, e2e_p95_ms, failures_"
            "percent; did you mean 'ttft_p95_ms'?; next: for example --limit ttft_p95_ms=500"
        ),
    ),
    "a limit of 0": (["--limit", "ttft_p95_ms=0"], "--limit ttft_p95_ms: given '0', allowed"),
    "more than all requests": (
        ["--limit", "failures_percent=101"],
        "--limit failures_percent: given '101', allowed: a number from 0 to 100",
    ),
    "escapes": (["--weights", "\x1b[2J=1"], r"--weights: given \x1b[2J, allowed"),
    "beside another run": (
        ["--weights", "structured=60,open_ended=40", "--against", "{other}"],
        "--against: given with --weights, which judges these runs anew, and not the other",
    ),
    "over the run's own report": (
        ["--limit", "ttft_p95_ms=500", "--out"],
        "--out: given without DIR and with --limit, allowed: with DIR",
    ),
}


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(make_run(run_id="other"), tmp_path_factory.mktemp("other") / "run")


@pytest.mark.parametrize("case", REFUSED)
def test_choices_that_do_not_fit_are_refused(
    case: str, folder: Path, other: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words, message = REFUSED[case]
    assert main(["report", str(folder), *(word.format(other=other) for word in words)]) == 2
    streams = capsys.readouterr()
    assert message in streams.err
    assert streams.out == ""
    assert sorted(path.name for path in folder.iterdir()) == [BLOCKS_FOLDER, "run.json"]


def test_one_servers_price_needs_prices_of_the_run() -> None:
    with pytest.raises(UserInputError, match="next: add baseline=NUMBER"):
        judged_with(make_run(price=None), Choices(usd_per_hour={VARIANT: 1.0}))


def test_an_absurd_price_is_refused_in_a_sentence() -> None:
    shares = {BASELINE: 1.0, VARIANT: 1.0}
    run = make_run(price=make_price(usd_per_node_hour=1e19, node_shares=shares))
    words = r"--usd-per-hour: given k7=1e-06, allowed: 10 to .*; next: give a price in that range"
    with pytest.raises(UserInputError, match=words):
        judged_with(run, Choices(usd_per_hour={VARIANT: 1e-6}))
