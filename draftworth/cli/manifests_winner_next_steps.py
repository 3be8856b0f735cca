"""What a user does with the files that `draftworth manifests --winner` has written, as text."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from charts.manifest_files import filled_by
from charts.winner.exported_server import Export
from charts.winner.measured_winner import MeasuredWinner
from charts.winner.production_stack import CHART_REPOSITORY, CHART_VERSION
from charts.winner.winner_files import DOCUMENT, WinnerFiles
from charts.winner.winner_pod import checkpoints_claim
from draftworth.untrusted import one_line


def next_steps(
    measured: MeasuredWinner, export: Export, *, files: WinnerFiles, has_namespace: bool
) -> str:
    """Return the text that says what was written, and how to apply the files to a cluster.

    measured: the run and its winner. export: the server that is to serve the winner.
    files: the written files, and the values in them that the user must still fill in.
    has_namespace: whether the objects are for the namespace `default`, which every cluster has;
    else the text says how to create their namespace.
    """
    paths = [*files.descriptions]
    return "\n".join(
        [
            f"Winner of run {one_line(measured.result.run_id)}: {measured.winner.variant}.",
            measured.headline,
            *export.remarks,
            "",
            "Wrote:",
            *(f"  {path}: {what}" for path, what in files.descriptions.items()),
            "",
            *_values_to_fill_in(files.missing),
            *(() if has_namespace else _namespace(export)),
            *(_rights(export) if export.devices else _checkpoints(measured, export)),
            *_apply_one_form(export, *paths[:4]),
            *_apply_alarm(paths[4:]),
            f"What the cluster needs for each: {DOCUMENT}",
            "",
        ]
    )


def _values_to_fill_in(missing: Sequence[str]) -> Iterator[str]:
    if missing:
        yield (f"Values to fill in: {', '.join(missing)}. Export them, and in place of `-f FILE`:")
        yield f"  cat FILE ... |{filled_by(missing)} kubectl apply -f -"


def _namespace(export: Export) -> Iterator[str]:
    yield "Make the namespace, unless it is there:"
    yield f"  kubectl create namespace {export.namespace}"


def _rights(export: Export) -> Iterator[str]:
    yield "Give its service account a role that lists and reads both buckets, and that"
    yield "pods.eks.amazonaws.com may assume and tag:"
    yield (
        "  aws eks create-pod-identity-association --cluster-name CLUSTER "
        f"--namespace {export.namespace} --service-account {export.name} --role-arn ROLE_ARN"
    )


def _checkpoints(measured: MeasuredWinner, export: Export) -> Iterator[str]:
    speculates = measured.winner.speculates
    folders = "folders target and draft" if speculates else "a folder target"
    yield f"Make a PersistentVolumeClaim with the checkpoints, in {folders}:"
    yield f"  {export.namespace}/{checkpoints_claim(export.name)}"


def _apply_one_form(
    export: Export, common: Path, deployment: Path, kserve: Path, values: Path
) -> Iterator[str]:
    yield "Then one of:"
    yield f"  kubectl apply -f {common} -f {deployment}"
    yield f"  kubectl apply -f {common} -f {kserve}"
    yield (
        f"  kubectl apply -f {common} && helm repo add vllm {CHART_REPOSITORY} && helm install "
        f"NAME vllm/vllm-stack --version {CHART_VERSION} --namespace {export.namespace} "
        f"--values {values}"
    )
    yield "NAME must not begin with vllm: its Services' variables would be taken for vLLM's own."


def _apply_alarm(files: Sequence[Path]) -> Iterator[str]:
    if files:
        rule, alarm = files
        yield "And where its metrics go, an alarm for traffic that is no longer what was measured:"
        yield f"  kubectl apply -f {rule}"
        yield (
            f"  aws cloudformation deploy --template-file {alarm} --stack-name NAME "
            "--parameter-overrides ClusterName=CLUSTER TopicArn=TOPIC_ARN"
        )
