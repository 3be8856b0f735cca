"""`draftworth manifests --winner` writes the winner of a run for other clusters."""

import argparse
import re
from collections.abc import Mapping, Sequence

from charts.manifest_files import Object, missing_variables, write_files, yaml_text
from charts.manifests_options import refuse
from charts.winner import production_stack
from charts.winner.exported_server import Export
from charts.winner.kserve import inference_service
from charts.winner.measured_winner import MeasuredWinner, measured_winner
from charts.winner.winner_alarms import (
    break_even_words,
    cloudwatch_alarm,
    prometheus_rule,
    watched,
)
from charts.winner.winner_next_steps import DOCUMENT, next_steps
from charts.winner.winner_objects import (
    BUCKETS,
    ClaimChart,
    CommonChart,
    DeploymentChart,
    export_of,
    objects_of,
)
from draftworth.errors import UserInputError
from draftworth.experiment.rules.aws_rules import PINNED_IMAGE_WORDS, is_pinned_image
from draftworth.planning.resolved import ResolvedExperiment, ResolvedLocal, load
from draftworth.untrusted import one_line

COMMON_FILE, DEPLOYMENT_FILE = "common.yaml", "deployment.yaml"
KSERVE_FILE, STACK_FILE = "kserve.yaml", "production-stack-values.yaml"
RULE_FILE, ALARM_FILE = "prometheus-rule.yaml", "cloudwatch-alarm.yaml"
# Options that are allowed only with `--winner`.
WINNER_OPTIONS = ("namespace", "image")
DEFAULT_NAMESPACE = "default"
_DNS_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


def add_winner_arguments(parser: argparse.ArgumentParser) -> None:
    """Add `--winner`, and the options for the objects that serve the winner."""
    parser.add_argument(
        "--winner",
        metavar="RUN",
        help="instead: what this run's winner needs to be served elsewhere, always in all forms: "
        "as plain objects, for KServe, for the vLLM production-stack chart; folder or s3:// "
        "address of one run",
    )
    parser.add_argument(
        "--namespace", help=f"of the winner's objects (default: {DEFAULT_NAMESPACE})"
    )
    parser.add_argument(
        "--image", help="of a local experiment's winner: an image with the engine it ran on"
    )


def write_winner(arguments: argparse.Namespace) -> str:
    """Write the files that serve a run's winner, and return the next steps as text.

    It raises UserInputError if an option is wrong, or the run is not of the given experiment.
    """
    experiment = load(arguments.experiment)
    namespace = _namespace(arguments.namespace)
    image = _image(experiment, arguments.image)
    bucket_names = {name: value for name in BUCKETS if (value := getattr(arguments, name))}
    if isinstance(experiment, ResolvedLocal):
        refuse(
            "a local experiment's winner",
            "allowed: on Neuron devices, because its checkpoints are on a claim of your own",
            **bucket_names,
        )
    measured = measured_winner(arguments.winner, experiment)
    export = export_of(
        experiment, measured, namespace=namespace, image=image, bucket_names=bucket_names
    )
    texts = {
        name: _header(export, measured, name) + yaml_text(objects)
        for name, objects in _objects(export, measured).items()
    }
    files = write_files(arguments.out, {name: text.encode() for name, text in texts.items()})
    return next_steps(
        measured,
        export,
        files={path: _FILES[path.name] for path in files},
        missing=missing_variables("".join(texts.values()), BUCKETS.values()),
        has_namespace=namespace == DEFAULT_NAMESPACE,
    )


def _namespace(chosen: str | None) -> str:
    namespace = chosen or DEFAULT_NAMESPACE
    if not _DNS_LABEL.fullmatch(namespace):
        raise UserInputError(
            f"--namespace: given {one_line(namespace)!r}, allowed: lower-case letters, digits and "
            "hyphens, at most 63, a letter or digit first and last"
        )
    return namespace


def _image(experiment: ResolvedExperiment, chosen: str | None) -> str:
    release, spec = experiment.spec.release_facts, experiment.spec
    if release.image:
        if chosen:
            raise UserInputError(
                f"--image: given {one_line(chosen)}, allowed: not with release {spec.release}, "
                f"whose image was measured: {release.image}; next: leave it out"
            )
        return release.image
    if not chosen:
        raise UserInputError(
            f"--image: not given, allowed: an image with vLLM {release.vllm_version} for CPU, "
            f"because release {spec.release} runs on the machine itself and has no image; next: "
            "--image REPOSITORY:TAG. Only flags and environment are then what was measured"
        )
    if not is_pinned_image(chosen):
        raise UserInputError(
            f"--image: given {one_line(chosen)}; allowed: {PINNED_IMAGE_WORDS}, because under a "
            "tag that moves another engine is served than the one that was measured"
        )
    return chosen


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


_FILES: Mapping[str, str] = {
    COMMON_FILE: "What every form of it needs; apply it first",
    DEPLOYMENT_FILE: "As a Deployment behind a ClusterIP Service",
    KSERVE_FILE: "As an InferenceService of KServe",
    STACK_FILE: "As values of the vLLM production-stack's chart vllm/vllm-stack",
    RULE_FILE: "An alarm for a Prometheus that scrapes it in any of these forms",
    ALARM_FILE: "The same alarm for CloudWatch, where its agent scrapes it",
}


def _objects(export: Export, measured: MeasuredWinner) -> dict[str, Sequence[Object]]:
    """Return the content of the files as {file name: Kubernetes objects or Helm values}."""
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
