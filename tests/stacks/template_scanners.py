"""What cfn-lint and checkov report of CloudFormation templates, and which of it is accepted."""

import functools
import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from draftworth.experiment import strict_model

REGION = "us-east-2"
ACCEPTED = Path(__file__).with_name("accepted_findings.yaml")
# The program of checkov, in an environment of its own; `make test-checkov` sets the variable.
CHECKOV = os.environ.get("DRAFTWORTH_CHECKOV", "")


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One finding of a tool.

    template: the file's name without its ending. resource: `TYPE.LOGICAL_ID`.
    """

    template: str
    rule: str
    resource: str
    message: str


class Acceptance(strict_model.StrictModel):
    """Findings of one rule that are accepted for a reason, as in `accepted_findings.yaml`."""

    rule: str
    resources: tuple[str, ...]
    reason: str
    says: str = ""

    def covers(self, finding: Finding, pattern: str) -> bool:
        """Return whether this accepts a finding by `pattern`, one of its `resources`."""
        same_rule = self.rule == finding.rule and self.says in finding.message
        return same_rule and fnmatchcase(finding.resource, pattern)


@functools.cache
def accepted(tool: str) -> Sequence[Acceptance]:
    """Return what is accepted of `tool`: checkov or cfn-lint."""
    text = ACCEPTED.read_text(encoding="utf-8")
    return strict_model.read_yaml(dict[str, tuple[Acceptance, ...]], text)[tool]


def unaccepted(findings: Sequence[Finding], acceptances: Sequence[Acceptance]) -> list[Finding]:
    """Return the findings that no acceptance covers."""
    patterns = [
        (acceptance, pattern) for acceptance in acceptances for pattern in acceptance.resources
    ]
    return [f for f in findings if not any(a.covers(f, pattern) for a, pattern in patterns)]


def unused(findings: Sequence[Finding], acceptances: Sequence[Acceptance]) -> list[str]:
    """Return `RULE: PATTERN` of each pattern of an acceptance that covers no finding."""
    return [
        f"{acceptance.rule}: {pattern}"
        for acceptance in acceptances
        for pattern in acceptance.resources
        if not any(acceptance.covers(finding, pattern) for finding in findings)
    ]


def cfn_lint(paths: Sequence[Path]) -> list[Finding]:
    """Return cfn-lint's findings in templates, warnings included."""
    command = ["cfn-lint", "--regions", REGION, "--format", "json", "-t", *map(str, paths)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    return [_of_cfn_lint(entry) for entry in json.loads(result.stdout or "[]")]


def _of_cfn_lint(entry: dict[str, Any]) -> Finding:
    path = Path(entry["Filename"])
    logical_id = (*entry["Location"]["Path"], "", "")[1]
    resource = json.loads(path.read_text())["Resources"].get(logical_id, {})
    return Finding(
        template=path.stem,
        rule=entry["Rule"]["Id"],
        resource=f"{resource.get('Type', '')}.{logical_id}",
        message=entry["Message"],
    )


def checkov(paths: Sequence[Path]) -> list[Finding]:
    """Return the checks of checkov that fail in templates; nothing is downloaded.

    A template of which no check passes was not read, and raises an AssertionError.
    """
    command = [CHECKOV, "--framework", "cloudformation", "--skip-download", "--compact"]
    result = subprocess.run(
        [*command, "--output", "json", "--file", *map(str, paths)],
        capture_output=True,
        text=True,
        check=False,
    )
    report = json.loads(result.stdout)
    assert {Path(c["file_path"]).name for c in report["results"]["passed_checks"]} == {
        path.name for path in paths
    }, result.stderr
    return [_of_checkov(entry) for entry in report["results"]["failed_checks"]]


def _of_checkov(entry: dict[str, Any]) -> Finding:
    return Finding(
        template=Path(entry["file_path"]).stem,
        rule=entry["check_id"],
        resource=entry["resource"],
        message=entry["check_name"],
    )
