"""The one synthesis of a test run: stacks of the shipped experiments and of made-up ones.

All are in one CDK app, which cdk-nag checks, with the flags of the shipped `cdk.json`.
"""

import dataclasses
import functools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aws_cdk as cdk
from cdk_nag import AwsSolutionsChecks

from draftworth.experiment.aws import Capacity
from draftworth.experiment.naming import PARTS, Names
from draftworth.planning.resolved import ResolvedNeuron
from draftworth.records.prompt_files import Case, Prompt
from stacks.application import build_application
from tests.support.experiments import (
    changed,
    changed_aws,
    on_small_nodes,
    resolved,
    with_third_variant,
)
from tests.support.shared import shared_folder

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = ("qwen3-32b", "llama-3.1-8b-eagle3")
REPORT = "validation-report.json"
SYNTHESIZED_AT = datetime(2026, 11, 20, 10, 0, 30, tzinfo=UTC)

# Prompts with text that CloudFormation, CDK, cdk8s or a shell would replace or run.
SYNTAX = (
    "{{resolve:ssm:/x}}",
    "{{resolve:secretsmanager:draftworth/hub-token}}",
    "${AWS::Region} of mine",
    "${Token[TOKEN.1]}",
    "${Token[AWS.AccountId.0]}",
    '{"Fn::Sub": "${AWS::AccountId}"}',
    "$(RESULTS) `id` \\ \u6570 \U0001f600 \0",
)

Template = dict[str, Any]
Resource = dict[str, Any]


def cdk_context() -> dict[str, Any]:
    """Return the CDK context with the feature flags of the shipped `cdk.json`."""
    loaded: dict[str, Any] = json.loads((ROOT / "cdk.json").read_text())["context"]
    return loaded


@functools.cache
def experiments() -> dict[str, ResolvedNeuron]:
    """Return {name: experiment} of all that are synthesized: shipped and made-up ones.

    The shipped ones have Spot, a Capacity Block and a shortened search; the made-up ones have all
    other choices.
    """
    qwen, llama = resolved("qwen3-32b"), resolved("llama-3.1-8b-eagle3")
    on_demand = changed_aws(
        changed(with_third_variant(qwen), name="on-demand"),
        capacity=Capacity(kind="on_demand"),
        keep_results=False,
        # Addresses that are reserved for documentation: an experiment file may not have them.
        public_access_cidrs=("203.0.113.0/24",),
        availability_zone="us-east-2a",
        load_generator_image=f"registry.example.com/llmperf@sha256:{'0' * 64}",
    )
    small = changed_aws(
        on_small_nodes(llama),
        notify_email="bench@example.com",
        hub_token_secret="draftworth/hub-token",
        checkpoints_bucket="draftworth-earlier-storagecheckpoints-abc",
        hold=True,
    )
    on_demand = dataclasses.replace(on_demand, cases=(hostile_case(),))
    search = resolved("qwen3-32b-search")
    assert search.spec.search
    search = changed(search, search=search.spec.search.model_copy(update={"windows": (3, 4)}))
    return {e.name: e for e in (qwen, llama, on_demand, small, search)}


def hostile_case() -> Case:
    """Return a case with prompts in the syntax of other tools, and too large for any template."""
    contents = (*SYNTAX, *(f"{number} {'x' * 2_000}" for number in range(1_000)))
    prompts = tuple(
        Prompt(id=str(number), messages=({"role": "user", "content": content},))
        for number, content in enumerate(contents)
    )
    return Case(prompt_class="structured", name="hostile", prompts=prompts)


@dataclass(frozen=True, kw_only=True)
class Synthesis:
    """The files that a synthesis wrote into `folder`, and the report of the validators."""

    folder: Path
    report: dict[str, Any]

    def path(self, experiment: str, kind: str = "template") -> Path:
        """Return the path of a file about an experiment's stack.

        kind: `template`, `assets` or `metadata`.
        """
        return self.folder / f"{Names(experiment=experiment).stack}.{kind}.json"

    def template(self, experiment: str, part: str) -> Template:
        """Return the resources of one part of an experiment's stack, as a template.

        part: `network`, `storage`, `cluster` or `benchmark`. Tests share it: copy before a change.
        """
        return _parts_in(self.path(experiment))[part]

    def templates(self) -> Iterator[tuple[str, Template]]:
        """Yield (`EXPERIMENT/PART`, the part's resources as a template) for each part of stacks."""
        for experiment in experiments():
            for part in PARTS:
                yield f"{experiment}/{part}", self.template(experiment, part)

    def findings(self) -> list[str]:
        """Return the validators' findings that are not accepted with a reason."""
        return findings_in(self.report)

    def acceptances(self) -> dict[tuple[str, str], str]:
        """Return the accepted findings of cdk-nag, {(path of the construct, rule): reason}."""
        return {
            (path.removeprefix("/"), rule.removeprefix("AwsSolutions::")): reason
            for file in self.folder.glob("draftworth-*.metadata.json")
            for path, entries in json.loads(file.read_text()).items()
            for entry in entries
            if entry["type"] == "aws:cdk:acknowledged-rules"
            for rule, reason in entry["data"].items()
            if rule.startswith("AwsSolutions::")
        }

    def unused_acceptances(self) -> list[str]:
        """Return `PATH: RULE` of each acceptance without a finding in its construct's subtree."""
        suppressed = [
            (construct["constructPath"], violation["acknowledgedId"].removeprefix("AwsSolutions::"))
            for plugin in self.report["pluginReports"]
            for violation in plugin.get("suppressedViolations", [])
            for construct in violation["violatingConstructs"]
        ]
        return [
            f"{path}: {rule}"
            for path, rule in self.acceptances()
            if not any(p.startswith(f"{path}/") and rule == r for p, r in suppressed)
        ]


