"""One synthesis a test run: the shipped experiments and made-up ones beside them.

All stand in one CDK app under cdk-nag, with the flags of the shipped `cdk.json`.
"""

import dataclasses
import functools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aws_cdk as cdk
from cdk_nag import AwsSolutionsChecks

from draftworth.experiment.aws import Capacity
from draftworth.experiment.naming import PARTS, Names
from draftworth.planning.resolved import ResolvedNeuron
from draftworth.records.prompts import Case, Prompt
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

# What CloudFormation, CDK, cdk8s and the shell would read something into.
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
    """The flags of the shipped cdk.json."""
    loaded: dict[str, Any] = json.loads((ROOT / "cdk.json").read_text())["context"]
    return loaded


@functools.cache
def experiments() -> dict[str, ResolvedNeuron]:
    """Shipped: spot, Capacity Block, a search, cut short. Made up: what those leave open."""
    qwen, llama = resolved("qwen3-32b"), resolved("llama-3.1-8b-eagle3")
    on_demand = changed_aws(
        changed(with_third_variant(qwen), name="on-demand"),
        capacity=Capacity(kind="on_demand"),
        keep_results=False,
        # Documentation addresses: a file with them is refused, a template shows them as well.
        public_access_cidrs=("203.0.113.0/24",),
        availability_zone="us-east-2a",
        load_generator_image=f"registry.example.com/llmperf@sha256:{'0' * 64}",
    )
    small = changed_aws(
        on_small_nodes(llama),
        notify_email="bench@example.com",
        hub_token_secret="draftworth/hub-token",
    )
    on_demand = dataclasses.replace(on_demand, cases=(hostile_case(),))
    search = resolved("qwen3-32b-search")
    assert search.spec.search
    search = changed(search, search=search.spec.search.model_copy(update={"windows": (3, 4)}))
    return {e.name: e for e in (qwen, llama, on_demand, small, search)}


def hostile_case() -> Case:
    """Prompts of syntax that is not ours, and of more bytes than any template may have."""
    contents = (*SYNTAX, *(f"{number} {'x' * 2_000}" for number in range(1_000)))
    prompts = tuple(
        Prompt(id=str(number), messages=({"role": "user", "content": content},))
        for number, content in enumerate(contents)
    )
    return Case(prompt_class="structured", name="hostile", prompts=prompts)


@dataclass(frozen=True, kw_only=True)
class Synthesis:
    """What one synthesis wrote."""

    folder: Path
    report: dict[str, Any]

    def path(self, experiment: str, kind: str = "template") -> Path:
        """A file of an experiment's stack: `template`, `assets` or `metadata`."""
        return self.folder / f"{Names(experiment=experiment).stack}.{kind}.json"

    def template(self, experiment: str, part: str) -> Template:
        """What a part has of its stack's template. Shared by all tests: copy before changing."""
        return _parts_in(self.path(experiment))[part]

    def templates(self) -> Iterator[tuple[str, Template]]:
        """`EXPERIMENT/PART` and what that part has of the template, for every part."""
        for experiment in experiments():
            for part in PARTS:
                yield f"{experiment}/{part}", self.template(experiment, part)

    def findings(self) -> list[str]:
        """What the validators found and nobody accepted."""
        return findings_in(self.report)

    def acceptances(self) -> dict[tuple[str, str], str]:
        """Accepted findings: (construct path, rule) and the reason."""
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
        """Acceptances of cdk-nag rules without a finding below their construct."""
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
    """What the run's one synthesis wrote. Findings do not stop the tests that need no report."""
    folder = shared_folder("synthesis", _synthesize)
    return Synthesis(folder=folder, report=json.loads((folder / REPORT).read_text()))


def benchmark(name: str = "qwen3-32b") -> Template:
    """What the benchmark has of an experiment's template."""
    return synthesis().template(name, "benchmark")


def _synthesize(folder: Path) -> None:
    app = cdk.App(context=cdk_context(), outdir=str(folder), analytics_reporting=False)
    for experiment in experiments().values():
        build_application(app, experiment=experiment)
    validated(app, folder)


@functools.cache
def _parts_in(path: Path) -> dict[str, Template]:
    return parts_of(json.loads(path.read_text()))


def parts_of(template: Template) -> dict[str, Template]:
    """A stack's template as its parts, with logical ids as they are within their part, and all
    outputs with each.

    What CDK puts beside the parts empties buckets: it is the storage's.
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
        own = within_part(logical_id, part)
        parts[part]["Resources"][own] = short["Resources"][own]
    return parts


def part_of(logical_id: str) -> str:
    """The part that a resource belongs to, by its logical id."""
    return next((part for part in PARTS if logical_id.startswith(part)), "storage")


def within_part(logical_id: str, part: str) -> str:
    """A logical id without its part's name; a barrier has nothing else in its name."""
    rest = logical_id.removeprefix(part)
    return rest if rest[0].isupper() else logical_id


def findings_in(report: dict[str, Any]) -> list[str]:
    """The findings of a validation report, one line each."""
    return [
        f"{plugin['pluginName']}: {violation['ruleName']}: {violation['description']}: "
        f"{[c.get('constructPath') for c in violation['violatingConstructs']]}"
        for plugin in report["pluginReports"]
        for violation in plugin["violations"]
    ]


def validated(app: cdk.App, folder: Path) -> dict[str, Any]:
    """Synthesize an app under all validators; their report."""
    cdk.Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    try:
        app.synth()
    except RuntimeError as error:
        if "ValidationFailed" not in str(error):
            raise
    report: dict[str, Any] = json.loads((folder / REPORT).read_text())
    return report


def of_type(template: Template, kind: str) -> dict[str, Resource]:
    """Resources of a CloudFormation type, by logical id."""
    return {k: r for k, r in template["Resources"].items() if r["Type"] == kind}


def only(template: Template, kind: str, fragment: str = "") -> Resource:
    """The one resource of a type whose logical id contains a fragment."""
    found = [r for k, r in of_type(template, kind).items() if fragment in k]
    assert len(found) == 1, f"{len(found)} resources of type {kind} with {fragment!r}"
    return found[0]
