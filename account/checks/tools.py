"""What `make deploy` needs on this machine: Node.js, the pinned CDK CLI, a container engine."""

from __future__ import annotations

import json
import re
from pathlib import Path

from account.checks.check import Outcome, Situation, failed, passed, warned

# jsii, which runs aws-cdk-lib below Python, supports Node.js 22 and 24 (its own banner on 20); the
# CDK CLI itself starts from 18 on (`engines` of its package).
OLDEST_NODE, OLDEST_MAINTAINED_NODE = 18, 22
_INSTALL_NODE = "`make setup` installs one into .venv; run `make preflight`, which finds it"


def pinned_cdk_version(root: Path) -> str:
    """The CDK CLI's version, as package.json pins it."""
    package = json.loads((root / "package.json").read_text(encoding="utf-8"))
    return str(package["devDependencies"]["aws-cdk"])


def cdk_cli(situation: Situation) -> Outcome:
    """The CDK CLI in node_modules is the pinned one: another may refuse the assembly."""
    pinned = pinned_cdk_version(situation.root)
    package = situation.root / "node_modules/aws-cdk/package.json"
    if not package.is_file():
        return warned(
            f"the CDK CLI {pinned} is not installed here",
            "`npm install` (`make deploy` does it too), which takes the npm registry",
        )
    installed = json.loads(package.read_text(encoding="utf-8")).get("version")
    if installed != pinned:
        return failed(
            f"CDK CLI {installed} in node_modules, package.json pins {pinned}",
            "`npm install` (`make deploy` does it too)",
        )
    return passed(f"CDK CLI {installed}")


def node(situation: Situation) -> Outcome:
    """Node.js is there, and recent enough."""
    answer = situation.run(("node", "--version"))
    if answer is None:
        return failed("there is no Node.js on the PATH", _INSTALL_NODE)
    found = re.match(r"v(\d+)\.", answer[1].strip())
    if answer[0] != 0 or found is None:
        return failed(f"`node --version` says {answer[1].strip()!r}", _INSTALL_NODE)
    major = int(found.group(1))
    if major < OLDEST_NODE:
        return failed(f"Node.js {answer[1].strip()}, {OLDEST_NODE} is the oldest", _INSTALL_NODE)
    if major < OLDEST_MAINTAINED_NODE:
        return warned(f"Node.js {answer[1].strip()} is out of maintenance", _INSTALL_NODE)
    return passed(f"Node.js {answer[1].strip()}")


def container_engine(situation: Situation) -> Outcome:
    """An engine that builds the load generator's image, unless the experiment names one."""
    image = situation.experiment.spec.aws.load_generator_image
    if image is not None:
        return passed(f"not needed: aws.load_generator_image is {image}")
    engine = situation.container_engine
    other = (
        "start one, or set CDK_DOCKER=finch or CDK_DOCKER=podman; without any, build "
        "pods/llmperf/Dockerfile elsewhere, push it and name it in aws.load_generator_image"
    )
    answer = situation.run((engine, "info"))
    if answer is None:
        return failed(f"the image must be built, and there is no `{engine}` on the PATH", other)
    if answer[0] != 0:
        last = (answer[1].strip().splitlines() or ["no output"])[-1]
        return failed(f"the image must be built, and `{engine} info` fails: {last}", other)
    return passed(f"`{engine}` answers, for the load generator's image")
