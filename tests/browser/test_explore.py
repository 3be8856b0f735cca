"""The page to ask in Chromium, against Python's functions: `make test-browser`."""

import json
import random
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, get_args

import pytest

from draftworth.analysis.facts import RunFacts
from draftworth.analysis.limits import LATENCIES
from draftworth.analysis.pairing import Traffic
from draftworth.analysis.summary import groups_of
from draftworth.analysis.verdict import Comparison, compare
from draftworth.records.judgement import Judgement
from draftworth.records.load import ConcurrencyLoad, Load, PoissonLoad
from draftworth.records.reading import Run
from draftworth.records.results import Limits, Price, RequestRecord
from draftworth.report.explore import write_exploration
from tests.browser.test_page import in_chromium
from tests.draftworth.report import runs
from tests.draftworth.report.test_brief import STATES, at_loads, many_prompts, with_factor
from tests.support.blocks import each_request, make_failed_record, make_price

pytestmark = pytest.mark.browser
# Choices for each kind of run: 200 in all.
CHOICES = 40
LIMITS_MS = {
    "ttft_p95_s": (250, 320, 500),
    "itl_p95_s": (4, 19, 40),
    "e2e_p95_s": (900, 2200, 4000),
}
LOOSE = Limits(failed_share=0.3)
FOUR = ConcurrencyLoad(concurrency=4)


def varied(run: Run, *, failed: float = 0.0, apart: float = 0.15) -> Run:
    """The run with requests that take longer or shorter by chance, and some that fail."""
    chance = random.Random(run.result.run_id)

    def other(record: RequestRecord) -> RequestRecord:
        if chance.random() < failed:
            made = make_failed_record(failed_after_s=chance.random())
            return replace(made, prompt_id=record.prompt_id)
        factor = chance.lognormvariate(0, apart)
        return replace(
            record,
            inter_token_latency_s=(record.inter_token_latency_s or 0.0) * factor,
            ttft_s=(record.ttft_s or 0.0) * factor,
            end_to_end_latency_s=record.took_s * factor,
            number_output_tokens=chance.randint(round(100 - 300 * apart), 100),
        )

    return replace(run, blocks=tuple(each_request(block, other) for block in run.blocks))


def with_second_variant(run: Run) -> Run:
    """The run with a third server, which is slower than the second."""
    more = (
        replace(runs.slower(block, 1.4), variant="k9", block=block.block + 500)
        for block in run.blocks
        if block.variant == runs.VARIANT
    )
    result = replace(run.result, variants=(*run.result.variants, "k9"), limits=LOOSE)
    return replace(run, result=result, blocks=(*run.blocks, *more))


def with_lone_prompts(run: Run) -> Run:
    """The run with six prompts in each class, each of them in a case of its own."""
    parts = (
        replace(block, case=f"{number}", block=10 * block.block + number, requests=(record,))
        for block in run.blocks
        for number, record in enumerate(block.requests[:6])
    )
    return replace(run, blocks=tuple(parts))


def with_limits(load: Load = FOUR, **overrides: Any) -> Run:
    """A run with requests enough, in blocks enough, for the 95th percentile of a latency."""
    few = many_prompts(**overrides)
    blocks = tuple(
        runs.slower(
            replace(b, load=load, requests=b.requests[:40]),
            1.0 if b.variant == runs.BASELINE else 0.7,
        )
        for b in few.blocks
    )
    return varied(runs.with_repetitions(replace(few, blocks=blocks), 3))


LADDER = runs.with_repetitions(at_loads(0.6, 0.75, 0.9), 2)
KINDS = {
    "several loads and variants": varied(with_second_variant(LADDER), failed=0.01),
    "limits": with_limits(price=make_price()),
    "repetitions and a control": runs.with_control(
        varied(runs.with_repetitions(with_factor(0.5), 5, between=0.02)), factor=1.3
    ),
    "own servers, lone prompts": varied(
        with_lone_prompts(runs.make_run(class_weights={})), apart=0.005
    ),
    "a rate": with_limits(PoissonLoad(requests_per_second=2.5), limits=Limits(ttft_p95_s=0.5)),
}


def choices_for(facts: RunFacts) -> list[dict[str, Any]]:
    """Random values of the page's controls, by their ids."""
    chance = random.Random(7)
    loads = len({group.load for group in groups_of(facts.run.blocks)})
    prices = range(len(facts.run.result.variants))
    return [
        {
            "weight-0": chance.choice((0, 1, 20, 37.5, 100)),
            "weight-1": chance.choice((1, 20, 62.5, 100)),
            "load": chance.randrange(loads),
            "tokens": chance.choice((0, 12_345, 8e7)),
            **{f"price-{n}": chance.choice(("", 1.5, 2, 2.2)) for n in prices},
            **{name: chance.choice((*[""] * 20, *ms)) for name, ms in LIMITS_MS.items()},
        }
        for _ in range(CHOICES)
    ]


