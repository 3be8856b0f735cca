"""The checks of what a deploy needs: tools, CDK's bootstrap, stacks, graphs, Hugging Face token."""

import json
import re
from pathlib import Path

from draftworth.account import artifacts, clients, scope
from draftworth.account.checks import check, hub_checks
from draftworth.experiment.naming import EXPERIMENT_TAG, RESULTS_OUTPUT
from draftworth.records.deployment import STOP_KEY
from draftworth.records.hub_secret import token_in

# jsii, through which Python uses aws-cdk-lib, supports Node.js 22 and 24, and warns on Node.js 20.
# The CDK CLI runs on Node.js 18 and later (`engines` in its package.json).
OLDEST_NODE, OLDEST_MAINTAINED_NODE = 18, 22
_INSTALL_NODE = "`make setup` installs one into .venv; run `make preflight`, which finds it"


def pinned_cdk_version(root: Path) -> str:
    """Return the version of the CDK CLI that package.json pins."""
    package = json.loads((root / "package.json").read_text(encoding="utf-8"))
    return str(package["devDependencies"]["aws-cdk"])


def cdk_cli(situation: check.Situation) -> check.CheckResult:
    """Check that node_modules has the pinned CDK CLI; other versions may refuse to deploy."""
    if not (situation.root / "package.json").is_file():
        return check.skipped(
            "a deploy takes a checkout of draftworth, and this is an installed package"
        )
    pinned = pinned_cdk_version(situation.root)
    package = situation.root / "node_modules/aws-cdk/package.json"
    if not package.is_file():
        return check.warned(
            f"the CDK CLI {pinned} is not installed here",
            "`npm install` (`make deploy` does it too), which takes the npm registry",
        )
    installed = json.loads(package.read_text(encoding="utf-8")).get("version")
    if installed != pinned:
        return check.failed(
            f"CDK CLI {installed} in node_modules, package.json pins {pinned}",
            "`npm install` (`make deploy` does it too)",
        )
    return check.passed(f"CDK CLI {installed}")


def node(situation: check.Situation) -> check.CheckResult:
    """Check that Node.js is installed and recent enough."""
    answer = situation.run(("node", "--version"))
    if answer is None:
        return check.failed("there is no Node.js on the PATH", _INSTALL_NODE)
    version = re.match(r"v(\d+)\.", answer[1].strip())
    if answer[0] != 0 or version is None:
        return check.failed(f"`node --version` says {answer[1].strip()!r}", _INSTALL_NODE)
    major = int(version.group(1))
    if major < OLDEST_NODE:
        return check.failed(
            f"Node.js {answer[1].strip()}, {OLDEST_NODE} is the oldest", _INSTALL_NODE
        )
    if major < OLDEST_MAINTAINED_NODE:
        return check.warned(f"Node.js {answer[1].strip()} is out of maintenance", _INSTALL_NODE)
    return check.passed(f"Node.js {answer[1].strip()}")


def container_engine(situation: check.Situation) -> check.CheckResult:
    """Check that a container engine can build the measuring Job's image.

    None is needed if the experiment file names an image.
    """
    image = situation.experiment.spec.aws.load_generator_image
    if image is not None:
        return check.passed(f"not needed: aws.load_generator_image is {image}")
    engine = situation.container_engine
    other = (
        "start one, or set CDK_DOCKER=finch or CDK_DOCKER=podman; without any, build "
        "pods/measuring/Dockerfile elsewhere, push it and name it in aws.load_generator_image"
    )
    answer = situation.run((engine, "info"))
    if answer is None:
        return check.failed(
            f"the image must be built, and there is no `{engine}` on the PATH", other
        )
    if answer[0] != 0:
        last = (answer[1].strip().splitlines() or ["no output"])[-1]
        return check.failed(f"the image must be built, and `{engine} info` fails: {last}", other)
    return check.passed(f"`{engine}` answers, for the measuring Job's image")


# The bootstrap's qualifier and lowest version that aws-cdk-lib's default synthesizer asks for; a
# test compares them with the synthesized assembly (`tests/stacks/test_every_stack.py`).
DEFAULT_QUALIFIER = "hnb659fds"
BOOTSTRAP_VERSION = 6
_SECRETS = "secretsmanager"


