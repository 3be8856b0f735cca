"""A verdict's cost ratios, with both ends of each interval, are published to CloudWatch once."""

from dataclasses import replace
from datetime import datetime

import pytest

from draftworth.metrics.definitions import DIMENSIONS
from draftworth.records.codec import dump_record
from draftworth.records.findings import Verdict
from draftworth.records.results import AS_SHIPPED
from draftworth.report.sentences import verdict_of
from lambdas.metrics_publisher.publish_errors import UnusableError
from tests.draftworth.report.runs import make_facts
from tests.lambdas.metrics_publisher.conftest import BUCKET, Aws

pytestmark = pytest.mark.emulator

VERDICT = verdict_of(make_facts())
NAMES = ("CostRatio", "CostRatioLow", "CostRatioHigh")


def uploaded(aws: Aws, verdict: Verdict = VERDICT, *, key: str = "") -> str:
    """Upload the verdict, and set the publisher's clock a minute later; return the object's key."""
    key = aws.upload_bytes(key or verdict.key, dump_record(verdict))
    written: datetime = aws.s3.head_object(Bucket=BUCKET, Key=key)["LastModified"]
    aws.now = written.timestamp() + 60
    return key


def read(aws: Aws, traffic: str) -> dict[str, list[float]]:
    """Return the values of each metric for a prompt class (`traffic`) at load c4."""
    values = dict(zip(DIMENSIONS, (VERDICT.experiment, "k7", traffic, "c4"), strict=True))

    def stored(metric: str, statistic: str) -> list[float]:
        return list(aws.read_by(values, metric, statistic, since_unix_s=aws.now - 3600).values())

    assert all({*stored(name, "SampleCount")} <= {1} for name in NAMES)
    return {name: stored(name, "Sum") for name in NAMES}


def test_a_verdicts_cost_ratios_are_stored_once(aws: Aws) -> None:
    key = uploaded(aws)
    assert [aws.publish(key).calls, aws.publish(key).calls] == [1, 0]

    assert {f.traffic for f in VERDICT.findings} == {"traffic mix", "structured", "open_ended"}
    for finding in VERDICT.findings:
        ends = (finding.cost_ratio, finding.cost_ratio_low, finding.cost_ratio_high)
        assert None not in ends
        assert read(aws, finding.traffic) == {
            name: [pytest.approx(end)] for name, end in zip(NAMES, ends, strict=True)
        }


def test_a_verdicts_event_stores_and_logs_it(chain: Aws) -> None:
    uploaded(chain)

    assert chain.deliver() == {"batchItemFailures": []}
    assert len(read(chain, "traffic mix")["CostRatio"]) == 1
    (line,) = chain.log
    assert line["verdict"] == f"{VERDICT.decision} {VERDICT.headline}"
    assert line["findings"].startswith(f"{VERDICT.findings[0].sentence} | ")


def test_ratios_without_interval_or_baseline_are_not_stored(
    aws: Aws,
) -> None:
    mix, structured, other = VERDICT.findings
    findings = (
        replace(mix, cost_ratio_low=None, cost_ratio_high=None),
        replace(structured, baseline=AS_SHIPPED),
        other,
    )
    aws.publish(uploaded(aws, replace(VERDICT, findings=findings)))

    assert read(aws, "traffic mix")["CostRatio"] == []
    assert read(aws, "structured")["CostRatio"] == []
    assert len(read(aws, "open_ended")["CostRatio"]) == 1


def test_a_verdict_without_intervals_publishes_nothing(aws: Aws) -> None:
    key = uploaded(aws, replace(VERDICT, findings=()))

    assert aws.publish(key).calls == 0
    assert aws.publish(key).calls == 0


def test_an_invalid_verdict_is_refused(aws: Aws) -> None:
    """A copy under another key would be counted again."""
    with pytest.raises(UnusableError, match="but the file says that it is"):
        aws.publish(uploaded(aws, key="runs/another/verdict.json"))
    unknown = replace(VERDICT, schema="draftworth.verdict/0")
    with pytest.raises(UnusableError, match="not a result file"):
        aws.publish(uploaded(aws, unknown))
