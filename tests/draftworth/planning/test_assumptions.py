"""Assumptions are checked, documented with their sources, and may be replaced by a user's."""

from collections.abc import Callable, Iterable, Iterator
from importlib.resources import files
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from draftworth.errors import UserInputError
from draftworth.experiment.aws import CPU_INSTANCE_TYPE, CPU_NODES
from draftworth.experiment.strict_model import read_yaml
from draftworth.metrics.definitions import FINDING_METRICS, charged
from draftworth.planning.assumptions import (
    CASES,
    HOURS_PER_MONTH,
    Assumption,
    AssumptionData,
    Assumptions,
    Bounds,
    assumption_data,
    replaced,
)
from tests.conftest import ROOT
from tests.support.documents import assert_block

SHIPPED = files("draftworth.planning").joinpath("assumptions.yaml").read_text(encoding="utf-8")
DOCUMENT = ROOT / "docs" / "timeline.md"
APPENDIX = ROOT / "docs" / "appendix" / "plan.md"


def edited(edit: Callable[[dict[str, Any]], object]) -> str:
    data = yaml.load(SHIPPED, Loader=yaml.CSafeLoader)
    edit(data)
    return yaml.dump(data, Dumper=yaml.CSafeDumper)


def ends(assumed: Assumptions, name: str) -> tuple[float, ...]:
    """Return the values (best case, worst case) of the assumption with this name."""
    return tuple(assumed[name].at(case) for case in CASES)


def test_equal_bounds_are_written_as_one_number() -> None:
    assert f"{Bounds(2, 5.04):.1f}" == "2.0 to 5.0"
    assert f"{Bounds(2, 2):g}" == "2"
    assert f"{Bounds(1.96, 2.04):.1f}" == "2.0"


@pytest.mark.parametrize(
    "edit",
    [
        lambda d: d["assumptions"]["deploy_minutes"].update(low=46),
        lambda d: d["assumptions"]["deploy_minutes"].update(low=-1),
        lambda d: d["assumptions"]["deploy_minutes"].update(low="25"),
        lambda d: d["assumptions"]["deploy_minutes"].update(unit="hours"),
        lambda d: d["assumptions"]["deploy_minutes"].update(source=""),
        lambda d: d["assumptions"]["deploy_minutes"].pop("source"),
        lambda d: d["assumptions"]["hub_gbit_per_s"].update(low=0),
        lambda d: d["targets"]["Qwen/Qwen3-32B"].update(
            boot_minutes=d["assumptions"]["deploy_minutes"]
        ),
        lambda d: d["prices"]["NAT gateway"].pop("as_of"),
        lambda d: d["prices"]["custom_metric"].update(usd=0),
        lambda d: d["nat_gateway_traffic"].update(usd_per_gib=0),
        lambda d: d["standing"].update(m7i=1.5),
    ],
)
def test_a_broken_data_file_is_refused(edit: Callable[[dict[str, Any]], object]) -> None:
    with pytest.raises(ValidationError):
        read_yaml(AssumptionData, edited(edit))


def test_a_name_ends_in_its_unit() -> None:
    suffixes = {
        "minutes": "_minutes",
        "seconds": "_seconds",
        "ms per token": "_ms_per_token",
        "Gbit/s": "_gbit_per_s",
        "GiB": "_gib",
    }
    data = assumption_data()
    assert [n for n, a in data.assumptions.items() if not n.endswith(suffixes[a.unit])] == []
    wrong = [
        (model, name)
        for model, values in data.targets.items()
        for name, value in values.items()
        if value.unit != data.assumptions[name].unit
    ]
    assert wrong == []


def test_the_time_line_reads_every_assumption() -> None:
    """If no code read an assumption, `--assume` would accept its name without any effect."""
    files = (ROOT / "draftworth" / "planning").glob("*.py")
    source = "".join(file.read_text(encoding="utf-8") for file in files)
    assert [n for n in assumption_data().assumptions if f'"{n}"' not in source] == []


def test_speeds_are_best_high_and_times_low() -> None:
    assumed = replaced(
        assumption_data().assumptions, ["hub_gbit_per_s=1..5", "warm_up_minutes=1..5"]
    )

    assert ends(assumed, "hub_gbit_per_s") == (5, 1)
    assert ends(assumed, "warm_up_minutes") == (1, 5)


def test_a_targets_published_value_replaces_the_general_one() -> None:
    data = assumption_data()

    assert ends(data.for_target("Qwen/Qwen3-32B"), "baseline_ms_per_token") == (45, 45)
    assert data.for_target("someone/else") == data.assumptions