@functools.cache
def synthesis() -> Synthesis:
    """Return the result of the test run's one synthesis.

    A finding of a validator does not make it fail, so only the tests of the report fail then.
    """
    folder = shared_folder("synthesis", _synthesize)
    return Synthesis(folder=folder, report=json.loads((folder / REPORT).read_text()))


def benchmark(name: str = "qwen3-32b") -> Template:
    """Return the resources of the part `benchmark` of an experiment's stack, as a template."""
    return synthesis().template(name, "benchmark")


def _synthesize(folder: Path) -> None:
    app = cdk.App(context=cdk_context(), outdir=str(folder), analytics_reporting=False)
    for experiment in experiments().values():
        build_application(app, experiment=experiment, now=SYNTHESIZED_AT)
    validated(app, folder)


@functools.cache
def _parts_in(path: Path) -> dict[str, Template]:
    return parts_of(json.loads(path.read_text()))


def parts_of(template: Template) -> dict[str, Template]:
    """Split a stack's template into {part of the stack: template with this part's resources}.

    Logical ids lose the name of their part. Each part has all outputs of the stack. The resources
    that CDK adds outside all parts empty buckets, so they are in the part `storage`.
    """
    home = {k: part_of(k) for k in template["Resources"]}
    text = json.dumps(template)
    for logical_id, part in home.items():
        text = text.replace(f'"{logical_id}', f'"{within_part(logical_id, part)}')
        text = text.replace(f"${{{logical_id}", f"${{{within_part(logical_id, part)}")
    short: Template = json.loads(text)
    outputs = short.get("Outputs", {})
    parts: dict[str, Template] = {part: {"Resources": {}, "Outputs": outputs} for part in PARTS}
    for logical_id, part in home.items():
        short_id = within_part(logical_id, part)
        parts[part]["Resources"][short_id] = short["Resources"][short_id]
    return parts


def part_of(logical_id: str) -> str:
    """Return the part of the stack to which a resource belongs, by its logical id."""
    return next((part for part in PARTS if logical_id.startswith(part)), "storage")


def within_part(logical_id: str, part: str) -> str:
    """Return a logical id without the name of its part of the stack.

    The id of a barrier, such as `clustermaybegin`, is returned as it is.
    """
    rest = logical_id.removeprefix(part)
    return rest if rest[0].isupper() else logical_id


def findings_in(report: dict[str, Any]) -> list[str]:
    """Return the findings of a validation report, as a line for each."""
    return [
        f"{plugin['pluginName']}: {violation['ruleName']}: {violation['description']}: "
        f"{[c.get('constructPath') for c in violation['violatingConstructs']]}"
        for plugin in report["pluginReports"]
        for violation in plugin["violations"]
    ]


def validated(app: cdk.App, folder: Path) -> dict[str, Any]:
    """Synthesize an app with all validators, and return their report.

    folder: the app's output folder. Findings raise no error.
    """
    cdk.Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    try:
        app.synth()
    except RuntimeError as error:
        if "ValidationFailed" not in str(error):
            raise
    report: dict[str, Any] = json.loads((folder / REPORT).read_text())
    return report


def of_type(template: Template, kind: str) -> dict[str, Resource]:
    """Return the resources of a CloudFormation type, {logical id: resource}."""
    return {k: r for k, r in template["Resources"].items() if r["Type"] == kind}


def only(template: Template, kind: str, fragment: str = "") -> Resource:
    """Return the only resource of a type whose logical id contains `fragment`."""
    resources = [r for k, r in of_type(template, kind).items() if fragment in k]
    assert len(resources) == 1, f"{len(resources)} resources of type {kind} with {fragment!r}"
    return resources[0]
