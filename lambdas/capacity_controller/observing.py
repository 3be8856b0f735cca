"""Observes AWS for the controller: the node group, its instances, and objects in S3.

Other programs write these objects, and no object may stop the function that limits the cost:
objects are read up to a limit and decoded strictly, quoted text is made printable, and a part that
cannot be observed is `Unknown`. The invocation fails only if the node group cannot be read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from botocore.exceptions import ClientError

from draftworth.records import checkpoints, results
from draftworth.records.checkpoints import FailedModel, ReadyModel
from draftworth.records.codec import RecordError, load_record
from draftworth.records.controller_state import Deployment
from draftworth.records.deployment import (
    STOP_KEY,
    CanaryReport,
    CapacityPlan,
    DraftTokenizer,
    ModelRef,
    canary_key,
)
from draftworth.records.findings import VERDICT_FILE, Verdict
from draftworth.records.servers import ServerState, server_state_key
from draftworth.untrusted import TooLargeError, one_line
from lambdas.capacity_controller import observation
from lambdas.capacity_controller.observation import NodeGroup, Observation, Unknown
from lambdas.capacity_controller.settings import Settings
from lambdas.s3_document import error_code, read_object

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import ListObjectsV2OutputTypeDef

# Lines of a log or a verdict in one notification: Amazon SNS accepts 256 KiB, and up to 50
# notifications wait in the state.
QUOTED_LINES = 20
# Each Job object has one run, and a name has few Job objects. A page of S3 has 1000 keys.
MAX_RUNS = 100
MAX_PAGES = 10

R = TypeVar("R")
M = TypeVar("M", ReadyModel, FailedModel)


def models_of(s3: S3Client, bucket: str, plan: CapacityPlan, *, since: float) -> observation.Models:
    """Observe the checkpoints; a staging given up before `since`, a Unix time, is ignored."""
    try:
        found = {
            model: _marker(ReadyModel, s3, bucket, model, checkpoints.ready_key)
            for model in plan.models
        }
    except (RecordError, TooLargeError) as error:
        text = one_line(f"{checkpoints.READY_MARKER} cannot be read: {error}")
        return observation.Models(staging="unreadable", text=text)
    ready = {model: marker for model, marker in found.items() if marker is not None}
    missing = [model for model in plan.models if model not in ready]
    for model in missing:
        failed = None
        with suppress(RecordError, TooLargeError):
            failed = _marker(FailedModel, s3, bucket, model, checkpoints.failed_key)
        if failed is not None and failed.failed_at_unix_s >= since:
            text = one_line(f"{_name(model)} is not staged: {failed.reason}")
            return observation.Models(staging="failed", text=text)
    if missing:
        silent = [model for model in missing if not _has_begun(s3, bucket, model)]
        return observation.Models(
            staging="missing",
            text=", ".join(map(_name, missing)),
            silent=", ".join(map(_name, silent)),
        )
    for draft in plan.drafts:
        mismatch = tokenizer_mismatch(ready[plan.target], ready[draft.checkpoint], draft.vocabulary)
        if mismatch:
            return observation.Models(staging="mismatch", text=one_line(mismatch))
    staged_at = max(marker.staged_at_unix_s for marker in ready.values())
    return observation.Models(staging="ready", staged_at_unix_s=staged_at)


def _marker(
    kind: type[M], s3: S3Client, bucket: str, model: ModelRef, key_of: Callable[[str, str], str]
) -> M | None:
    data = read_object(s3, bucket, key_of(model.model, model.revision))
    if data is None:
        return None
    return checkpoints.load_marker(kind, data, model.model, model.revision)


def tokenizer_mismatch(
    target: ReadyModel, draft: ReadyModel, vocabulary: DraftTokenizer
) -> str | None:
    """Describe how the tokenizers of target and draft differ; None if their token ids agree.

    The target verifies the token ids that the draft proposes. With another vocabulary, or the same
    vocabulary in another order, it would reject nearly all ids, or read them as other words.
    vocabulary: with `own_or_none`, a draft without a tokenizer also agrees.
    """
    fingerprint = draft.tokenizer_fingerprint
    if fingerprint is None and vocabulary == "own_or_none":
        return None
    if fingerprint is not None and fingerprint == target.tokenizer_fingerprint:
        return None
    return (
        "the tokenizers of target and draft differ, so the target cannot verify the draft's token "
        f"ids: target {_tokenizer_of(target)}, draft {_tokenizer_of(draft)}; next: give the "
        "variant a draft of the target's own family and deploy again"
    )


def _tokenizer_of(ready: ReadyModel) -> str:
    name = f"{ready.model} at {ready.revision} (commit {ready.commit[:12]})"
    if ready.tokenizer_fingerprint is None:
        return f"{name} has no {checkpoints.TOKENIZER_FILE} and no {checkpoints.VOCABULARY_FILE}"
    return f"{name} has vocabulary {ready.tokenizer_fingerprint[:12]}"


def _name(model: ModelRef) -> str:
    return f"{model.model} at {model.revision}"


def _has_begun(s3: S3Client, bucket: str, model: ModelRef) -> bool:
    folder = f"{checkpoints.checkpoint_prefix(model.model, model.revision)}/"
    return any(page.get("Contents") for page in _pages(s3, bucket, folder))


def canaries_of(
    s3: S3Client, bucket: str, plan: CapacityPlan, *, since: float
) -> observation.Canaries:
    """Observe what the Job's canaries have reported since the Unix time `since`."""
    silent = []
    for variant in plan.variants:
        try:
            report = read_record(CanaryReport, s3, bucket, canary_key(plan.job_name, variant))
        except (RecordError, TooLargeError) as error:
            text = one_line(f"the report of {variant}'s canary cannot be read: {error}")
            return observation.Canaries(state="unreadable", text=text)
        ours = report and (report.job_name, report.variant) == (plan.job_name, variant)
        if report is None or not ours or report.reported_at_unix_s < since:
            silent.append(variant)
        elif not report.ok:
            text = one_line(f"the canary of {variant} has failed: {report.text}")
            return observation.Canaries(
                state="failed", text=text, last_lines=_quoted(report.last_lines)
            )
    return observation.Canaries(state="missing" if silent else "ok", text=", ".join(silent))


