"""Checks of every resource of every stack: tags, size of templates, wildcards, open ports."""

import json
import re
from pathlib import Path

import aws_cdk as cdk
import pytest

from charts.shipped import CAPACITY_CONTROLLER, METRICS_PUBLISHER, source_files
from draftworth.account.checks.deploy_prerequisites import BOOTSTRAP_VERSION, DEFAULT_QUALIFIER
from draftworth.experiment.naming import EXPERIMENT_TAG, PART_TAG, PARTS
from draftworth.experiment.search_settings import MAX_CANDIDATES
from draftworth.planning.resolved import load_neuron
from stacks.application import build_application
from tests.stacks.rendering import rights
from tests.stacks.synthesis import Resource, cdk_context, experiments, of_type, synthesis
from tests.support.experiments import put, write_experiment

pytestmark = [pytest.mark.synth]
BARRIER = "AWS::CloudFormation::WaitConditionHandle"


def taggable(kind: str) -> bool:
    """Return whether a CloudFormation type can have tags, by the schema in cfn-lint."""
    # The import is here because it takes a third of a second, and each of pytest's workers imports
    # all test modules.
    from cfnlint.schema.manager import PROVIDER_SCHEMA_MANAGER

    schema = PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-east-2", kind).schema
    return bool(schema.get("tagging", {}).get("taggable", schema.get("taggable", True)))


def tags_of(resource: Resource) -> dict[str, str]:
    tags = resource["Properties"].get("Tags", {})
    return tags if isinstance(tags, dict) else {tag["Key"]: tag["Value"] for tag in tags}


def untagged(stack: str, resources: dict[str, Resource]) -> list[str]:
    """Return the taggable resources without the tags of their experiment and part of the stack.

    stack: `EXPERIMENT/PART`. resources: the resources of this part.
    """
    experiment, part = stack.split("/")
    wanted = {EXPERIMENT_TAG: experiment, PART_TAG: part}
    return [
        f"{stack}/{logical_id} ({resource['Type']})"
        for logical_id, resource in resources.items()
        if not resource["Type"].startswith(("Custom::", BARRIER))
        and taggable(resource["Type"])
        and not wanted.items() <= tags_of(resource).items()
    ]


def test_every_taggable_resource_names_its_experiment_and_stack() -> None:
    for stack, template in synthesis().templates():
        assert untagged(stack, template["Resources"]) == []


def test_a_taggable_resource_without_its_tags_is_found() -> None:
    queue: Resource = {"Type": "AWS::SQS::Queue", "Properties": {}}
    rule: Resource = {"Type": "AWS::SQS::QueuePolicy", "Properties": {}}
    assert untagged("x/storage", {"Queue": queue, "Policy": rule}) == [
        "x/storage/Queue (AWS::SQS::Queue)"
    ]


def test_launch_templates_tag_themselves_and_what_ec2_makes() -> None:
    """By its schema a launch template is not taggable; it has tags in a form of its own."""
    checked = 0
    for stack, template in synthesis().templates():
        experiment, part = stack.split("/")
        wanted = {EXPERIMENT_TAG: experiment, PART_TAG: part}
        for resource in of_type(template, "AWS::EC2::LaunchTemplate").values():
            template_specs = resource["Properties"]["TagSpecifications"]
            made_specs = resource["Properties"]["LaunchTemplateData"]["TagSpecifications"]
            kinds = {"launch-template", "instance", "volume", "network-interface"}
            assert {spec["ResourceType"] for spec in (*template_specs, *made_specs)} == kinds
            for spec in (*template_specs, *made_specs):
                assert wanted.items() <= {t["Key"]: t["Value"] for t in spec["Tags"]}.items()
            checked += 1
    assert checked >= 2 * len(experiments())


def test_an_experiment_is_one_stack_with_its_tag() -> None:
    """With one stack per experiment, `cdk deploy` needs no stack's name."""
    artifacts = json.loads((synthesis().folder / "manifest.json").read_text())["artifacts"]
    stacks = {k: a for k, a in artifacts.items() if a["type"] == "aws:cloudformation:stack"}
    assert {k: stack["properties"]["tags"] for k, stack in stacks.items()} == {
        e.names.stack: {EXPERIMENT_TAG: e.name} for e in experiments().values()
    }


