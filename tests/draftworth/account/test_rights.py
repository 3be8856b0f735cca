"""The calls of the commands before a deploy only read, and the page lists their rights."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import boto3

from tests.conftest import ROOT
from tests.support.documents import assert_block

LOOKS_ONLY = ("checks", "market", "price.py", "preflight.py", "clients.py")
SERVICES = (
    "cloudformation",
    "ec2",
    "eks",
    "freetier",
    "lambda",
    "pricing",
    "secretsmanager",
    "service-quotas",
    "ssm",
)
# Everyone may ask who they are.
FREE = {"get_caller_identity"}
READS = ("describe", "get", "list")
_CALL = re.compile(r"[a-z]+(_[a-z0-9]+)+")


def words(path: Path) -> Iterator[str]:
    """Names of attributes and texts of one word in a file: a client's methods are among them."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def methods() -> dict[str, str]:
    """Every method of the clients by name, as IAM writes it."""
    rights: dict[str, str] = {}
    for service in SERVICES:
        made = boto3.client(service, region_name="us-east-1")  # type: ignore[call-overload]
        prefix = service.replace("-", "")
        for method, operation in made.meta.method_to_api_mapping.items():
            rights.setdefault(method, f"{prefix}:{operation}")
    return rights


def called() -> set[str]:
    """The clients' methods that stand in the source of the commands."""
    places = [ROOT / "draftworth/account" / place for place in LOOKS_ONLY]
    files = [f for place in places for f in ([place] if place.is_file() else place.rglob("*.py"))]
    assert len(files) > 10
    rights = methods()
    names = {word for file in files for word in words(file) if _CALL.fullmatch(word)}
    return {word for word in names if word in rights} - FREE


def test_no_call_buys_or_changes_anything() -> None:
    names = called()
    assert "describe_capacity_block_offerings" in names
    assert {name for name in names if not name.startswith(READS)} == set()


def test_a_purchase_would_be_seen(tmp_path: Path) -> None:
    file = tmp_path / "buys.py"
    file.write_text('region.ask("buy", "ec2", "purchase_capacity_block")\nec2.run_instances()\n')
    assert {"purchase_capacity_block", "run_instances"} <= set(words(file)) & set(methods())


def test_the_page_lists_rights_that_commands_need() -> None:
    rights = methods()
    lines = "".join(f"{rights[name]}\n" for name in sorted(called(), key=rights.__getitem__))
    assert_block(ROOT / "docs/operations.md", "rights", f"```\n{lines}```\n")
