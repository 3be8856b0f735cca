"""The dependency rule: who may import whom (`docs/architecture.md`)."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT

PACKAGES = ("draftworth", "charts", "stacks", "lambdas", "workloads", "rehearsal", "account")
MAY_IMPORT = {
    "draftworth": {"draftworth"},
    "charts": {"charts", "draftworth"},
    "lambdas": {"lambdas", "draftworth"},
    "workloads": {"workloads", "draftworth"},
    "stacks": {"stacks", "charts", "draftworth"},
    "account": {"account", "draftworth"},
    # The rehearsal puts the deployed parts together on one machine, as `stacks` does on AWS.
    "rehearsal": {"rehearsal", "workloads", "lambdas", "draftworth"},
}
# What the domain must not know, and what a package of another layer must not reach for.
FOREIGN = {
    "draftworth": {"aws_cdk", "cdk8s", "cdk8s_plus_35", "constructs", "boto3", "botocore", "moto"},
    "charts": {"aws_cdk", "boto3", "botocore", "moto"},
    "lambdas": {"aws_cdk", "cdk8s", "pydantic", "yaml", "moto"},
    "workloads": {"aws_cdk", "cdk8s", "pydantic", "yaml", "moto"},
    "stacks": {"boto3", "moto"},
    "rehearsal": {"aws_cdk", "cdk8s"},
    "account": {"aws_cdk", "cdk8s", "moto"},
}
STDLIB_ONLY = (
    "artifact_manifest.py",
    "results.py",
    "capacity.py",
    "metrics.py",
    "errors.py",
    "prompts.py",
    "verdict.py",
    "speculation.py",
    "staging.py",
)


def imported_names(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.split(".")[0]


def violations(package: str, source: str) -> set[str]:
    names = set(imported_names(source))
    ours = names & set(PACKAGES)
    return (ours - MAY_IMPORT[package]) | (names & FOREIGN[package])


def modules(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_imports_only_what_it_may(package: str) -> None:
    files = modules(package)
    assert files
    found = {str(f.relative_to(ROOT)): violations(package, f.read_text()) for f in files}
    assert {name: names for name, names in found.items() if names} == {}


@pytest.mark.parametrize(
    ("package", "source"),
    [
        ("draftworth", "import boto3"),
        ("draftworth", "def f():\n    from charts import app"),
        ("charts", "import stacks.cluster"),
        ("lambdas", "from pydantic import BaseModel"),
        ("stacks", "import lambdas.metrics_publisher"),
        ("account", "from stacks.network import second_zone"),
    ],
)
def test_a_planted_violation_is_found(package: str, source: str) -> None:
    assert violations(package, source)


@pytest.mark.parametrize("name", STDLIB_ONLY)
def test_what_pods_and_functions_share_is_standard_library_only(name: str) -> None:
    names = set(imported_names((ROOT / "draftworth" / name).read_text()))
    assert names - set(sys.stdlib_module_names) <= {"draftworth"}


def test_the_domain_loads_no_aws_or_kubernetes_library() -> None:
    """Also not by a detour: what is in memory after every module of the domain was imported."""
    domain = [
        ".".join(f.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for f in modules("draftworth")
        if f.name != "__main__.py"
    ]
    found = f"sorted({FOREIGN['draftworth']!r} & set(sys.modules))"
    code = f"import sys, {', '.join(domain)}; print({found})"
    answer = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip() == "[]"