def bootstrap(situation: check.Situation) -> check.CheckResult:
    """Check that CDK's bootstrap of the account and region has `BOOTSTRAP_VERSION` or later."""
    root, qualifier, cdk = situation.root, DEFAULT_QUALIFIER, "npx aws-cdk@2"
    if (root / "cdk.json").is_file():
        context = json.loads((root / "cdk.json").read_text(encoding="utf-8"))["context"]
        qualifier = context.get("@aws-cdk/core:bootstrapQualifier", DEFAULT_QUALIFIER)
        # `cdk bootstrap` starts the app, which needs the Python of .venv.
        cdk = f'PATH="$PWD/.venv/bin:$PATH" npx aws-cdk@{pinned_cdk_version(root)}'
    name = f"/cdk-bootstrap/{qualifier}/version"
    command = f"{cdk} bootstrap aws://ACCOUNT/{situation.region}"
    doing = f"read the SSM parameter {name}"
    answer = situation.here.ask(doing, "ssm", "get_parameter", "ParameterNotFound", Name=name)
    if answer is None:
        return check.failed(f"no CDK bootstrap: there is no SSM parameter {name}", command)
    version = str(answer["Parameter"]["Value"])
    if not version.isdecimal() or int(version) < BOOTSTRAP_VERSION:
        return check.failed(
            f"CDK bootstrap {version}, {BOOTSTRAP_VERSION} or later needed", command
        )
    return check.passed(f"CDK bootstrap {version}, {BOOTSTRAP_VERSION} or later needed")


def existing_stacks(situation: check.Situation) -> check.CheckResult:
    """Check that no stack of an earlier deploy is in a state that prevents a deploy."""
    name, states = situation.experiment.names.stack, stack_states(situation)
    if other_stacks := sorted(set(states) - {name}):
        return check.failed(
            f"{', '.join(other_stacks)} of an earlier version, which made several stacks",
            "`make destroy` with that version, or delete them by name, the last made first",
        )
    if name not in states:
        return check.passed("no stack of this experiment exists yet")
    return _judged(f"{name} is {states[name]}", states[name])


def stack_states(situation: check.Situation) -> dict[str, str]:
    """Return, by name, the status of each stack that has the experiment's tag or stack name."""
    names = situation.experiment.names
    return {
        stack["StackName"]: stack["StackStatus"]
        for stack in check.stacks(situation)
        if stack["StackName"] == names.stack
        or clients.tags_of(stack).get(EXPERIMENT_TAG) == situation.experiment.name
    }


def not_stopped(situation: check.Situation) -> check.CheckResult:
    """Check that no earlier `make stop` keeps the accelerator nodes at zero."""
    experiment = situation.experiment
    if experiment.names.stack not in stack_states(situation):
        return check.passed("nothing is deployed yet")
    bucket = scope.bucket_in(scope.stack_outputs(experiment), RESULTS_OUTPUT)
    if bucket is None:
        return check.passed("there is no results bucket yet")
    url, arguments = f"s3://{bucket}/{STOP_KEY}", {"Bucket": bucket, "Key": STOP_KEY}
    if situation.here.ask(f"look for {url}", "s3", "head_object", "404", **arguments) is None:
        return check.passed("nodes may start when everything they need is there")
    return check.warned(
        f"{url} keeps the accelerator nodes at zero, after a deploy too",
        f"draftworth stop {experiment.path} --resume",
    )


def _judged(words: str, state: str) -> check.CheckResult:
    """Check that CDK CLI 2.1148.1 can deploy to a stack with the CloudFormation status `state`.

    words: the stack's name and status, as the result shows them.
    """
    if state.endswith("_IN_PROGRESS") and state != "REVIEW_IN_PROGRESS":
        return check.failed(words, "wait until CloudFormation is done with it")
    if state == "DELETE_FAILED":
        return check.failed(words, "`make destroy`; `draftworth leftovers` shows what holds it up")
    if state == "UPDATE_ROLLBACK_FAILED":
        return check.failed(words, "`npx cdk rollback`, or `make destroy`")
    if state in ("CREATE_FAILED", "UPDATE_FAILED"):
        return check.warned(
            words, "nothing: a deploy goes on where it stopped (`rollback` in cdk.json)"
        )
    if state in ("ROLLBACK_COMPLETE", "ROLLBACK_FAILED"):
        return check.warned(words, "nothing: `make deploy` deletes it and creates it again")
    return check.passed(f"{words}, which can be updated")