def servers_of(
    s3: S3Client, bucket: str, names: Iterable[str], *, since: float
) -> observation.Servers:
    """Observe the states that the servers `names` have reported since the Unix time `since`.

    The phase `ended` is no failure: a run starts and stops servers on purpose. An unreadable state
    counts as not reported: it does not show that a server is ready, so paid waiting goes on.
    """
    found = [_readable(ServerState, s3, bucket, server_state_key(server)) for server in names]
    states = [state for state in found if state is not None and state.since_unix_s >= since]
    # Of a variant's two servers only the newer state counts: a server that was killed cannot
    # replace its last state.
    newest = {s.variant: s for s in sorted(states, key=lambda state: state.since_unix_s)}
    healthy = [state.since_unix_s for state in newest.values() if state.phase == "healthy"]
    seen = observation.Servers(
        healthy_since_unix_s=max(healthy, default=None),
        said_at_unix_s=min((state.since_unix_s for state in states), default=None),
        is_tested=any(s.self_test or s.phase != "testing" for s in states),
    )
    for state in states:
        if state.phase == "given_up":
            why = one_line(f"the server of {state.variant} was given up: {state.reason}")
            return replace(seen, gave_up=why, last_lines=_quoted(state.last_lines))
    return seen


def read_record(record_type: type[R], s3: S3Client, bucket: str, key: str) -> R | None:
    """Return a record, or None if there is no such object; raise RecordError or TooLargeError."""
    data = read_object(s3, bucket, key)
    return None if data is None else load_record(record_type, data)


def _readable(record_type: type[R], s3: S3Client, bucket: str, key: str) -> R | None:
    try:
        return read_record(record_type, s3, bucket, key)
    except (RecordError, TooLargeError):
        return None