def test_a_template_stays_within_what_cloudformation_takes(tmp_path: Path) -> None:
    """A template has at most 500 resources and 1 MB (CloudFormation's quotas).

    The largest search needs at most 80 % of them, because models may have longer names, and CDK
    warns of larger templates. Other experiments need at most half.
    """
    search = put("search", "windows", value=f"3..{2 + MAX_CANDIDATES // 2}")
    largest = load_neuron(write_experiment(tmp_path, search, base="qwen3-32b-search"))
    assert len(largest.variants) == 1 + MAX_CANDIDATES
    app = cdk.App(
        context=cdk_context(),
        outdir=str(tmp_path),
        analytics_reporting=False,
        builtin_cloud_formation_validation=False,
    )
    build_application(app, experiment=largest)
    app.synth()
    made = tmp_path / f"{largest.names.stack}.template.json"
    for path, part in ((made, 0.8), *((synthesis().path(name), 0.5) for name in experiments())):
        text = path.read_text()
        assert len(json.loads(text)["Resources"]) <= 500 * part
        assert len(text) <= 1_000_000 * part


def test_what_stands_beside_the_parts_is_known() -> None:
    """Only the function that empties buckets is outside all parts of the stack.

    `part_of` counts all such resources to the part `storage`, which would be wrong for others.
    """
    for name in experiments():
        resources = json.loads(synthesis().path(name).read_text())["Resources"]
        beside = {k[:-8] for k in resources if not k.startswith(PARTS)}
        provider = "CustomS3AutoDeleteObjectsCustomResourceProvider"
        assert beside == {f"{provider}{id_}" for id_ in ("Role", "Handler", "LogGroup")}


def test_preflight_looks_for_the_bootstrap_the_assembly_needs() -> None:
    artifacts = json.loads((synthesis().folder / "manifest.json").read_text())["artifacts"]
    stacks = [a["properties"] for a in artifacts.values() if "cloudformation" in a["type"]]
    assert {s["requiresBootstrapStackVersion"] for s in stacks} == {BOOTSTRAP_VERSION}
    parameter = f"/cdk-bootstrap/{DEFAULT_QUALIFIER}/version"
    assert {s["bootstrapStackVersionSsmParameter"] for s in stacks} == {parameter}


@pytest.mark.parametrize("part", PARTS)
def test_no_template_names_or_looks_up_an_account(part: str) -> None:
    template = synthesis().template("qwen3-32b", part)
    assert not re.search(r"\b\d{12}\b", json.dumps(template["Resources"]))
    manifest = json.loads((synthesis().folder / "manifest.json").read_text())
    assert not manifest.get("missing")


def test_on_everything_roles_only_look_and_publish_metrics() -> None:
    """Rights on `*` exist only for actions that know no resources; the test finds exactly these."""
    everything = {
        line
        for _, template in synthesis().templates()
        for line in rights(template)
        if line.split(" | ")[2:3] == ["*"]
    }
    condition = '{"StringEquals": {"cloudwatch:namespace": "Draftworth"}}'
    looking = (
        "autoscaling:DescribeAutoScalingGroups",
        "autoscaling:DescribeScalingActivities",
        "ec2:DescribeCapacityReservations",
    )
    assert everything == {
        f"MetricsPublisherRole | cloudwatch:PutMetricData | * | if {condition}",
        *(f"CapacityControllerRole | {action} | *" for action in looking),
    }


def test_no_role_of_ours_has_wildcard_actions() -> None:
    by_wildcard = {
        line.split(" | ")[0]
        for _, template in synthesis().templates()
        for line in rights(template)
        if "*" in line.split(" | ")[1] and "DENY" not in line
    }
    assert by_wildcard == {"${CustomS3AutoDeleteObjectsCustomResourceProviderRole.Arn}"}


@pytest.mark.parametrize(
    ("function", "shipped"),
    [("metrics_publisher", METRICS_PUBLISHER), ("capacity_controller", CAPACITY_CONTROLLER)],
)
def test_a_functions_package_holds_what_ships_with_it(
    function: str, shipped: tuple[str, ...]
) -> None:
    """The package of a Lambda function has exactly the files of its list in `charts.shipped`.

    That the function imports no other files is tested by test_dependency_rule.
    """
    (folder,) = (f for f in synthesis().folder.iterdir() if (f / "lambdas" / function).is_dir())
    files = (p for p in folder.rglob("*") if p.is_file() and p.suffix != ".pyc")
    assert {p.relative_to(folder).as_posix() for p in files} == {*source_files(shipped)}


def test_nothing_listens_on_the_internet() -> None:
    for _, template in synthesis().templates():
        for resource in template["Resources"].values():
            kind, properties = resource["Type"], resource.get("Properties", {})
            assert "LoadBalanc" not in kind
            assert "0.0.0.0/0" not in json.dumps(properties.get("SecurityGroupIngress", []))
            assert not (kind.endswith("SecurityGroupIngress") and "CidrIp" in properties)