def hub_token(situation: check.Situation) -> check.CheckResult:
    """Check that the secret with the Hugging Face token exists, and that it opens each model."""
    name = situation.experiment.spec.aws.hub_token_secret
    if name is None:
        return check.skipped("aws.hub_token_secret is not given")
    doing, missing = f"look at the secret {name!r}", "ResourceNotFoundException"
    facts = situation.here.ask(doing, _SECRETS, "describe_secret", missing, SecretId=name)
    if facts is None:
        return check.failed(
            f"there is no secret {name!r} in {situation.region}",
            _create_secret(situation, name),
        )
    if "DeletedDate" in facts:
        return check.failed(
            f"the secret {name!r} is scheduled for deletion",
            f"aws secretsmanager restore-secret --region {situation.region} --secret-id {name}",
        )
    return _readable(situation, name)


def _create_secret(situation: check.Situation, name: str) -> str:
    return (
        f"aws secretsmanager create-secret --region {situation.region} --name {name} "
        "--secret-string file://TOKEN_FILE"
    )


def _readable(situation: check.Situation, name: str) -> check.CheckResult:
    doing = f"read the secret {name!r}"
    try:
        answer = situation.here.ask(doing, _SECRETS, "get_secret_value", SecretId=name)
    except clients.DeniedError as error:
        return check.warned(
            f"the secret {name!r} exists; you may not read it, so whether it holds a token is "
            f"unknown: {error.reason}",
            "nothing, if you know that it does: the stager's own role reads it",
        )
    token = token_in(str(answer.get("SecretString", "")))
    if not token:
        return check.failed(
            f"the secret {name!r} holds no token",
            f"aws secretsmanager put-secret-value --region {situation.region} --secret-id {name} "
            "--secret-string file://TOKEN_FILE",
        )
    return hub_checks.model_access(situation, token)


def gated_models(situation: check.Situation) -> check.CheckResult:
    """Check that an experiment with a gated model names the secret with a Hugging Face token."""
    spec = situation.experiment.spec
    if spec.aws.hub_token_secret is not None:
        return check.passed(f"aws.hub_token_secret names {spec.aws.hub_token_secret!r}")
    unknown = [m.model for m in spec.models if m.facts is None]
    if gated := spec.gated_models:
        return check.failed(
            f"{', '.join(gated)} is gated and aws.hub_token_secret names no secret: staging it "
            "fails, unless an earlier deploy staged it into a bucket that is there still",
            "accept its conditions on the hub; with a token that may read it "
            f"`{_create_secret(situation, 'draftworth/hub')}`; then set aws.hub_token_secret to "
            "draftworth/hub",
        )
    if unknown:
        return check.warned(
            f"whether {', '.join(unknown)} is gated is unknown; aws.hub_token_secret is not given",
            "look at its page on the hub; a gated one needs aws.hub_token_secret",
        )
    return check.passed("no model is gated: no token needed")


def compiled_graphs(situation: check.Situation) -> check.CheckResult:
    """Check that servers would accept the compiled graphs in S3, before their nodes cost money."""
    if situation.experiment.names.stack not in stack_states(situation):
        return check.passed("nothing is deployed yet: first starts compile")
    (listing,) = artifacts.listings([situation.experiment], bucket=None, now=situation.now)
    refusals = [
        f"{wanted.variant}: {wanted.refusal[0]}" for wanted in listing.wanted if wanted.refusal
    ]
    if refusals:
        return check.failed(
            f"would be refused: {'; '.join(refusals)}",
            f"draftworth artifacts {situation.experiment.path} --run; the next start compiles",
        )
    loaded = sum(wanted.start(listing.now) == "load" for wanted in listing.wanted)
    return check.passed(f"{loaded} of {len(listing.wanted)} variants load, the others compile")
