import math
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

import botocore.session
import pytest
from botocore.serialize import create_serializer
from hypothesis import given
from hypothesis import strategies as st

from draftworth.experiment.search_settings import MAX_CANDIDATES
from draftworth.metrics.definitions import NAMESPACE, charged, published
from draftworth.records.load_shapes import ConcurrencyLoad, Load, PoissonLoad
from draftworth.records.results import BlockResult, RequestRecord, SpeculationCounters
from draftworth.report.sentences import verdict_of
from lambdas.metrics_publisher.metric_data_calls import Call, Plan, plan_block, plan_verdict
from lambdas.metrics_publisher.publish_errors import UnusableError
from tests.draftworth.report.runs import make_facts
from tests.draftworth.report.searches import ORDER, make_search_run
from tests.support.blocks import START_UNIX_S, make_block, make_failed_record, make_record

ExpectedValue = Callable[[RequestRecord], float | None]


def stored_values(plan: Plan) -> dict[tuple[str, datetime], list[float]]:
    """Return the values of the calls, each as often as its count says."""
    stored: defaultdict[tuple[str, datetime], list[float]] = defaultdict(list)
    for datum in (datum for call in plan.calls for datum in call):
        at = datum["Timestamp"]
        assert isinstance(at, datetime)
        for value, count in zip(datum["Values"], datum["Counts"], strict=True):
            stored[datum["MetricName"], at] += [value] * int(count)
    return {group: sorted(values) for group, values in stored.items()}


def values_of_metric(plan: Plan, name: str) -> dict[datetime, list[float]]:
    return {at: values for (metric, at), values in stored_values(plan).items() if metric == name}


def minute(number: int) -> datetime:
    return datetime.fromtimestamp(START_UNIX_S + 60 * number, UTC)


# Unit and value of each metric, written out to check those in `draftworth.metrics.definitions`.
EXPECTED: dict[str, tuple[str, ExpectedValue]] = {
    "TTFT": ("Milliseconds", lambda r: None if r.ttft_s is None else r.ttft_s * 1000),
    "InterTokenLatency": (
        "Milliseconds",
        lambda r: None if r.inter_token_latency_s is None else r.inter_token_latency_s * 1000,
    ),
    "EndToEndLatency": (
        "Milliseconds",
        lambda r: None if r.end_to_end_latency_s is None else r.end_to_end_latency_s * 1000,
    ),
    "RequestOutputThroughput": ("Count/Second", lambda r: r.request_output_throughput_token_per_s),
    "InputTokens": ("Count", lambda r: r.number_input_tokens),
    "OutputTokens": ("Count", lambda r: r.number_output_tokens),
}

_seconds = st.just(0.0) | st.floats(min_value=1e-12, max_value=4000)
_tokens = st.integers(min_value=0, max_value=4)
_start = st.floats(min_value=START_UNIX_S - 7200, max_value=START_UNIX_S + 7200)


@st.composite
def records(draw: st.DrawFn) -> RequestRecord:
    started_at_unix_s = draw(_start)
    if draw(st.integers(0, 9)) == 0:
        return make_failed_record(started_at_unix_s=started_at_unix_s)
    fields: dict[str, Any] = {
        "ttft_s": draw(_seconds),
        "inter_token_latency_s": draw(st.none() | _seconds),
        "end_to_end_latency_s": draw(_seconds),
        "request_output_throughput_token_per_s": draw(_seconds),
        "number_input_tokens": draw(_tokens),
        "number_output_tokens": draw(_tokens),
        "excluded": draw(st.sampled_from([None, None, None, "run-queue wait"])),
    }
    return make_record(started_at_unix_s=started_at_unix_s, **fields)


@given(requests=st.lists(records(), max_size=40), most_values=st.integers(1, 5))
def test_the_calls_have_every_figure_exactly_once(
    requests: list[RequestRecord], most_values: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "lambdas.metrics_publisher.metric_data_calls.MAX_VALUES_PER_DATUM", most_values
        )
        load = ConcurrencyLoad(concurrency=4)
        plan = plan_block(make_block(requests=tuple(requests), speculation=None, load=load))
    expected: defaultdict[tuple[str, datetime], list[float]] = defaultdict(list)
    for record in requests:
        start = datetime.fromtimestamp(math.floor(record.started_at_unix_s), UTC)
        at = start.replace(second=0)
        expected["Errors", at].append(0.0 if record.error_code is None else 1.0)
        if record.error_code is None and record.excluded is None:
            for name, (_, figure) in EXPECTED.items():
                value = figure(record)
                if value is not None:
                    expected[name, at].append(value)
    done = [r for r in requests if r.error_code is None]
    seconds = sum(r.end_to_end_latency_s or 0 for r in done)
    if seconds:
        tokens = sum(r.number_output_tokens or 0 for r in done)
        expected["OutputThroughput", minute(0)] = [4 * tokens / seconds]
    # Each request has the 30 chunks of `make_record`; the first chunk has one token.
    counting = [r.number_output_tokens or 0 for r in done if r.excluded is None]
    if after_first := [tokens - 1 for tokens in counting if tokens > 1]:
        expected["TokensPerStep", minute(0)] = [sum(after_first) / (29 * len(after_first))]
    stored = stored_values(plan)
    assert stored.keys() == expected.keys()
    for group, values in expected.items():
        assert stored[group] == pytest.approx(sorted(values), rel=1e-12, abs=1e-6)


