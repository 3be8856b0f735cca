"""The program of vLLM's container reads its command line and becomes the parent of vLLM."""

import argparse
import json
import os
import signal
from functools import partial
from pathlib import Path
from typing import NoReturn

from draftworth.records import servers
from pods.compiled_graphs.prepare_graphs import Order, say
from pods.compiled_graphs.self_test import SelfTester
from pods.compiled_graphs.server_process import HEALTH_PERIOD_SECONDS, adopt_orphans
from pods.compiled_graphs.server_reports import Reports, put_state
from pods.compiled_graphs.vllm_parent import MAX_STARTS, GivenUpError, Parent

# How long the container waits, before it ends, until the server's last state is in the bucket.
FLUSH_SECONDS = 10.0
_FORWARDED = (
    *(signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT),
    *(signal.SIGUSR1, signal.SIGUSR2),
)


def main(argv: list[str]) -> int:
    """Run the server (the command after `--`) and return its exit code.

    If the server is given up, this waits for a signal and does not return.
    """
    split = argv.index("--")
    arguments = _parser().parse_args(argv[:split])
    adopt_orphans()
    reports = Reports(
        server=os.environ[servers.SERVER_VARIABLE],
        variant=os.environ[servers.VARIANT_VARIABLE],
        pod=os.environ[servers.POD_VARIABLE],
        put=partial(put_state, arguments.results, arguments.region),
    )
    order = _order(arguments)
    tester = SelfTester(
        devices=arguments.slot_devices,
        checkpoint=order.checkpoints["target"],
        scratch=arguments.scratch,
        root=arguments.root,
        say=reports.say,
    )
    parent = Parent(
        command=argv[split + 1 :],
        self_test=tester.run,
        arguments=arguments,
        reports=reports,
    )
    # Linux delivers a signal such as SIGTERM to process 1 of a container only if it has a handler.
    for number in _FORWARDED:
        signal.signal(number, lambda number, _: parent.forward(number))
    if earlier := parent.starts.given_up:
        say(f"given up by an earlier container of this pod: {earlier}")
        _stay()
    try:
        code = parent.run(order)
    except GivenUpError as given_up:
        parent.give_up(str(given_up))
        _stay()
    reports.flush(FLUSH_SECONDS)
    return code


def _stay() -> NoReturn:
    """Wait for a signal without a server, and never return.

    If the container ended instead, the kubelet would start it again.
    """
    while True:
        signal.pause()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="start", description=__doc__)
    parser.add_argument("--artifacts", required=True, type=Path, help="the mounted bucket")
    parser.add_argument("--scratch", required=True, type=Path, help="a folder on the node's disk")
    parser.add_argument(
        "--checkpoint",
        action="append",
        required=True,
        metavar="ROLE=FOLDER",
        help="a mounted checkpoint, `target` at least; its commit is compared if it has one",
    )
    parser.add_argument("--slot-devices", required=True, type=int, help="of the pod's claim")
    parser.add_argument(
        "--root", default="/", type=Path, help="where sys and dev are (%(default)s)"
    )
    way = parser.add_mutually_exclusive_group(required=True)
    way.add_argument("--artifact-folder", metavar="VARIABLE", help="the engine reads a folder")
    way.add_argument(
        "--compiler-cache",
        nargs=2,
        metavar=("VARIABLE", "FOLDER"),
        help="the engine keeps a cache, with the graphs in FOLDER below it",
    )
    parser.add_argument(
        "--proof",
        metavar="VARIABLE",
        help="of a cache: makes the engine end if the cache lacks a graph",
    )
    parser.add_argument("--health-url", required=True, help="answers 200 once the server serves")
    parser.add_argument("--results", required=True, help="the results bucket, for its states")
    parser.add_argument("--region", required=True, help="of that bucket")
    for name, kind, default, text in (
        ("load-minutes", float, servers.LOAD_LIMIT_MINUTES, "until it is healthy, with graphs"),
        ("compile-minutes", float, servers.COMPILE_LIMIT_MINUTES, "the same without graphs"),
        ("health-period-seconds", float, HEALTH_PERIOD_SECONDS, "time between two health checks"),
        ("starts-with-compiler-failure", int, MAX_STARTS, "if the compiler failed by itself"),
    ):
        parser.add_argument(f"--{name}", type=kind, default=default, help=f"{text} (%(default)s)")
    return parser


def _order(arguments: argparse.Namespace) -> Order:
    pairs = (pair.partition("=") for pair in arguments.checkpoint)
    variable, cache = arguments.compiler_cache or (arguments.artifact_folder, None)
    return Order(
        key=os.environ["ARTIFACT_KEY"],
        inputs=json.loads(os.environ["ARTIFACT_INPUTS"]),
        variable=variable,
        cache=cache,
        proof=arguments.proof,
        artifacts=arguments.artifacts,
        scratch=arguments.scratch,
        checkpoints={role: Path(folder) for role, _, folder in pairs},
    )
