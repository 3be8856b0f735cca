"""Writes the files that serve a run's winner: its server in several forms, and its alarm."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from charts.manifest_files import Object, missing_variables, write_files, yaml_text
from charts.winner import production_stack
from charts.winner.exported_server import Export
from charts.winner.kserve import inference_service
from charts.winner.measured_winner import MeasuredWinner
from charts.winner.winner_alarms import (
    break_even_words,
    cloudwatch_alarm,
    prometheus_rule,
    watched,
)
from charts.winner.winner_objects import (
    BUCKETS,
    ClaimChart,
    CommonChart,
    DeploymentChart,
    objects_of,
)
from draftworth.untrusted import one_line

# The page that says what a cluster needs for each of the files.
DOCUMENT = "docs/winner.md"
COMMON_FILE, DEPLOYMENT_FILE = "common.yaml", "deployment.yaml"
KSERVE_FILE, STACK_FILE = "kserve.yaml", "production-stack-values.yaml"
RULE_FILE, ALARM_FILE = "prometheus-rule.yaml", "cloudwatch-alarm.yaml"
_FILES: Mapping[str, str] = {
    COMMON_FILE: "What every form of it needs; apply it first",
    DEPLOYMENT_FILE: "As a Deployment behind a ClusterIP Service",
    KSERVE_FILE: "As an InferenceService of KServe",
    STACK_FILE: "As values of the vLLM production-stack's chart vllm/vllm-stack",
    RULE_FILE: "An alarm for a Prometheus that scrapes it in any of these forms",
    ALARM_FILE: "The same alarm for CloudWatch, where its agent scrapes it",
}


@dataclass(frozen=True, kw_only=True)
class WinnerFiles:
    """The files that were written for a winner.

    descriptions: {path: what the file is}, in this order: common, deployment, kserve, values; then,
        if there is an alarm, the Prometheus rule and the CloudFormation template.
    missing: the environment variables whose placeholders the files have.
    """

    descriptions: Mapping[Path, str]
    missing: Sequence[str]


def write_winner_files(out: Path, export: Export, measured: MeasuredWinner) -> WinnerFiles:
    """Write the winner's files into the folder `out`; DraftworthError: it cannot be written."""
    texts = {
        name: _header(export, measured, name) + yaml_text(objects)
        for name, objects in _objects(export, measured).items()
    }
    paths = write_files(out, {name: text.encode() for name, text in texts.items()})
    return WinnerFiles(
        descriptions={path: _FILES[path.name] for path in paths},
        missing=missing_variables("".join(texts.values()), BUCKETS.values()),
    )


def _header(export: Export, measured: MeasuredWinner, name: str) -> str:
    run_id = one_line(measured.result.run_id)
    lines = [
        f"Winner of run {run_id}: {measured.winner.variant}. {_FILES[name]}.",
        f"What was measured stands in the annotations; what the cluster needs: {DOCUMENT}.",
        *export.remarks,
    ]
    if name == STACK_FILE:
        version = production_stack.CHART_VERSION
        lines.append(
            f"By the keys of chart version {version}, which adds a host and environment of its own."
        )
    if name == STACK_FILE and export.devices:
        lines.append(
            "The chart has no place for a resource claim: devices are asked of the Neuron device "
            f"plugin ({production_stack.DEVICE_RESOURCE}), which the run did not use."
        )
    if name in (RULE_FILE, ALARM_FILE) and (threshold := watched(measured)):
        lines.append(break_even_words(*threshold))
    return "".join(f"# {line}\n" for line in lines)


def _objects(export: Export, measured: MeasuredWinner) -> dict[str, Sequence[Object]]:
    """Return the content of each file as {file name: YAML documents}.

    The documents are Kubernetes objects, Helm values or a CloudFormation template, as plain data.
    """
    claim_template = objects_of(ClaimChart, export)
    objects: dict[str, Sequence[Object]] = {
        COMMON_FILE: objects_of(CommonChart, export),
        DEPLOYMENT_FILE: objects_of(DeploymentChart, export),
        KSERVE_FILE: (*claim_template, inference_service(export)),
        STACK_FILE: (production_stack.production_stack_values(export),),
    }
    if threshold := watched(measured):
        _, break_even = threshold
        objects[RULE_FILE] = (prometheus_rule(export, break_even),)
        objects[ALARM_FILE] = (cloudwatch_alarm(export, break_even),)
    return objects