def test_every_datum_has_its_unit_and_dimensions() -> None:
    data = [datum for call in plan_block(make_block()).calls for datum in call]
    named = {name: unit for name, (unit, _) in EXPECTED.items()}
    of_blocks = {
        "AcceptanceRate": "Percent",
        "OutputThroughput": "Count/Second",
        "TokensPerStep": "Count",
    }
    units = {datum["MetricName"]: datum["Unit"] for datum in data}
    assert units == {**named, **of_blocks, "Errors": "Count"}
    stand_ins = {"AcceptanceRateEstimated"}  # for blocks of servers without counters
    assert {metric.name for metric in published()} == units.keys() | stand_ins
    for datum in data:
        assert datum["Dimensions"] == [
            {"Name": "Experiment", "Value": "qwen3-32b"},
            {"Name": "Variant", "Value": "qwen3-1.7b-k7"},
            {"Name": "PromptClass", "Value": "structured"},
            {"Name": "Load", "Value": "c4"},
        ]


def test_requests_are_grouped_by_minute_and_rounded() -> None:
    requests = tuple(
        make_record(ttft_s=ttft_s, started_at_unix_s=START_UNIX_S + offset)
        for offset, ttft_s in [(0.0, 0.1), (59.999, 0.2), (60.0, 0.1 + 0.2)]
    )
    plan = plan_block(make_block(requests=requests))
    assert values_of_metric(plan, "TTFT") == {minute(0): [100.0, 200.0], minute(1): [300.0]}


def test_equal_values_are_stored_once_with_their_count() -> None:
    requests = tuple(make_record(ttft_s=s) for s in (0.1, 0.2, 0.1))
    (call,) = plan_block(make_block(requests=requests)).calls
    (ttft,) = [datum for datum in call if datum["MetricName"] == "TTFT"]
    assert (ttft["Values"], ttft["Counts"]) == ([100.0, 200.0], [2.0, 1.0])


@pytest.mark.parametrize(
    ("load", "token_per_s"),
    [
        # Two requests of 100 tokens. With four in flight: tokens per 1.5 s of a request. In a
        # Poisson load: tokens per time from the first start to the last end.
        (ConcurrencyLoad(concurrency=4), 4 * 200 / 3),
        (PoissonLoad(requests_per_second=2.5), 200 / 3.5),
    ],
)
def test_a_blocks_throughput_is_one_value(load: Load, token_per_s: float) -> None:
    requests = tuple(make_record(index, end_to_end_latency_s=1.5) for index in range(2))
    block = make_block(load=load, requests=requests, ended_at_unix_s=START_UNIX_S + 130)
    stored = values_of_metric(plan_block(block), "OutputThroughput")
    assert stored == {minute(2): [pytest.approx(token_per_s)]}


def test_acceptance_is_one_percentage_at_the_blocks_end() -> None:
    counters = SpeculationCounters(drafts=10, draft_tokens=200, accepted_tokens=150)
    block = make_block(speculation=counters, ended_at_unix_s=START_UNIX_S + 130)
    assert values_of_metric(plan_block(block), "AcceptanceRate") == {minute(2): [75.0]}


def steps_of(tokens_per_step: float) -> tuple[RequestRecord, ...]:
    """Return requests with 100 tokens, which came in steps of this size after the first."""
    return (make_record(chunks=1 + round(99 / tokens_per_step), tokens_per_step=tokens_per_step),)


NO_DRAFTS = SpeculationCounters(drafts=0, draft_tokens=0, accepted_tokens=0)


@pytest.mark.parametrize("speculation", [None, NO_DRAFTS])
def test_without_counters_acceptance_is_named_an_estimate(
    speculation: SpeculationCounters | None,
) -> None:
    block = make_block(requests=steps_of(4.5), max_tokens_per_step=8, speculation=speculation)
    plan = plan_block(block)
    assert values_of_metric(plan, "AcceptanceRateEstimated") == {minute(0): [pytest.approx(50.0)]}
    assert values_of_metric(plan, "AcceptanceRate") == {}
    assert {d["Unit"] for c in plan.calls for d in c if "Estimated" in d["MetricName"]} == {
        "Percent"
    }


