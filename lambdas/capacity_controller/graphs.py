"""Graphs in the artifacts bucket, and what the Jobs that compile them have reported."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from draftworth.records.artifact_manifest import MANIFEST_NAME
from draftworth.records.capacity import CapacityPlan, GraphRef
from draftworth.records.codec import RecordError
from draftworth.records.unproven_graphs import (
    REJECTED_NAME,
    UNPROVEN_NAME,
    WANTED_KEY,
    CompileReport,
    WantedGraphs,
    compile_report_key,
)
from draftworth.untrusted import TooLargeError
from lambdas.capacity_controller.objects import read_record
from lambdas.capacity_controller.observation import PendingGraph

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_SETTLED = (MANIFEST_NAME, UNPROVEN_NAME, REJECTED_NAME)


def pending_graphs(
    s3: S3Client, *, artifacts: str, results: str, plan: CapacityPlan, deployed_at_unix_s: float
) -> Iterator[PendingGraph]:
    """Those that are neither in the bucket nor given up, each with when it began to be needed."""
    wanted = _wanted(s3, results, plan)
    for graph in plan.compiling.graphs if plan.compiling else ():
        if not (_is_there(s3, artifacts, graph) or _has_ended(s3, results, graph)):
            since = deployed_at_unix_s if graph.certain else wanted.get(graph.key)
            yield PendingGraph(
                key=graph.key, job_name=graph.job_name, certain=graph.certain, since_unix_s=since
            )


def _is_there(s3: S3Client, bucket: str, graph: GraphRef) -> bool:
    """Whether the bucket says something of it, be it that no server could use it."""
    listed = s3.list_objects_v2(Bucket=bucket, Prefix=f"{graph.key}/_", MaxKeys=len(_SETTLED) + 1)
    names = {entry["Key"].rpartition("/")[2] for entry in listed.get("Contents", [])}
    return not names.isdisjoint(_SETTLED)


def _has_ended(s3: S3Client, bucket: str, graph: GraphRef) -> bool:
    """By its own report; one that is none, or of a Job before this one, says nothing."""
    try:
        report = read_record(CompileReport, s3, bucket, compile_report_key(graph.key))
    except (RecordError, TooLargeError):
        return False
    return report is not None and (report.key, report.job_name) == (graph.key, graph.job_name)


def _wanted(s3: S3Client, bucket: str, plan: CapacityPlan) -> Mapping[str, float]:
    """What the measuring Job asks for, beside what is certain."""
    try:
        found = read_record(WantedGraphs, s3, bucket, WANTED_KEY)
    except (RecordError, TooLargeError):
        return {}
    return found.since_unix_s if found and found.job_name == plan.job_name else {}
