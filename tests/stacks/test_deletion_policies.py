"""Every resource follows the deletion rule of its type (`tests/stacks/deletion_policies.py`)."""

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from draftworth.experiment.naming import PARTS
from tests.stacks.deletion_policies import RULES, violations
from tests.stacks.synthesis import Template, experiments, of_type, only, synthesis

pytestmark = [pytest.mark.synth]
NAMES = tuple(experiments())
VIOLATIONS = yaml.safe_load(
    Path(__file__).with_name("deletion_violations.yaml").read_text(encoding="utf-8")
)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("part", PARTS)
def test_every_resource_follows_its_types_deletion_rule(name: str, part: str) -> None:
    assert violations(experiments()[name], synthesis().template(name, part)) == []


def test_no_template_escapes_the_walk() -> None:
    """The tests check all templates: there is no nested stack, as some providers of CDK add one."""
    written = {file.name for file in synthesis().folder.glob("*.template.json")}
    walked = {synthesis().path(name).name for name in NAMES}
    assert written == walked
    for _, template in synthesis().templates():
        assert not of_type(template, "AWS::CloudFormation::Stack")


def test_the_table_has_only_used_or_optional_types() -> None:
    """A rule whose type has a misspelt name would check no resource."""
    used = {r["Type"] for _, t in synthesis().templates() for r in t["Resources"].values()}
    optional = {"AWS::Lambda::EventInvokeConfig", "AWS::SNS::TopicPolicy"}
    assert set(RULES) - used - optional == set()


def planted(part: str, kind: str, fragment: str, **changes: Any) -> Template:
    """Return a copy of a template with one resource changed.

    part: the part of the stack. changes: {property or policy: new value}; None removes the key.
    """
    template = copy.deepcopy(synthesis().template("qwen3-32b", part))
    resource = only(template, kind, fragment)
    for key, value in changes.items():
        of_resource = key in ("DeletionPolicy", "UpdateReplacePolicy", "Type")
        target = resource if of_resource else resource["Properties"]
        if value is None:
            target.pop(key)
        else:
            target[key] = value
    return template


@pytest.mark.parametrize(("part", "kind", "fragment", "changes", "violation"), VIOLATIONS)
def test_a_resource_against_its_rule_is_found(
    part: str, kind: str, fragment: str, changes: dict[str, Any], violation: str
) -> None:
    lines = violations(experiments()["qwen3-32b"], planted(part, kind, fragment, **changes))
    assert violation in " ".join(lines)


def test_a_bucket_that_nothing_empties_is_found() -> None:
    template = copy.deepcopy(synthesis().template("qwen3-32b", "storage"))
    for logical_id in of_type(template, "Custom::S3AutoDeleteObjects"):
        del template["Resources"][logical_id]
    assert "nothing empties it" in " ".join(violations(experiments()["qwen3-32b"], template))


def test_disks_of_nodes_go_with_the_nodes() -> None:
    """EC2 makes disks and interfaces, so the launch template must say that EC2 deletes them too."""
    checked = 0
    for _, template in synthesis().templates():
        for resource in of_type(template, "AWS::EC2::LaunchTemplate").values():
            data = resource["Properties"]["LaunchTemplateData"]
            assert all(d["Ebs"]["DeleteOnTermination"] for d in data["BlockDeviceMappings"])
            interfaces = data.get("NetworkInterfaces", [])
            assert all(interface["DeleteOnTermination"] for interface in interfaces)
            checked += 1
    assert checked >= 2 * len(NAMES)
