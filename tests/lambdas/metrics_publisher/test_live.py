"""A probe of a winner into an emulated CloudWatch, once, by class and for all traffic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from draftworth.analysis.live_metrics import charged_live
from draftworth.analysis.metrics import NAMESPACE
from draftworth.records.codec import dump_record
from draftworth.records.live import LiveClass, LiveProbe
from lambdas.metrics_publisher.datums import plan_probe
from lambdas.metrics_publisher.errors import UnusableError
from tests.lambdas.metrics_publisher.conftest import Aws
from tests.support.blocks import START_UNIX_S
from tests.support.live import make_probe

pytestmark = pytest.mark.emulator

PROBE = make_probe()


def uploaded(aws: Aws, probe: LiveProbe = PROBE, *, key: str = "") -> str:
    return aws.upload_bytes(key or probe.key, dump_record(probe))


def values(aws: Aws, name: str, **dimensions: str) -> list[float]:
    """All values of a metric with exactly these dimensions."""
    start = datetime.fromtimestamp(START_UNIX_S).astimezone()
    points: list[dict[str, Any]] = aws.cloudwatch.get_metric_statistics(
        Namespace=NAMESPACE,
        MetricName=name,
        Dimensions=[{"Name": n, "Value": v} for n, v in dimensions.items()],
        StartTime=start - timedelta(hours=1),
        EndTime=start + timedelta(hours=1),
        Period=60,
        Statistics=["Sum", "SampleCount"],
    )["Datapoints"]
    return [point["Sum"] / point["SampleCount"] for point in points]


def of(prompt_class: str) -> Mapping[str, str]:
    names = {"Experiment": PROBE.experiment, "Variant": PROBE.variant}
    return {**names, "PromptClass": prompt_class, "Load": "live"}


def test_a_probes_event_brings_its_figures_into_the_metrics(aws: Aws) -> None:
    uploaded(aws)

    assert aws.deliver() == {"batchItemFailures": []}
    assert values(aws, "TTFT", **of("structured")) == [pytest.approx(120.0)]
    assert values(aws, "InterTokenLatency", **of("structured")) == [pytest.approx(9.0)]
    assert values(aws, "EndToEndLatency", **of("structured")) == [pytest.approx(1500.0)]
    assert values(aws, "TokensPerStep", **of("structured")) == [pytest.approx(4.0)]
    assert values(aws, "Errors", **of("structured")) == [pytest.approx(0.25)]
    assert values(aws, "TokensPerStep", **of("traffic mix")) == [pytest.approx(3.0)]
    assert values(aws, "AcceptanceRate", **of("traffic mix")) == [pytest.approx(40.0)]
    assert values(aws, "TokensPerStepOverBreakEven", **of("traffic mix")) == [pytest.approx(1.5)]
    assert values(aws, "Drifted", **of("traffic mix")) == [0.0]


def test_the_margin_is_there_by_the_experiment_alone_for_the_alarm(aws: Aws) -> None:
    aws.publish(uploaded(aws))

    margin = values(aws, "TokensPerStepOverBreakEven", Experiment=PROBE.experiment)
    assert margin == [pytest.approx(1.5)]


def test_what_nothing_shows_is_not_stored(aws: Aws) -> None:
    """A winner without a draft, or an engine without counters whose probes failed."""
    silent = LiveClass(
        prompt_class="structured",
        requests=1,
        failed=1,
        ttft_s=None,
        itl_s=None,
        e2e_s=None,
        tokens_per_step=None,
    )
    probe = replace(
        PROBE, classes=(silent,), tokens_per_step=None, acceptance=None, drifted=True, number=2
    )
    aws.publish(uploaded(aws, probe))

    assert values(aws, "TTFT", **of("structured")) == []
    assert values(aws, "Errors", **of("structured")) == [1.0]
    assert values(aws, "TokensPerStepOverBreakEven", Experiment=PROBE.experiment) == []
    assert values(aws, "Drifted", **of("traffic mix")) == [1.0]


def test_a_probe_that_is_delivered_twice_counts_once(aws: Aws) -> None:
    key = uploaded(aws)
    first, second = aws.publish(key), aws.publish(key)

    assert (first.calls, second.calls) == (1, 0)
    assert aws.claim(key)["calls_done"] == 1


def test_as_many_metrics_are_charged_as_a_probe_sends() -> None:
    (call,) = plan_probe(PROBE).calls
    sent = {(d["MetricName"], str(d["Dimensions"])) for d in call}
    assert len(sent) == charged_live(len(PROBE.classes))


@pytest.mark.parametrize(
    ("body", "key", "message"),
    [
        (b"{}", PROBE.key, "not a result file"),
        (dump_record(PROBE), "live/another/000001.json", "but the file says that it is"),
        (dump_record(PROBE).replace(b"live-probe/1", b"live-probe/0"), PROBE.key, "schema"),
        (dump_record(PROBE).replace(b'"failed":1', b'"failed":9'), PROBE.key, "failed"),
        (dump_record(PROBE), "live/000001.txt", "allowed: runs/"),
        (dump_record(replace(PROBE, variant="\n")), PROBE.key, "dimension Variant"),
        (dump_record(replace(PROBE, ended_at_unix_s=1.0)), PROBE.key, "too old"),
    ],
)
def test_what_is_no_probe_is_refused(aws: Aws, body: bytes, key: str, message: str) -> None:
    with pytest.raises(UnusableError, match=message):
        aws.publish(aws.upload_bytes(key, body))


def test_a_probe_that_is_none_becomes_a_dead_letter(aws: Aws) -> None:
    aws.upload_bytes(PROBE.key, b"{}")
    for _ in range(6):
        aws.deliver()

    (dead,) = aws.messages(aws.dead_letters)
    assert PROBE.key in dead["Body"]


@pytest.mark.parametrize("unix_s", [-1.0, 1e300])
def test_a_probes_times_are_dates(unix_s: float) -> None:
    for change in ({"began_at_unix_s": unix_s}, {"ended_at_unix_s": unix_s}):
        with pytest.raises(ValueError, match="_at_unix_s: given"):
            make_probe(**change)
