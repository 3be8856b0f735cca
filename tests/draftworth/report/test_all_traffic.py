"""`report --traffic`: what all prompts of a log cost, of which a run measured a few."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from draftworth.decision.all_traffic import AllTraffic, all_traffic
from draftworth.decision.facts import facts_of
from draftworth.records.codec import dump_record
from draftworth.records.judgement import Judgement
from draftworth.records.logged_traffic import ChosenPrompt, LoggedTraffic, sha256_of
from draftworth.records.results import BlockResult, Limits
from draftworth.records.run_folder import Run
from draftworth.report.all_traffic_section import all_traffic_sentence
from tests.draftworth.conftest import Ran
from tests.draftworth.report.runs import BASELINE, VARIANT, make_run, with_control, write_run
from tests.support.blocks import make_block, make_record

PROMPTS = 20
# Costs follow the forecast: a cost ratio of 0.62 in the mean of the chosen prompts.
STEPS = [0.2 + 0.01 * i for i in range(PROMPTS)]
TRAFFIC = LoggedTraffic(
    prompt_class="chat",
    case="chosen",
    draft="n-grams",
    window=5,
    prompts=2000,
    tokens=600_000,
    steps_per_token=0.295,
    seed=0,
    chosen=tuple(
        ChosenPrompt(id=f"p{i}", tokens=100, steps_per_token=steps) for i, steps in enumerate(STEPS)
    ),
)


def block(number: int, variant: str, round_number: int, prompts: int) -> BlockResult:
    return make_block(
        run_id="built-run",
        variant=variant,
        prompt_class="chat",
        case="chosen",
        block=number,
        round=round_number,
        speculation=None,
        requests=tuple(
            make_record(
                i,
                request_id=f"run/{number}-{i}",
                prompt_id=f"p{i}",
                end_to_end_latency_s=2.0 * (1.0 if variant == BASELINE else ratio_of(i)),
            )
            for i in range(prompts)
        ),
    )


def ratio_of(prompt: int) -> float:
    return 2 * STEPS[prompt] * (1.15 if prompt % 2 else 0.95)


def measured(
    prompts: int = PROMPTS, *, variants: tuple[str, ...] = (VARIANT,), **overrides: object
) -> Run:
    sides = (BASELINE, *variants)
    blocks = [
        block(len(sides) * turn + side, variant, turn + 1, prompts)
        for turn in range(2)
        for side, variant in enumerate(sides)
    ]
    overrides.setdefault("variants", sides)
    return make_run(blocks=tuple(blocks), class_weights={"chat": 1.0}, **overrides)


def verdicts(run: Run, traffic: LoggedTraffic = TRAFFIC) -> list[AllTraffic]:
    facts = facts_of(run, {})
    comparisons = [c for v in facts.speculative if (c := v.comparison)]
    judged = [*all_traffic(facts.run, comparisons, traffic)]
    return [v for v in judged if isinstance(v, AllTraffic)]


def verdict(run: Run, traffic: LoggedTraffic = TRAFFIC) -> AllTraffic:
    (only,) = verdicts(run, traffic)
    return only


def written(traffic: LoggedTraffic, folder: Path) -> Path:
    path = folder / "traffic.json"
    path.write_bytes(dump_record(traffic))
    return path


def test_it_says_what_all_logged_prompts_cost(tmp_path: Path, ran: Ran) -> None:
    run = write_run(measured(), tmp_path / "run")
    output = " ".join(ran("report", run, "--traffic", written(TRAFFIC, tmp_path)).split())
    assert (
        "for all 2,000 logged prompts (600,000 output tokens), from 20 measured ones: cheaper per "
        "token, costs 38% less per token (34 to 42); without the forecast"
    ) in output


def test_a_dearer_log_is_not_judged_cheaper() -> None:
    """The measured prompts are cheaper; by their forecasts the other ones are not."""
    dearer = replace(TRAFFIC, steps_per_token=0.5)
    assert verdict(measured()).judgement == Judgement.CHEAPER
    assert verdict(measured()).comparison.judgement == Judgement.CHEAPER
    assert verdict(measured(), dearer).judgement != Judgement.CHEAPER


def test_several_looks_widen_the_interval() -> None:
    """A run that may end at any of seven looks has wider intervals in all forms of its answer."""
    run = measured()
    looks = replace(run, result=replace(run.result, looks=7))
    once, often = (verdict(r).ratio.cost_ratio.relative_width or 0.0 for r in (run, looks))
    assert once < often


def test_each_further_variant_widens_the_intervals() -> None:
    """The best of several looks better than it is; both intervals are of the same requests."""
    alone = verdict(measured()).ratio
    first, second = verdicts(measured(variants=(VARIANT, "second")))
    assert first.ratio.cost_ratio.value == second.ratio.cost_ratio.value == alone.cost_ratio.value
    for one, of_two in (
        (alone.cost_ratio, first.ratio.cost_ratio),
        (alone.cost_ratio, second.ratio.cost_ratio),
        (alone.without_forecast, first.ratio.without_forecast),
    ):
        assert (one.relative_width or 0.0) < (of_two.relative_width or 0.0)


def test_a_variant_elsewhere_widens_nothing() -> None:
    """Only what is judged with the same record is judged at once."""
    run = measured()
    elsewhere = tuple(
        replace(b, prompt_class="other", case="other", block=b.block + 4) for b in run.blocks
    )
    both = replace(run, blocks=(*run.blocks, *elsewhere), class_weights={"chat": 0.5, "other": 0.5})
    assert verdict(both).ratio.cost_ratio == verdict(run).ratio.cost_ratio


def test_an_open_limit_leaves_all_traffic_open() -> None:
    """So few requests do not show a 95th percentile."""
    limited = verdict(measured(limits=Limits(ttft_p95_s=0.001)))
    assert limited.judgement == Judgement.INCONCLUSIVE


def test_a_noise_floor_holds_for_all_traffic() -> None:
    assert verdict(with_control(measured())).judgement == Judgement.CHEAPER
    assert verdict(with_control(measured(), factor=0.6)).judgement == Judgement.INCONCLUSIVE


def test_a_useless_forecast_is_called_one() -> None:
    useless = tuple(
        replace(p, steps_per_token=STEPS[7 * i % PROMPTS]) for i, p in enumerate(TRAFFIC.chosen)
    )
    words = all_traffic_sentence(verdict(measured(), replace(TRAFFIC, chosen=useless)))
    assert words.endswith("; the forecast made the interval no narrower.")


@pytest.mark.parametrize(
    ("prompts", "traffic", "words"),
    [
        (15, TRAFFIC, "a run that measured 15 of 20 chosen prompts, allowed: 16 or more"),
        (20, replace(TRAFFIC, prompt_class="other"), "allowed: of a class that the run measured"),
        (20, replace(TRAFFIC, case="other"), "a run that measured 0 of 20 chosen prompts"),
    ],
)
def test_a_run_without_enough_is_refused(
    tmp_path: Path, ran: Ran, prompts: int, traffic: LoggedTraffic, words: str
) -> None:
    run = write_run(measured(prompts), tmp_path / "run")
    assert words in ran("report", run, "--traffic", written(traffic, tmp_path), code=2)


def test_another_record_than_the_runs_is_refused(tmp_path: Path, ran: Ran) -> None:
    """Another log could have the same prompts with other weights; its record is refused."""
    used = written(TRAFFIC, tmp_path)
    run = write_run(measured(chosen_by={"chat": sha256_of(used)}), tmp_path / "run")
    assert "for all 2,000 logged prompts" in " ".join(ran("report", run, "--traffic", used).split())
    (tmp_path / "other").mkdir()
    weights = tuple(replace(p, parts=1 + n % 2) for n, p in enumerate(TRAFFIC.chosen))
    other = written(replace(TRAFFIC, chosen=weights), tmp_path / "other")
    words = ran("report", run, "--traffic", other, code=2)
    assert f"with SHA-256 {sha256_of(other)[:12]}, allowed: with {sha256_of(used)[:12]}" in words


def test_a_run_without_a_hash_takes_any_record(tmp_path: Path, ran: Ran) -> None:
    run = write_run(measured(chosen_by={"other": "0f" * 32}), tmp_path / "run")
    assert "for all" in ran("report", run, "--traffic", written(TRAFFIC, tmp_path))


def test_programs_and_pages_get_it_too(tmp_path: Path, ran: Ran) -> None:
    run, traffic = write_run(measured(), tmp_path / "run"), written(TRAFFIC, tmp_path)
    (only,) = json.loads(ran("report", run, "--traffic", traffic, "--json"))["all_traffic"]
    assert (only["judgement"], only["logged_prompts"]) == ("cheaper per token", 2000)
    assert only["without_forecast_low"] < only["cost_ratio_low"] < only["cost_ratio"]
    assert only["sentence"] in " ".join(ran("report", run, "--traffic", traffic).split())
    assert json.loads(ran("report", run, "--json"))["all_traffic"] == []
    assert "--traffic: given with" in ran("report", run, "--traffic", traffic, "--handover", code=2)
