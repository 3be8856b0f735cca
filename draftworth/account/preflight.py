"""`draftworth preflight` checks that the account has what a deploy and its run need.

The command only reads. Exit code 0: no check fails (some may warn); 1: a check fails.
"""

import argparse
import os
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from draftworth import errors, terminal
from draftworth.account import clients, printing
from draftworth.account.checks import (
    account_checks,
    capacity_checks,
    check,
    cluster_checks,
    deploy_prerequisites,
    function_checks,
    hub_checks,
    money_checks,
    registry_checks,
)
from draftworth.account.checks.check import Check, CheckResult, Situation, failed, skipped
from draftworth.account.market import find, offers
from draftworth.planning import prices, resolved
from draftworth.records.codec import dump_json

ROOT = Path(__file__).resolve().parents[2]
PROGRAM_SECONDS = 20

# If one of these two checks fails, all later checks that call AWS (`asks_aws`) are skipped.
GATES: Sequence[Check] = (
    Check(name="credentials", run=check.credentials),
    Check(name="region", run=check.region_enabled),
)
CHECKS: Sequence[Check] = (
    Check(name="account plan", run=account_checks.account_plan),
    Check(name="zone", run=capacity_checks.zone_offering),
    Check(name="quota", run=capacity_checks.vcpu_quota),
    Check(name="capacity block", run=capacity_checks.capacity_block),
    Check(name="control plane", run=cluster_checks.control_plane_zones),
    Check(name="cpu nodes", run=cluster_checks.cpu_nodes),
    Check(name="add-ons", run=cluster_checks.add_ons),
    Check(name="add-on settings", run=cluster_checks.add_on_settings),
    Check(name="node image", run=cluster_checks.node_image),
    Check(name="driver chart", run=registry_checks.neuron_chart, asks_aws=False),
    Check(name="images", run=registry_checks.images, asks_aws=False),
    Check(name="functions", run=function_checks.concurrent_executions),
    Check(name="bootstrap", run=deploy_prerequisites.bootstrap),
    Check(name="stacks", run=deploy_prerequisites.existing_stacks),
    Check(name="stopped", run=deploy_prerequisites.not_stopped),
    Check(name="models", run=hub_checks.models, asks_aws=False),
    Check(name="gated models", run=deploy_prerequisites.gated_models, asks_aws=False),
    Check(name="Hugging Face token", run=deploy_prerequisites.hub_token),
    Check(name="compiled graphs", run=deploy_prerequisites.compiled_graphs),
    Check(name="examples", run=money_checks.example_values_replaced, asks_aws=False),
    Check(name="price date", run=money_checks.price_date, asks_aws=False),
    Check(name="spot price", run=money_checks.spot_price),
    Check(name="budget", run=money_checks.budget, asks_aws=False),
    Check(name="mails", run=money_checks.mails, asks_aws=False),
    Check(name="revisions", run=money_checks.revisions, asks_aws=False),
    Check(name="node", run=deploy_prerequisites.node, asks_aws=False),
    Check(name="cdk", run=deploy_prerequisites.cdk_cli, asks_aws=False),
    Check(name="container engine", run=deploy_prerequisites.container_engine, asks_aws=False),
)


def run(arguments: argparse.Namespace) -> int:
    """Print the checks' results, or with `--find` nodes that are on sale; return the exit code."""
    experiment = prices.with_looked_up_price(resolved.load_neuron(arguments.experiment))
    if arguments.json and arguments.find:
        raise errors.UserInputError("--json: given with --find, allowed: one of the two")
    if arguments.find:
        return find.run(experiment, arguments.regions)
    if arguments.regions:
        raise errors.UserInputError("--regions: given without --find, allowed with it")
    situation = Situation(
        experiment=experiment,
        clients=clients.client,
        now=datetime.now(UTC),
        run=run_program,
        root=ROOT,
        container_engine=os.environ.get("CDK_DOCKER", "docker"),
    )
    answers = list(results(situation))
    if arguments.json:
        printing.print_lines([json_text(answers)])
    else:
        printing.print_lines(table_lines(answers))
        printing.print_lines(paste_lines(answers))
    return 1 if any(result.status == "fail" for _, result in answers) else 0


def results(situation: Situation) -> Iterator[tuple[str, CheckResult]]:
    """Run the checks one after another, and yield each one's name and result.

    After a failed check of GATES (credentials, region), checks that call AWS are skipped.
    """
    closed = ""
    for one in (*GATES, *CHECKS):
        skip = closed and one.asks_aws
        result = skipped(closed) if skip else result_of(one, situation)
        yield one.name, result
        if one in GATES and result.status == "fail":
            closed = f"not asked: {one.name} failed"


def result_of(one: Check, situation: Situation) -> CheckResult:
    """Return a check's result; an error counts as `fail`, because it may stop the deploy too."""
    try:
        return one.run(situation)
    except clients.AwsError as error:
        return failed(error.reason, error.next_step)
    except errors.DraftworthError as error:
        return failed(str(error), "")


def table_lines(answers: Iterable[tuple[str, CheckResult]]) -> Iterator[str]:
    """Yield the lines of a table of results, and a line that counts the results of each status.

    answers: the name and the result of each check. Skipped checks with one reason share a row.
    """
    answers = list(answers)
    alike: dict[tuple[str, str, str], list[str]] = {}  # skipped checks with one reason share a row
    for name, one in answers:
        step = f"\nnext: {one.next_step}" if one.next_step else ""
        row = "" if one.status == "skip" else name
        alike.setdefault((row, one.status, one.observation + step), []).append(name)
    yield from terminal.table_lines(
        (names[0] + (f" and {len(names) - 1} more" if names[1:] else ""), *cells)
        for (_, *cells), names in alike.items()
    )
    statuses = [result.status for _, result in answers]
    counts = (f"{statuses.count(s)} {s}" for s in ("pass", "warn", "fail", "skip"))
    yield ""
    yield f"{len(answers)} checks: {', '.join(counts)}"


def json_text(answers: Iterable[tuple[str, CheckResult]]) -> str:
    """Return the results as a JSON document of schema `draftworth.preflight/1` (docs/json.md).

    answers: the name and the result of each check.
    """
    checks = [
        {"name": name, "status": one.status, "found": one.observation, "next_step": one.next_step}
        for name, one in answers
    ]
    document = {"schema": "draftworth.preflight/1", "checks": checks}
    return dump_json(document, indent=2).decode().rstrip()


def paste_lines(answers: Iterable[tuple[str, CheckResult]]) -> Iterator[str]:
    """Yield lines of YAML that can be copied into the experiment file: what the checks found there.

    answers: the name and the result of each check. Without such values (`CheckResult.paste`), no
        line is yielded.
    """
    if paste := offers.merged(result.paste for _, result in answers):
        yield ""
        yield "# What a deploy should get today. In the experiment, later deploys get the same:"
        yield from offers.yaml_lines(paste)


def run_program(command: tuple[str, ...]) -> tuple[int, str] | None:
    """Run a program and return its exit code and output; None if there is no such program.

    The exit code is 1 if the program cannot be run, or has not ended after PROGRAM_SECONDS.
    """
    try:
        done = subprocess.run(  # noqa: S603 - a fixed list of words, no shell
            command, capture_output=True, text=True, timeout=PROGRAM_SECONDS, check=False
        )
    except FileNotFoundError:
        return None
    except (OSError, subprocess.TimeoutExpired) as error:
        return 1, str(error)
    return done.returncode, done.stdout + done.stderr
