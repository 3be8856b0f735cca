"""Templates as text for a reviewer: intrinsic functions as `${...}`, and no boilerplate."""

import copy
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from draftworth.metrics.definitions import DIMENSIONS
from tests.stacks.synthesis import Template, of_type

# The hash that CDK appends to logical ids, and not the end of an artifact key that is all digits.
_LOGICAL_HASH = re.compile(r"(?<![0-9a-f]{16})[0-9A-F]{8}$")
_ASSET = re.compile(r"[0-9a-f]{64}")
_BARRIER = "AWS::CloudFormation::WaitConditionHandle"
_MANIFEST = "Custom::AWSCDK-EKS-KubernetesResource"
_DEPLOYMENT = "Custom::DraftworthDeployment"
_DIMENSION_ORDER = (*DIMENSIONS, "ClusterName", "QueueName")
_CONTENT_HASH = re.compile("-[0-9a-f]{8}$")


def readable(template: Template) -> dict[str, Any]:
    """Return the template's resources for a snapshot, without what other tests check.

    That is: tags, the order of the stack's parts, and the content of Kubernetes objects.
    """
    resources = {}
    for logical_id, resource in template["Resources"].items():
        reduced = {k: v for k, v in resource.items() if k != "Metadata"}
        reduced["Properties"] = {
            k: v for k, v in resource.get("Properties", {}).items() if k != "Tags"
        }
        if resource["Type"] == _BARRIER:
            continue
        if resource["Type"] == _MANIFEST:
            reduced["Properties"]["Manifest"] = kubernetes_names(resource)
        if resource["Type"] == _DEPLOYMENT:
            reduced["Properties"]["Plan"] = _masked_plan(resource["Properties"]["Plan"])
        if resource["Type"] == "AWS::Scheduler::Schedule":
            schedule_input = json.loads(resource["Properties"]["Target"]["Input"])
            masked_input = {
                key: _masked_plan(value) if key == "plan" else value
                for key, value in schedule_input.items()
            }
            reduced["Properties"]["Target"] = {
                **resource["Properties"]["Target"],
                "Input": masked_input,
            }
        if resource["Type"] == "AWS::CloudWatch::Dashboard":
            reduced["Properties"]["DashboardBody"] = dashboard_lines(resource)
        resources[logical_id] = collapsed(reduced)
    return {"Resources": resources}


def outputs(template: Template) -> dict[str, str]:
    """Return the stack's outputs, which a deploy prints at its end, {name: value}."""
    return {k: collapsed(v["Value"]) for k, v in template["Outputs"].items()}


def dashboard_lines(resource: dict[str, Any]) -> list[str]:
    """Return a line per widget of a dashboard: `x,y title: metric statistic {dimensions}, ...`."""
    body = json.loads(collapsed(resource["Properties"]["DashboardBody"]))
    return [_widget_line(widget) for widget in body["widgets"]]


def _widget_line(widget: dict[str, Any]) -> str:
    place, properties = f"{widget['x']},{widget['y']}", widget["properties"]
    if widget["type"] == "text":
        return f"{place} {properties['markdown']}"
    if widget["type"] == "log":
        return f"{place} {properties['title']}: {properties['query']}"
    lines = (_metric_line(metric) for metric in properties["metrics"])
    return f"{place} {properties['title']}: {'; '.join(lines)}"


def _metric_line(line: list[Any]) -> str:
    if "expression" in line[-1]:
        return f"{line[-1]['label']} = {line[-1]['expression']}"
    metric = metric_of(line)
    named = f"{metric['id']} = " if "id" in metric else ""
    dimensions = "/".join(metric[name] for name in _DIMENSION_ORDER if name in metric)
    return f"{named}{metric['name']} {metric['stat']} {dimensions}"


def metric_of(line: list[Any]) -> dict[str, Any]:
    """Return a metric line of a dashboard's body as a dictionary; it must not be an expression.

    Its keys: `namespace`, `name`, `stat`, each dimension, and each option.
    """
    options = line[-1] if isinstance(line[-1], dict) else {}
    namespace, name, *pairs = (text for text in line if isinstance(text, str))
    dimensions = dict(zip(pairs[::2], pairs[1::2], strict=True))
    # CloudWatch shows the average of a metric without a statistic.
    return {"stat": "Average", "namespace": namespace, "name": name, **dimensions, **options}