def _quoted(lines: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(one_line(line) for line in lines[-QUOTED_LINES:])


def run_of(s3: S3Client, bucket: str, job_name: str) -> observation.ObservedRun:
    """Observe the Job's runs: return the first that is over; if none is, whether a run has begun.

    Each Job object of this name has one run. `run.json` is written last, when the run is over.
    """
    pages = _pages(s3, bucket, f"{results.RUNS_FOLDER}/{job_name}-")
    folders = [entry["Prefix"] for page in pages for entry in page.get("CommonPrefixes", [])]
    for folder in folders[:MAX_RUNS]:
        run_id = one_line(folder.split("/")[-2], characters=100)
        try:
            run = read_record(results.RunResult, s3, bucket, f"{folder}{results.RUN_FILE}")
        except (RecordError, TooLargeError) as error:
            text = one_line(f"its {results.RUN_FILE} cannot be read: {error}")
            return observation.ObservedRun(state="failed", run_id=run_id, text=text)
        if run is not None:
            return observation.ObservedRun(
                state=run.status,
                run_id=run_id,
                text=one_line(run.reason),
                address=one_line(f"s3://{bucket}/{folder.rstrip('/')}"),
                answer=_answer(s3, bucket, folder) if run.status == "complete" else (),
            )
    if len(folders) > MAX_RUNS:
        raise ValueError(f"Job {job_name} has more than {MAX_RUNS} runs")
    measured = [_newest_result(s3, bucket, folder) for folder in folders]
    newest = max((at for at in measured if at is not None), default=None)
    return observation.ObservedRun(state="begun" if folders else "none", measured_at_unix_s=newest)


def _answer(s3: S3Client, bucket: str, folder: str) -> tuple[str, ...]:
    # The run is over with or without a verdict, so no error here may keep nodes up.
    try:
        verdict = read_record(Verdict, s3, bucket, f"{folder}{VERDICT_FILE}")
    except Exception as error:  # noqa: BLE001 - no object of another program ends the function
        why = str(error) or type(error).__name__
        return (one_line(f"The verdict is not known here: {VERDICT_FILE} cannot be read: {why}"),)
    if verdict is None:
        return (f"The verdict is not known here: there is no {VERDICT_FILE}.",)
    if verdict.run_id != folder.split("/")[-2]:
        return (f"The verdict is not known here: {VERDICT_FILE} is another run's.",)
    said = (*(finding.sentence for finding in verdict.findings), *verdict.notes)
    cut = (f"... and {len(said) - QUOTED_LINES} sentences more, in the report.",)
    quoted = (one_line(sentence) for sentence in said[:QUOTED_LINES])
    return (one_line(verdict.headline), *quoted, *(cut if len(said) > QUOTED_LINES else ()))


def _newest_result(s3: S3Client, bucket: str, folder: str) -> float | None:
    pages = _pages(s3, bucket, f"{folder}{results.BLOCKS_FOLDER}/")
    entries = [entry for page in pages for entry in page.get("Contents", [])]
    written = [e for e in entries if e["Key"].endswith(results.RESULT_SUFFIX)]
    return max((e["LastModified"].timestamp() for e in written), default=None)


def _pages(s3: S3Client, bucket: str, prefix: str) -> Iterable[ListObjectsV2OutputTypeDef]:
    listed = s3.get_paginator("list_objects_v2")
    return islice(listed.paginate(Bucket=bucket, Prefix=prefix, Delimiter="/"), MAX_PAGES)


_NOT_LOOKED_AT = Unknown(why="not looked at: a limit is reached")
_DRAINING = "Terminating:Wait"
_GONE = "Terminated"
_NO_BLOCK = {"InvalidCapacityReservationId.NotFound", "InvalidCapacityReservationId.Malformed"}

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Clients:
    """boto3 clients, for observing and for acting."""

    s3: S3Client
    eks: Any
    autoscaling: Any
    ec2: Any
    scheduler: Any
    sns: Any


def observe(
    deployment: Deployment,
    clients: Clients,
    settings: Settings,
    *,
    since: float,
    nodes_alone: bool = False,
) -> Observation:
    """Observe AWS; if `nodes_alone`, only the node group, which is enough once a limit is reached.

    since: failed launches of nodes before this Unix time are ignored.
    """
    plan, deployed = deployment.plan, deployment.deployed_at_unix_s
    s3, bucket, staged = clients.s3, settings.results_bucket, settings.checkpoints_bucket

    def part(observe_part: Callable[[], T]) -> T | Unknown:
        return _NOT_LOOKED_AT if nodes_alone else _or_unknown(observe_part)

    return Observation(
        models=part(lambda: models_of(s3, staged, plan, since=deployed)),
        canaries=part(lambda: canaries_of(s3, bucket, plan, since=deployed)),
        servers=part(lambda: servers_of(s3, bucket, plan.servers, since=deployed)),
        run=part(lambda: run_of(s3, bucket, plan.job_name)),
        stopped=part(lambda: read_object(s3, bucket, STOP_KEY) is not None),
        block=None if plan.reservation_id is None else part(lambda: _block(clients, plan)),
        nodes=node_group(plan, clients, since=since),
    )


def _or_unknown(observe_part: Callable[[], T]) -> T | Unknown:
    try:
        return observe_part()
    except Exception as error:  # noqa: BLE001 - no object of another program ends the function
        return Unknown(why=one_line(str(error) or type(error).__name__))


def _or_else(default: T, observe_part: Callable[[], T]) -> T:
    found = _or_unknown(observe_part)
    return default if isinstance(found, Unknown) else found


def _block(
    clients: Clients, plan: CapacityPlan
) -> observation.CapacityBlock | observation.NoCapacityBlock:
    try:
        found = clients.ec2.describe_capacity_reservations(
            CapacityReservationIds=[plan.reservation_id]
        )["CapacityReservations"]
    except ClientError as error:
        if error_code(error) not in _NO_BLOCK:
            raise
        why = f"there is no Capacity Block {plan.reservation_id}: {error}"
        return observation.NoCapacityBlock(why=why)
    reservation = found[0] if found else {}
    if "StartDate" not in reservation or "EndDate" not in reservation:
        why = f"there is no Capacity Block {plan.reservation_id}, with a start and an end"
        return observation.NoCapacityBlock(why=why)
    return observation.CapacityBlock(
        state=reservation["State"],
        instances=reservation.get("TotalInstanceCount", plan.nodes),
        starts_at_unix_s=reservation["StartDate"].timestamp(),
        ends_at_unix_s=reservation["EndDate"].timestamp(),
    )


def node_group(plan: CapacityPlan, clients: Clients, *, since: float) -> NodeGroup:
    """Observe the node group and its instances. since: as in `observe`."""
    try:
        group = clients.eks.describe_nodegroup(
            clusterName=plan.cluster_name, nodegroupName=plan.nodegroup_name
        )["nodegroup"]
    except ClientError as error:
        if error_code(error) == "ResourceNotFoundException":
            return NodeGroup(ownership="missing")
        raise
    if not plan.nodegroup_tags.items() <= (group.get("tags") or {}).items():
        # Without our tags it is unknown whether its instances were started for this experiment.
        return NodeGroup(ownership="foreign", instances=None)
    desired_size = _or_else(None, lambda: int(group["scalingConfig"]["desiredSize"]))
    name = _or_else("", lambda: str(group["resources"]["autoScalingGroups"][0]["name"]))
    states = _or_else(None, lambda: _lifecycle_states(clients, name))
    there = tuple(i for i, state in (states or {}).items() if state != _GONE)
    instances = None if states is None else len(there)
    activities: list[dict[str, Any]] = []
    if instances is not None and (desired_size or 0) > instances:
        history = clients.autoscaling.describe_scaling_activities
        activities = _or_else(
            [], lambda: history(AutoScalingGroupName=name, MaxRecords=10)["Activities"]
        )
    return NodeGroup(
        ownership="ours",
        desired_size=desired_size,
        instances=instances,
        instance_ids=there,
        draining=tuple(i for i, state in (states or {}).items() if state == _DRAINING),
        auto_scaling_group=name,
        modified_at_unix_s=_or_else(None, lambda: float(group["modifiedAt"].timestamp())),
        # Problems only explain missing nodes, so an error here must not end the invocation.
        problems=_or_else(
            (),
            lambda: observation.problems_of(
                issues=group.get("health", {}).get("issues", []),
                activities=activities,
                since=since,
            ),
        ),
    )


def _lifecycle_states(clients: Clients, name: str) -> dict[str, str]:
    answer = clients.autoscaling.describe_auto_scaling_groups(AutoScalingGroupNames=[name])
    (group,) = answer["AutoScalingGroups"]
    return {i["InstanceId"]: i["LifecycleState"] for i in group["Instances"]}
