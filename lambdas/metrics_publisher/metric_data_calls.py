"""Turns a result file or a verdict into PutMetricData calls within CloudWatch's limits.

CloudWatch stores standard-resolution metrics by the minute, so values are grouped by metric and by
the minute of the request's start or of the block's end. A group becomes an array of unique values
and an array of their counts, from which CloudWatch computes percentiles as from single values. The
same file always gives the same calls in the same order, so a later delivery of its message can go
on where an earlier one stopped.

Limits (API reference of PutMetricData and MetricDatum, read from botocore 1.44's service model):
150 unique values in a datum's array; 1000 data and 1 MB in a call; values within +-2**360;
timestamps that are valid dates, which `records.results` already checks. The reference says 150 "per
metric with one PutMetricData request", but the service checks each datum (aws/aws-sdk-java-v2 issue
3080), and AWS's CloudWatch agent, too, sends several data of a metric, of 150 values, in one call.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from draftworth.metrics import definitions
from draftworth.metrics.definitions import Metric, dimension_values
from draftworth.records.findings import Verdict
from draftworth.records.results import BlockResult
from lambdas.metrics_publisher.publish_errors import UnusableError

if TYPE_CHECKING:
    from mypy_boto3_cloudwatch.type_defs import DimensionTypeDef, MetricDatumTypeDef

MAX_VALUES_PER_DATUM = 150
MAX_DATA_PER_CALL = 1000
MAX_DIMENSION_LENGTH = 1024
# Sizes without compression in CloudWatch's most verbose protocol, the query protocol of older SDKs
# (`MetricData.member.12.Values.member.34=56.789012&`); boto3 sends fewer bytes.
MAX_CALL_BYTES = 900_000
_BYTES_PER_VALUE = 120
_BYTES_PER_DATUM = 600

Call = tuple["MetricDatumTypeDef", ...]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The PutMetricData calls that publish one file.

    sha256: the hash of all calls, in hexadecimal: another grouping of the values has another hash.
    first_minute, last_minute: the first and last timestamp, in Unix seconds; None: no data.
    words: a verdict's decision and headline, then the sentences of its findings; empty for a block.
    """

    calls: tuple[Call, ...]
    sha256: str
    first_minute: int | None
    last_minute: int | None
    words: tuple[str, ...] = ()


def plan_block(block: BlockResult) -> Plan:
    """Plan the PutMetricData calls that publish the measured values of a block.

    It raises UnusableError if CloudWatch would refuse them.
    """
    groups = _groups(block)
    dimensions = _dimensions(dimension_values(block))
    return _plan(_data(groups, dimensions), [minute for minute, _ in groups])


def plan_verdict(verdict: Verdict, *, written_at_unix_s: float) -> Plan:
    """Plan the PutMetricData calls that publish the cost ratios in a verdict's findings.

    written_at_unix_s: when the verdict was written; its minute is the timestamp of all values.
    """
    minute = _minute(written_at_unix_s)
    findings = [*definitions.published_findings(verdict)]
    data = (
        datum
        for names, values in findings
        for datum in _data(
            {(minute, metric): Counter([value]) for metric, value in values.items()},
            _dimensions(names),
        )
    )
    headline = f"{verdict.decision} {verdict.headline}".lstrip()
    words = (headline, *(finding.sentence for finding in verdict.findings))
    return replace(_plan(data, [minute] if findings else []), words=words)


def _plan(data: Iterator[MetricDatumTypeDef], minutes: list[int]) -> Plan:
    calls = tuple(_calls(data))
    text = json.dumps(calls, default=datetime.isoformat, separators=(",", ":"))
    return Plan(
        calls=calls,
        sha256=hashlib.sha256(text.encode()).hexdigest(),
        first_minute=min(minutes, default=None),
        last_minute=max(minutes, default=None),
    )


_Groups = Mapping[tuple[int, Metric], Counter[float]]


def _minute(unix_s: float) -> int:
    return int(unix_s // 60) * 60


def _groups(block: BlockResult) -> _Groups:
    groups: defaultdict[tuple[int, Metric], Counter[float]] = defaultdict(Counter)

    def add(unix_s: float, metric: Metric, value: float | None) -> None:
        if value is not None:
            groups[_minute(unix_s), metric][value] += 1

    for record in block.requests:
        for metric in definitions.published():
            if metric.of_request:
                add(record.started_at_unix_s, metric, metric.of(record))
    for metric in definitions.published():
        if not metric.of_request:
            add(block.ended_at_unix_s, metric, metric.of_block(block))
    return groups


def _data(groups: _Groups, dimensions: list[DimensionTypeDef]) -> Iterator[MetricDatumTypeDef]:
    for minute, metric in sorted(groups, key=lambda group: (group[0], group[1].name)):
        counted = sorted(groups[minute, metric].items())
        for start in range(0, len(counted), MAX_VALUES_PER_DATUM):
            part = counted[start : start + MAX_VALUES_PER_DATUM]
            yield {
                "MetricName": metric.name,
                "Dimensions": dimensions,
                "Timestamp": datetime.fromtimestamp(minute, UTC),
                "Values": [value for value, _ in part],
                "Counts": [float(count) for _, count in part],
                "Unit": metric.unit.cloudwatch,
            }


def _calls(data: Iterator[MetricDatumTypeDef]) -> Iterator[Call]:
    call: list[MetricDatumTypeDef] = []
    call_bytes = 0
    for datum in data:
        # URL encoding can turn one character of a dimension's value into 3 bytes.
        dimensions = 3 * sum(len(dimension["Value"]) for dimension in datum["Dimensions"])
        size = _BYTES_PER_DATUM + dimensions + _BYTES_PER_VALUE * len(datum["Values"])
        if call and (len(call) == MAX_DATA_PER_CALL or call_bytes + size > MAX_CALL_BYTES):
            yield tuple(call)
            call, call_bytes = [], 0
        call.append(datum)
        call_bytes += size
    if call:
        yield tuple(call)


def _dimensions(values: Mapping[str, str]) -> list[DimensionTypeDef]:
    for name, value in values.items():
        usable = value.isascii() and value.isprintable() and not value.startswith(":")
        if not (usable and value.strip() and len(value) <= MAX_DIMENSION_LENGTH):
            raise UnusableError("dimension", name=name, value=value, most=MAX_DIMENSION_LENGTH)
    return [{"Name": name, "Value": value} for name, value in values.items()]
