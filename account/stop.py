"""`draftworth stop`: the accelerator nodes to zero, through the capacity controller.

Puts `control/stop` into the results bucket, then watches until no instance is left. The object
stays, and with it the nodes stay away, also after another deploy; `--resume` deletes it. Exit code
0: the nodes are gone (or may come again); 1: they are still there after `--wait-minutes`, or AWS
refused; 2: the experiment file is wrong.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from account.capacity_status import Nodes, Told, nodes_of, told_by_controller
from account.clients import client, explained, or_none
from account.stack_outputs import bucket_of
from account.terminal import print_lines, utc_text
from draftworth.experiment.naming import RESULTS_OUTPUT
from draftworth.planning.resolved import ResolvedNeuron, load_neuron
from draftworth.records.deployment import HEARTBEAT_MINUTES, STOP_KEY, size_command

# The object calls the controller; a node drains for a quarter of an hour at most.
DEFAULT_WAIT_MINUTES = 30
MOST_WAIT_MINUTES = 120
LOOK_SECONDS = 15.0


@dataclass(frozen=True, kw_only=True)
class Control:
    """Where an experiment's nodes are stopped and looked at."""

    experiment: ResolvedNeuron
    bucket: str

    @property
    def region(self) -> str:
        """The experiment's region."""
        return self.experiment.spec.aws.region

    @property
    def stop_object(self) -> dict[str, str]:
        """The object that keeps the nodes at zero."""
        return {"Bucket": self.bucket, "Key": STOP_KEY}

    @property
    def stop_url(self) -> str:
        """The same, for people."""
        return f"s3://{self.bucket}/{STOP_KEY}"

    def look(self) -> tuple[Nodes, Told]:
        """The nodes, and what the controller has noted."""
        return nodes_of(self.experiment), told_by_controller(self.region, self.bucket)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The experiment file; the other direction; the patience."""
    parser.add_argument("experiment", type=Path, help="experiment file, YAML")
    parser.add_argument(
        "--resume", action="store_true", help="let the nodes come again, where there is work"
    )
    parser.add_argument(
        "--wait-minutes",
        type=_minutes,
        default=DEFAULT_WAIT_MINUTES,
        help=f"0 to {MOST_WAIT_MINUTES}, for the nodes to go (default: %(default)s)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Stop and watch, or let go."""
    experiment = load_neuron(arguments.experiment)
    control = Control(experiment=experiment, bucket=bucket_of(experiment, RESULTS_OUTPUT))
    if arguments.resume:
        return _resume(control)
    text = f"draftworth stop, {utc_text(datetime.now(UTC))}\n"
    with explained(f"write {control.stop_url}", region=control.region):
        client("s3", control.region).put_object(**control.stop_object, Body=text.encode())
    print_lines([f"{control.stop_url} is written, which calls the controller"])
    return _watch(control, seconds=arguments.wait_minutes * 60)


def _minutes(text: str) -> int:
    minutes = int(text)
    if not 0 <= minutes <= MOST_WAIT_MINUTES:
        raise argparse.ArgumentTypeError(f"given {minutes}, allowed: 0 to {MOST_WAIT_MINUTES}")
    return minutes


def _resume(control: Control) -> int:
    s3 = client("s3", control.region)
    with explained(f"delete {control.stop_url}", region=control.region):
        was_there = or_none(s3.head_object, "404", "NoSuchKey", **control.stop_object)
        s3.delete_object(**control.stop_object)
    print_lines(
        [
            f"{control.stop_url} {'is deleted' if was_there else 'was not there'}",
            f"the controller looks within {HEARTBEAT_MINUTES} minutes: nodes come if there is work",
            *told_by_controller(control.region, control.bucket).lines(),
        ]
    )
    return 0


def _watch(control: Control, *, seconds: float) -> int:
    ends, before = time.monotonic() + seconds, ""
    while True:
        nodes, told = control.look()
        if (line := nodes.line()) != before:
            print_lines([f"{utc_text(datetime.now(UTC))}  {line}"])
            before = line
        if nodes.gone and not told.desired:
            print_lines(_gone(told))
            return 0
        if time.monotonic() >= ends:
            print_lines(_still_there(control, nodes, told))
            return 1
        time.sleep(LOOK_SECONDS)


def _gone(told: Told) -> Iterator[str]:
    yield "no accelerator node is left"
    yield from told.lines()
    yield "they stay away, also after a deploy; `make stop ARGS=--resume` lets them come again"


def _still_there(control: Control, nodes: Nodes, told: Told) -> Iterator[str]:
    """By hand, where the controller does not act; where it did, EKS is at work."""
    yield from told.lines()
    if nodes.desired == 0:
        yield "next: nothing; EKS drains them. `make stop` again shows whether they are gone"
        return
    yield "the controller has not acted; next: its log (the output DecisionsCommand), and by hand:"
    names = control.experiment.names
    group = names.node_group(control.experiment.spec.aws.capacity.kind)
    yield size_command(region=control.region, cluster=names.cluster, nodegroup=group, size=0)
