"""cdk-nag, cfn-lint and CDK's template validation find nothing that is not accepted."""

import json
from pathlib import Path

import aws_cdk as cdk
import pytest
from aws_cdk import aws_s3

from tests.charts.rendering import kinds
from tests.charts.winner.alarms import template as alarm
from tests.stacks.synthesis import (
    Template,
    cdk_context,
    experiments,
    findings_in,
    synthesis,
    validated,
)
from tests.stacks.template_scanners import accepted, cfn_lint, unaccepted, unused

pytestmark = [pytest.mark.synth]


def every_kind_of_resource() -> Template:
    """Return one template with a resource of each kind that is in any experiment's template.

    It has one experiment's resources, and those of others that differ in more than names. To lint
    all templates would take seconds for each.
    """
    whole: Template = {"Resources": {}}
    covered_kinds: set[tuple[str, ...]] = set()
    # The experiment that pins versions of add-ons is the first: its add-ons differ from those of
    # the others, and cfn-lint reports an add-on that is there twice.
    for name in sorted(experiments(), key=lambda name: name != "small-nodes"):
        template = json.loads(synthesis().path(name).read_text())
        for logical_id, resource in template.pop("Resources").items():
            new = {*kinds(resource, resource["Type"])} - covered_kinds
            if logical_id not in whole["Resources"]:
                whole["Resources"][logical_id] = resource
            elif new:
                whole["Resources"][f"{logical_id}{len(covered_kinds)}"] = resource
            covered_kinds |= new
        whole = template | whole
    return whole


def test_no_validator_finds_anything_unaccepted() -> None:
    assert synthesis().findings() == []


def test_acceptances_name_findings_that_exist() -> None:
    """An acceptance without a finding would hide the next finding of its kind."""
    assert synthesis().unused_acceptances() == []


def test_every_acceptance_gives_a_reason() -> None:
    reasons = synthesis().acceptances().values()
    assert reasons
    assert all(len(reason) > 40 for reason in reasons)


def test_validators_find_missing_tls_and_a_broken_schema(tmp_path: Path) -> None:
    app = cdk.App(context=cdk_context(), outdir=str(tmp_path), analytics_reporting=False)
    stack, properties = cdk.Stack(app, "careless"), {"VisibilityTimeout": "soon"}
    aws_s3.Bucket(stack, "Bucket")
    cdk.CfnResource(stack, "Queue", type="AWS::SQS::Queue", properties=properties)
    findings = " ".join(findings_in(validated(app, tmp_path)))
    assert "AwsSolutions-S10" in findings
    assert "CloudFormation Validate" in findings


def test_cfn_lint_finds_only_the_wrong_template(tmp_path: Path) -> None:
    queue = {"Type": "AWS::SQS::Queue", "Properties": {"VisibilityTimeout": "soon"}}
    wrong: Template = {"Resources": {"Queue": queue}}
    templates = {"alarm": alarm(), "ours": every_kind_of_resource(), "wrong": wrong}
    paths = [tmp_path / f"{name}.json" for name in templates]
    for path, template in zip(paths, templates.values(), strict=True):
        path.write_text(json.dumps(template))
    findings, acceptances = cfn_lint(paths), accepted("cfn-lint")
    (only,) = unaccepted(findings, acceptances)
    assert (only.template, only.rule, only.resource) == ("wrong", "E3012", "AWS::SQS::Queue.Queue")
    assert unused(findings, acceptances) == []