def in_python(facts: RunFacts, variant: str, choice: dict[str, Any]) -> Comparison:
    """What the report's own function says of this choice."""
    result = facts.run.result
    loads = sorted({group.load for group in groups_of(facts.run.blocks)}, key=lambda at: at.order)
    classes = result.class_weights or dict.fromkeys(b.prompt_class for b in facts.run.blocks)
    given = {name: choice[f"weight-{place}"] for place, name in enumerate(classes)}
    weights = {name: w / sum(given.values()) for name, w in given.items() if w}
    names = (result.baseline, *result.variants[1:])
    prices = {name: choice[f"price-{place}"] for place, name in enumerate(names)}
    limits: dict[str, Any] = {
        name: choice[name] / 1e3 if choice[name] else None for _, _, name in LATENCIES
    }
    return compare(
        facts.run.blocks,
        Traffic(weights=weights, load=loads[choice["load"]]),
        variant=variant,
        baseline=result.baseline,
        limits=replace(result.limits, **limits),
        price=Price(
            usd_per_node_hour=1.0,
            as_of="",
            source="",
            node_shares={name: usd for name, usd in prices.items() if usd},
            nodes=1,
        ),
        sampled=True,
        control=facts.control,
        answers=facts.answers,
    )


def figures_of(found: Comparison, tokens: float) -> dict[str, float | None]:
    ratio = found.cost_ratio
    ends: list[float | None] = [None] * 3
    if ratio:
        ends = [ratio.value, ratio.low, ratio.high]
    is_priced = found.baseline_usd and found.variant_usd and ratio
    usd = tokens / 1e6 * (found.baseline_usd or 0.0) if is_priced else None
    figures = dict(zip(("value", "low", "high"), ends, strict=True))
    in_usd = {
        f"usd-{name}": None if usd is None or end is None else usd * end
        for name, end in figures.items()
    }
    return {**figures, **in_usd, "usd": usd}


@cache
def asked(kind: str) -> tuple[RunFacts, dict[str, Any]]:
    """The run's facts, and what its page says of every choice."""
    facts = runs.make_facts(KINDS[kind])
    with TemporaryDirectory() as folder:
        page = write_exploration(facts, Path(folder))
        lines = "\n".join(map(json.dumps, choices_for(facts)))
        return facts, in_chromium("ask.mjs", page, lines)


@pytest.mark.parametrize("kind", KINDS)
def test_every_choice_is_answered_as_python_answers_it(kind: str) -> None:
    facts, page = asked(kind)
    assert (page["complaints"], page["requests"], page["disagreement"]) == ([], [], "")
    assert len(page["answers"]) == CHOICES
    for choice, answer in zip(choices_for(facts), page["answers"], strict=True):
        for variant, card in zip(facts.run.result.variants[1:], answer["cards"], strict=True):
            found = in_python(facts, variant, choice)
            assert (card["judgement"], card["reason"]) == (found.judgement, f"{found.reason}.")
            wanted = figures_of(found, choice["tokens"])
            assert card["figures"].keys() == wanted.keys()
            for name, value in card["figures"].items():
                same = value is wanted[name] or value == pytest.approx(
                    wanted[name] or 0.0, rel=1e-9
                )
                assert same, (name, choice)


def test_the_choices_are_200_and_every_judgement_is_among_them() -> None:
    answers = [answer for kind in KINDS for answer in asked(kind)[1]["answers"]]
    judgements = {card["judgement"] for answer in answers for card in answer["cards"]}
    assert len(answers) == 200
    assert judgements == {*get_args(Judgement)}
    outside = "\n".join(answer["outside"] for answer in answers)
    for said in (
        "have no cost per token",
        "do not show whether",
        "Without a price",
        "another start",
    ):
        assert said in outside


@pytest.fixture
def page(tmp_path: Path) -> Path:
    return write_exploration(runs.make_facts(STATES["cheaper"]), tmp_path)


def test_a_wrong_choice_is_told_and_not_answered(page: Path) -> None:
    choices: list[tuple[dict[str, Any], str]] = [
        ({"weight-0": -1}, "structured: allowed: 0 to 1000000000000."),
        ({"weight-0": 0, "weight-1": 0}, "Traffic mix: no class has a weight"),
        ({"weight-0": 1, "price-1": 0}, "USD an hour, k7: allowed: 0.0001 to"),
        ({"price-1": "", "tokens": ""}, "Output tokens a day: allowed: 0 to"),
    ]
    lines = "\n".join(json.dumps(choice) for choice, _ in choices)
    answers = in_chromium("ask.mjs", page, lines)["answers"]
    for answer, (_, said) in zip(answers, choices, strict=True):
        assert answer["problem"].startswith(said)
        assert answer["outside"] == ""


def test_a_page_that_was_changed_does_not_answer_in_silence(page: Path) -> None:
    text = page.read_text()
    page.write_text(text.replace('"judgement":"cheaper per token"', '"judgement":"more expensive"'))
    assert "traffic mix at c4, k7" in in_chromium("ask.mjs", page, "{}")["disagreement"]
    page.write_text(text.replace('"use strict";', '"use strict"; '))
    found = in_chromium("ask.mjs", page, "{}")
    assert "Content Security Policy" in found["complaints"][0]
    assert found["answers"][0]["cards"][0]["judgement"] == ""


def test_the_page_fits_and_the_keyboard_reaches_every_control(page: Path) -> None:
    found = in_chromium("look.mjs", page)
    assert (found["light"], found["dark"], found["complaints"]) == ([], [], [])
    assert max(found["narrow"]["overflow"], found["opened"]["overflow"]) <= 0
    assert found["keyboard"] == {"wanted": 17, "missed": 0}