@pytest.mark.parametrize(
    ("tokens_per_step", "changes"),
    [
        (4.5, {"speculation": SpeculationCounters(drafts=1, draft_tokens=7, accepted_tokens=2)}),
        (4.5, {"max_tokens_per_step": None}),
        (1.0, {"max_tokens_per_step": 1}),  # a baseline
        (9.0, {}),  # merged chunks: no acceptance explains them
    ],
)
def test_an_estimate_needs_its_inputs_and_no_count(
    tokens_per_step: float, changes: dict[str, Any]
) -> None:
    requests = steps_of(tokens_per_step)
    good: dict[str, Any] = {"requests": requests, "max_tokens_per_step": 8, "speculation": None}
    plan = plan_block(make_block(**good | changes))
    assert values_of_metric(plan, "AcceptanceRateEstimated") == {}


@pytest.mark.parametrize("counted", [True, False])
def test_a_block_sends_what_plan_charges_for(counted: bool) -> None:
    good = make_block(requests=steps_of(4.5), max_tokens_per_step=8)
    drafted = good if counted else replace(good, speculation=None)
    plain = make_block(requests=steps_of(1.0), max_tokens_per_step=1, speculation=None)
    for block, speculates in ((drafted, True), (plain, False)):
        sent = {name for name, _ in stored_values(plan_block(block))}
        assert len(sent) == len(charged(speculates=speculates))


def test_the_same_file_gives_the_same_calls() -> None:
    one, two = plan_block(make_block(request_count=40)), plan_block(make_block(request_count=40))
    assert one == two
    assert one.sha256 != plan_block(make_block(request_count=41)).sha256


def test_a_block_without_requests_takes_no_call() -> None:
    plan = plan_block(make_block(requests=(), speculation=None))
    assert (plan.calls, plan.first_minute, plan.last_minute) == ((), None, None)


@pytest.mark.parametrize(
    ("block", "reason"),
    [
        (make_block(variant=""), "dimension Variant: given ''"),
        (make_block(variant=" "), "dimension Variant: given ' '"),
        (make_block(experiment="größe"), "printable ASCII"),
        (make_block(prompt_class=":x"), "the first no colon"),
        (make_block(experiment="x" * 1025), "1 to 1024"),
    ],
)
def test_values_that_cloudwatch_refuses_fail_before_calls(block: BlockResult, reason: str) -> None:
    with pytest.raises(UnusableError) as refused:
        plan_block(block)
    assert reason in str(refused.value)


def query_protocol_bytes(call: Call) -> int:
    """Return the bytes of a call in CloudWatch's most verbose protocol, uncompressed."""
    model = botocore.session.get_session().get_service_model("cloudwatch")
    operation = model.operation_model("PutMetricData")
    request = create_serializer("query", include_validation=False).serialize_to_request(
        {"Namespace": NAMESPACE, "MetricData": list(call)}, operation
    )
    return len(urlencode(request["body"]))


def test_ten_thousand_requests_take_forty_calls_at_most() -> None:
    plan = plan_block(make_block(request_count=10_000))
    assert len(plan.calls) <= 40
    for call in plan.calls:
        assert len(call) <= 1000
        assert max(len(datum["Values"]) for datum in call) <= 150
    largest = max(plan.calls, key=lambda call: sum(len(datum["Values"]) for datum in call))
    assert query_protocol_bytes(largest) < 1_000_000
    assert sum(len(v) for v in values_of_metric(plan, "TTFT").values()) == 10_000


def test_the_largest_searchs_verdict_is_within_limits() -> None:
    verdict = verdict_of(make_facts(make_search_run()))
    mix = verdict.findings[0]
    findings = tuple(
        replace(mix, variant=f"draft-k{number}", traffic=f"class-{place}")
        for number in range(MAX_CANDIDATES)
        for place in range(9)
    )
    plan = plan_verdict(replace(verdict, findings=findings), written_at_unix_s=START_UNIX_S)

    assert [len(call) for call in plan.calls] == [3 * len(findings)]
    assert max(map(query_protocol_bytes, plan.calls)) < 1_000_000
    assert plan.words[0] == f"{verdict.decision} {verdict.headline}"


def test_only_measured_candidates_of_a_search_are_published() -> None:
    verdict = verdict_of(make_facts(make_search_run()))
    (call,) = plan_verdict(verdict, written_at_unix_s=START_UNIX_S).calls
    named = {d["Value"] for datum in call for d in datum["Dimensions"] if d["Name"] == "Variant"}

    assert named == {*ORDER}
