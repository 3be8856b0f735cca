"""`draftworth logs` prints the pods' logs of Container Insights, without access to the cluster.

The CloudWatch agent's Fluent Bit writes each line of a container as a JSON record with the names of
namespace, pod and container ("Set up Fluent Bit as a DaemonSet", Amazon CloudWatch User Guide).
Exit code 1: a call to AWS failed, or the log group is missing.
"""

import argparse
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from draftworth.account.clients import client, explained, listed
from draftworth.account.printing import print_lines
from draftworth.experiment.naming import PROJECT
from draftworth.planning.resolved import ResolvedNeuron, load_neuron
from draftworth.records.codec import RecordError, load_object

POLL_SECONDS = 5.0
# CloudWatch gets the log lines of several nodes out of order, so each call reads from this long
# before the newest line that is known.
OVERLAP_MS = 60_000


@dataclass(frozen=True, kw_only=True)
class Source:
    """The log lines of one experiment's pods whose names begin with `pod`."""

    experiment: ResolvedNeuron
    pod: str

    def events(self, since_ms: int) -> Iterator[Mapping[str, Any]]:
        region, group = self.experiment.spec.aws.region, self.experiment.names.pod_logs
        pattern = f'{{ $.kubernetes.namespace_name = "{PROJECT}"'
        if self.pod:
            pattern += f' && $.kubernetes.pod_name = "{self.pod}*"'
        arguments = {"logGroupName": group, "startTime": since_ms, "filterPattern": f"{pattern} }}"}
        with explained(f"read the log group {group}", region=region):
            yield from listed(client("logs", region), "filter_log_events", "events[]", **arguments)

    def line(self, event: Mapping[str, Any]) -> str | None:
        """Return `TIME  POD/CONTAINER  TEXT`; None if the event is no JSON record of these pods."""
        try:
            record = load_object(event["message"])
        except RecordError:
            return None
        where = record.get("kubernetes")
        if not isinstance(where, dict) or where.get("namespace_name") != PROJECT:
            return None
        pod, container = str(where.get("pod_name", "?")), str(where.get("container_name", "?"))
        if not pod.startswith(self.pod):
            return None
        at = datetime.fromtimestamp(event["timestamp"] / 1000, UTC)
        # Further lines of a record are indented, so that only its first line begins with a time.
        text = "\n    ".join(str(record.get("log", record)).rstrip().splitlines())
        return f"{at:%Y-%m-%d %H:%M:%S}  {pod}/{container}  {text}"


def run(arguments: argparse.Namespace) -> int:
    """Print the log lines, and with `--follow` also new lines until Ctrl-C."""
    source = Source(experiment=load_neuron(arguments.experiment), pod=arguments.pod)
    since_ms = int((time.time() - 60 * arguments.since_minutes) * 1000)
    seen: dict[str, int] = {}
    if not _print_new(source, since_ms, seen) and not arguments.follow:
        print_lines(
            ["no line of these pods in that time; next: --since-minutes 1440, another --pod"]
        )
    while arguments.follow:
        time.sleep(POLL_SECONDS)
        newest = max(seen.values(), default=since_ms)
        since_ms = max(since_ms, newest - OVERLAP_MS)
        _print_new(source, since_ms, seen)
        for event_id in [k for k, at_ms in seen.items() if at_ms < since_ms]:
            del seen[event_id]
    return 0


def _print_new(source: Source, since_ms: int, seen: dict[str, int]) -> bool:
    """Print the events that are not in `seen`, and add them to it; return whether any was printed.

    since_ms: Unix time in ms from which events are read. seen: each event's Unix time in ms, by id.
    """
    any_line = False
    for event in source.events(since_ms):
        if event["eventId"] in seen:
            continue
        seen[event["eventId"]] = event["timestamp"]
        line = source.line(event)
        if line is not None:
            print_lines([line])
            any_line = True
    return any_line