def test_a_user_replaces_assumptions_by_number_or_range() -> None:
    shipped = assumption_data().assumptions
    texts = ("node_start_minutes=9", "compile_minutes=30..60", "node_start_minutes=5")
    assumed = replaced(shipped, (*texts, "warm_up_minutes = .5..1e1 "))

    assert ends(assumed, "node_start_minutes") == (5, 5)
    assert ends(assumed, "compile_minutes") == (30, 60)
    assert ends(assumed, "warm_up_minutes") == (0.5, 10)
    assert assumed["compile_minutes"].source == "given with --assume"
    assert assumed["deploy_minutes"] == shipped["deploy_minutes"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("compile_minute=5", "did you mean 'compile_minutes'?"),
        ("compile_minutes", "allowed: NAME=NUMBER or NAME=LOW..HIGH"),
        ("compile_minutes=ten", "allowed: NAME=NUMBER or NAME=LOW..HIGH"),
        ("compile_minutes=1..2..3", "allowed: NAME=NUMBER or NAME=LOW..HIGH"),
        ("compile_minutes=inf", "allowed: NAME=NUMBER or NAME=LOW..HIGH"),
        ("compile_minutes=nan", "allowed: NAME=NUMBER or NAME=LOW..HIGH"),
        ("compile_minutes=60..30", "LOW at most HIGH"),
        ("compile_minutes=-5", "from 0 (of a speed 0.001) to 1,000,000,000"),
        ("compile_minutes=1e999", "from 0 (of a speed 0.001) to 1,000,000,000"),
        ("hub_gbit_per_s=0", "from 0 (of a speed 0.001)"),
    ],
)
def test_an_impossible_value_is_refused_with_possible_ones(text: str, message: str) -> None:
    with pytest.raises(UserInputError, match="--assume: given") as error:
        replaced(assumption_data().assumptions, [text])
    assert message in str(error.value)


def test_the_document_shows_every_assumption() -> None:
    without_sources = (row[:-1] for row in assumption_rows(assumption_data()))
    assert_block(DOCUMENT, "assumptions", table(without_sources))


def test_the_appendix_shows_every_source() -> None:
    assert_block(APPENDIX, "assumptions", table(assumption_rows(assumption_data())))


def test_the_document_lists_costs_beside_the_accelerators() -> None:
    data = assumption_data()
    rows = [
        (f"{count} x {what}", f"{price.usd:g}", price.as_of.isoformat(), price.source)
        for what, count in data.standing.items()
        for price in (data.prices[what],)
    ]
    assert_block(DOCUMENT, "standing", table([("what", "USD/h each", "as of", "source"), *rows]))


def test_the_document_shows_what_traffic_costs() -> None:
    price = assumption_data().nat_gateway_traffic
    row = ("the NAT gateway", f"{price.usd_per_gib:g}", price.as_of.isoformat(), price.source)
    headings = ("through", "USD per GiB", "as of", "source")
    assert_block(DOCUMENT, "traffic", table([headings, row]))


def test_the_document_shows_what_a_metric_costs() -> None:
    price = assumption_data().prices["custom_metric"]
    row = ("a custom metric", f"{price.usd_per_month:g}", price.as_of.isoformat(), price.source)
    headings = ("what", "USD per month each", "as of", "source")
    assert_block(DOCUMENT, "custom metric", table([headings, row]))
    words = " ".join(DOCUMENT.read_text(encoding="utf-8").split())
    of_sides = [len(charged(speculates=speculates)) for speculates in (True, False)]
    assert "sends {} with speculation and {} without".format(*of_sides) in words
    # At five loads, variants have metrics for two prompt classes, and findings also for their mix.
    count = sum(of_sides) * 2 * 5 + len(FINDING_METRICS) * 3 * 5
    month_usd = count * price.usd_per_month
    assert f"has {count} with a baseline" in words
    assert f"{month_usd:g} USD in a month" in words
    assert f"at most {month_usd / HOURS_PER_MONTH * 5:.2f} USD in a run of five hours" in words


def test_the_paid_cpu_nodes_are_the_clusters() -> None:
    assert assumption_data().standing[CPU_INSTANCE_TYPE] == CPU_NODES


def assumption_rows(data: AssumptionData) -> Iterator[tuple[str, ...]]:
    yield ("assumption", "low", "high", "unit", "source")
    groups: list[tuple[str, Iterable[tuple[str, Assumption]]]] = [("", data.assumptions.items())]
    groups += [(f" ({model})", values.items()) for model, values in data.targets.items()]
    for suffix, rows in groups:
        for name, row in rows:
            yield (f"`{name}`{suffix}", f"{row.low:g}", f"{row.high:g}", row.unit, row.source)


def table(rows: Iterable[tuple[str, ...]]) -> str:
    head, *body = rows
    lines = [head, ("---",) * len(head), *body]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)
