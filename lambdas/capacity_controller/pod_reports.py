"""Observes in S3 what the pods of canaries and servers have reported since the deploy.

A canary is a Job that tries something on a CPU node before an accelerator starts: the mounts and
permissions of a variant, or what the measuring Job must reach.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from draftworth.records.codec import RecordError
from draftworth.records.deployment import CanaryReport, CapacityPlan, canary_key
from draftworth.records.servers import ServerState, server_state_key
from draftworth.untrusted import TooLargeError, one_line
from lambdas.capacity_controller.s3_reading import quotable_lines, read_if_valid, read_record

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


@dataclass(frozen=True, kw_only=True)
class Canaries:
    """What the plan's canaries have reported since the deploy, summarized.

    They are those of its `variants`: one for each variant whose server is tried, and one for the
    measuring Job's paths.

    State `ok`: all canaries have succeeded. `missing`: `text` names those without a report.
    `failed`: `text` is a canary's error, and `last_lines` is the end of its log. `unreadable`: a
    report is not valid.
    """

    state: Literal["ok", "missing", "failed", "unreadable"]
    text: str = ""
    last_lines: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Servers:
    """What the servers of the plan have reported since the deploy, summarized.

    gave_up: why a server was given up; empty: none was. last_lines: the end of that server's log.
    healthy_since_unix_s: when the newest healthy server became healthy; None: none is healthy.
    first_report_at_unix_s: when the oldest reported state began; None: no server has reported.
    is_tested: whether at least one server's pod has ended its self-test.
    """

    gave_up: str = ""
    last_lines: tuple[str, ...] = ()
    healthy_since_unix_s: float | None = None
    first_report_at_unix_s: float | None = None
    is_tested: bool = False


def canaries_of(s3: S3Client, bucket: str, plan: CapacityPlan, *, since: float) -> Canaries:
    """Read from S3 what the plan's canaries have reported since the Unix time `since`.

    Reports are stored under the name of the plan's measuring Job.
    """
    silent = []
    for variant in plan.variants:
        try:
            report = read_record(CanaryReport, s3, bucket, canary_key(plan.job_name, variant))
        except (RecordError, TooLargeError) as error:
            text = one_line(f"the report of {variant}'s canary cannot be read: {error}")
            return Canaries(state="unreadable", text=text)
        ours = report and (report.job_name, report.variant) == (plan.job_name, variant)
        if report is None or not ours or report.reported_at_unix_s < since:
            silent.append(variant)
        elif not report.ok:
            text = one_line(f"the canary of {variant} has failed: {report.text}")
            return Canaries(state="failed", text=text, last_lines=quotable_lines(report.last_lines))
    return Canaries(state="missing" if silent else "ok", text=", ".join(silent))


def servers_of(s3: S3Client, bucket: str, names: Iterable[str], *, since: float) -> Servers:
    """Observe the states that the servers `names` have reported since the Unix time `since`.

    The phase `ended` is no failure: a run starts and stops servers on purpose. An unreadable state
    counts as not reported: it does not show that a server is ready, so the time limit for a ready
    server goes on.
    """
    reported = [
        read_if_valid(ServerState, s3, bucket, server_state_key(server)) for server in names
    ]
    states = [state for state in reported if state is not None and state.since_unix_s >= since]
    # A variant can have two servers, of which one runs at a time. Only the newer state counts,
    # because a server that was killed could not overwrite its last state.
    newest = {s.variant: s for s in sorted(states, key=lambda state: state.since_unix_s)}
    healthy = [state.since_unix_s for state in newest.values() if state.phase == "healthy"]
    servers = Servers(
        healthy_since_unix_s=max(healthy, default=None),
        first_report_at_unix_s=min((state.since_unix_s for state in states), default=None),
        is_tested=any(s.self_test or s.phase != "testing" for s in states),
    )
    for state in states:
        if state.phase == "given_up":
            why = one_line(f"the server of {state.variant} was given up: {state.reason}")
            return replace(servers, gave_up=why, last_lines=quotable_lines(state.last_lines))
    return servers