def kubernetes_objects(resource: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the Kubernetes objects of a manifest resource, with intrinsic functions as text."""
    objects: list[dict[str, Any]] = json.loads(collapsed(resource["Properties"]["Manifest"]))
    return objects


def _masked_plan(text: str) -> dict[str, Any]:
    """Return the capacity controller's plan as data, without the content hash in the Job's name."""
    plan: dict[str, Any] = json.loads(text)
    return {**plan, "job_name": _CONTENT_HASH.sub("-<hash>", plan["job_name"])}


def kubernetes_names(resource: dict[str, Any]) -> list[str]:
    """Return `KIND NAME` for each Kubernetes object of a manifest, without hashes in the names."""
    return [
        f"{o['kind']} {_CONTENT_HASH.sub('-<hash>', o['metadata']['name'])}"
        for o in kubernetes_objects(resource)
    ]


def collapsed(value: Any) -> Any:
    """Return a template's value with each intrinsic function, such as `Ref`, as text `${...}`."""
    if isinstance(value, list):
        return [collapsed(item) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        name, argument = next(iter(value.items()))
        if name in _INTRINSICS:
            return _INTRINSICS[name](argument)
    return {key: collapsed(item) for key, item in value.items()}


def _join(argument: list[Any]) -> str:
    separator, parts = argument
    return str(separator).join(str(collapsed(part)) for part in parts)


_INTRINSICS: dict[str, Any] = {
    "Ref": lambda a: f"${{{a}}}",
    "Fn::GetAtt": lambda a: f"${{{a[0]}.{a[1]}}}",
    "Fn::Sub": lambda a: a if isinstance(a, str) else json.dumps(a),
    "Fn::Join": _join,
    "Fn::Base64": lambda a: f"base64: {collapsed(a)}",
    "Fn::If": lambda a: f"${{if {a[0]}: {collapsed(a[1])}, else: {collapsed(a[2])}}}",
}


def rights(template: Template) -> Iterator[str]:
    """Yield a line per right in a template's policies: `principal | action | resource | if ...`."""
    for logical_id, resource in template["Resources"].items():
        properties = resource.get("Properties", {})
        if resource["Type"] == "AWS::IAM::Role":
            who = _short(logical_id)
            for policy in properties.get("ManagedPolicyArns", []):
                policy_text = collapsed(policy)
                yield f"{who} | policy {policy_text if isinstance(policy_text, str) else policy}"
            for principal, action, _, condition in _statements(
                properties["AssumeRolePolicyDocument"]
            ):
                yield f"{principal} | {action} | {who}{condition}"
        for whose, document in _policies(logical_id, resource):
            for principal, action, target, condition in _statements(document):
                yield f"{principal or whose} | {action} | {target}{condition}"


def _policies(logical_id: str, resource: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    properties = resource.get("Properties", {})
    if "PolicyDocument" in properties:
        roles = [_role_name(str(collapsed(role))) for role in properties.get("Roles", [])]
        yield ", ".join(roles) or _short(logical_id), properties["PolicyDocument"]
    for policy in properties.get("Policies", []):
        yield _short(logical_id), policy["PolicyDocument"]


def _role_name(reference: str) -> str:
    return _short(reference).removeprefix("${").removesuffix("}")


def _statements(document: dict[str, Any]) -> Iterator[tuple[str, str, str, str]]:
    for statement in document["Statement"]:
        condition = statement.get("Condition")
        suffix = f" | if {json.dumps(collapsed(condition), sort_keys=True)}" if condition else ""
        deny = "DENY " if statement["Effect"] == "Deny" else ""
        for action in listed(statement["Action"]):
            for target in listed(statement.get("Resource", "")):
                principal = _principal(statement.get("Principal"))
                short_target = _ASSET.sub("<asset-hash>", _short(str(collapsed(target))))
                yield principal, f"{deny}{action}", short_target, suffix


def _principal(principal: Any) -> str:
    if principal is None:
        return ""
    if isinstance(principal, str):
        return principal
    return ", ".join(_short(str(collapsed(p))) for v in principal.values() for p in listed(v))


def listed(value: Any) -> list[Any]:
    """Return a value as a list; CloudFormation allows one value in place of a list."""
    return value if isinstance(value, list) else [value]


def _short(text: str) -> str:
    """Return a text without the hashes that CDK appends to logical ids."""
    text = re.sub(r"[0-9A-F]{8}(?=Arn[0-9A-F]{8}\})", "", text)
    text = re.sub(r"(Arn)?(?<![0-9a-f]{16})[0-9A-F]{8}(?=[.}]|$)", r"\1", text)
    return _LOGICAL_HASH.sub("", text)


# {role: its rights as (action, resource)}.
Granted = Mapping[str, Sequence[tuple[str, str]]]


def granted_in(template: Template, *, conditional: bool = False) -> Granted:
    """Return the rights of all roles; conditional: also rights that hold under a condition only."""
    granted = defaultdict(list)
    for line in rights(template):
        role, *right = line.split(" | ")
        if len(right) == 2 or (conditional and len(right) == 3):
            granted[role].append((right[0], right[1]))
    return granted


def may(granted: Granted, role: str, action: str, resource: str) -> bool:
    """Return whether `granted`, which may have wildcards, lets a role do `action` on `resource`."""
    assert granted.get(role), f"{role} has no right at all: the test would prove nothing"
    return any(
        fnmatchcase(action, allowed) and fnmatchcase(resource, pattern)
        for allowed, pattern in granted[role]
    )


def without(template: Template, action: str, fragment: str) -> Template:
    """Return a copy of a template without one right: an action on resources with `fragment`."""
    changed = copy.deepcopy(template)
    for policy in of_type(changed, "AWS::IAM::Policy").values():
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]:
            actions, resources = listed(statement["Action"]), listed(statement["Resource"])
            left = [r for r in resources if fragment not in json.dumps(r)]
            if action in actions and len(left) < len(resources):
                if left:
                    statement["Resource"] = left
                else:
                    statement["Action"] = [a for a in actions if a != action]
    return changed
