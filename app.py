"""The CDK app makes one stack of one experiment file.

    cdk synth -c experiment=experiments/qwen3-32b.yaml

Its exit code is 2 if the experiment file, the CDK command line or the Python is wrong; the message
says which is right. The CDK command line's own exit code is then 1.
"""

import gc
import os
import sys
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path

if __name__ == "__main__":
    # A process of some seconds has no garbage worth collecting: this saves 0.4 s of about 4, half
    # of it at the end, where Python collects once more unless everything is frozen.
    gc.disable()
    # Node.js needs no four helper threads: one saves 0.6 s of CPU and 0.2 s of waiting.
    os.environ.setdefault("NODE_OPTIONS", "--v8-pool-size=1")

try:
    import aws_cdk as cdk
    from aws_cdk.cloud_assembly_schema import Manifest

    from draftworth.errors import UserInputError
    from draftworth.planning.prices import with_looked_up_price
    from draftworth.planning.resolved import load_neuron
    from stacks.application import build_priced_application
except ImportError as error:
    sys.stderr.write(
        f"{error}: cdk.json starts {sys.executable} (Python {sys.version.split()[0]}); next: "
        "activate a virtual environment of Python 3.11 or later (`. .venv/bin/activate`), and in "
        "it `pip install -r requirements.txt`\n"
    )
    sys.exit(2)

ROOT = Path(__file__).resolve().parent
DEFAULT_EXPERIMENT = "experiments/qwen3-32b.yaml"


def main() -> int:
    """Synthesize what the CDK command line asks for."""
    try:
        check_cli(os.environ)
        synthesize(cdk.App())
    except UserInputError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


def synthesize(app: cdk.App) -> None:
    """Synthesize the experiment that the app's context names.

    Raises:
        UserInputError: its file, or the price that was looked up for it, cannot be used.
    """
    path = Path(named_experiment(app.node.get_all_context()))
    experiment = with_looked_up_price(load_neuron(path), app.node.try_get_context)
    build_priced_application(app, experiment=experiment)
    app.synth()


def named_experiment(context: Mapping[str, object]) -> str:
    """Return the experiment file of the context; the published one if the context has none.

    Raises:
        UserInputError: a key is nearly right, so another experiment would be deployed.
    """
    nearly = set(get_close_matches("experiment", context, n=9, cutoff=0.8)) - {"experiment"}
    if nearly:
        raise UserInputError(
            f"-c {min(nearly)}=...: an unknown key; did you mean -c experiment=FILE?"
        )
    if "experiment" not in context:
        sys.stderr.write(f"no -c experiment=FILE is given: {DEFAULT_EXPERIMENT}\n")
        return DEFAULT_EXPERIMENT
    if not (named := str(context["experiment"])):
        raise UserInputError("-c experiment=: no file is named, allowed: -c experiment=FILE")
    return named


def check_cli(environment: Mapping[str, str]) -> None:
    """Check that the calling CDK command line can read what this library writes.

    The command line gives the version of its assembly schema in the environment; without one there
    is no caller. Otherwise it would refuse after the synthesis and advise an upgrade, although the
    `latest` on npm is too old.

    Raises:
        UserInputError: it cannot; the message names the version to install.
    """
    reads, writes = environment.get("CDK_CLI_ASM_VERSION", ""), Manifest.version()
    newest = reads.partition(".")[0]
    if not newest.isdecimal() or int(newest) >= int(writes.partition(".")[0]):
        return
    # It imports boto3, which takes a while.
    from draftworth.account.checks.deployment import pinned_cdk_version

    pinned = pinned_cdk_version(ROOT)
    raise UserInputError(
        f"CDK command line {environment.get('CDK_CLI_VERSION', 'of an unknown version')}: it reads "
        f"assemblies up to schema {reads}, aws-cdk-lib writes {writes}; next: `npm install` here "
        f"(package.json pins aws-cdk {pinned}) and `npx cdk` instead of `cdk`, or "
        f"`npm install --global aws-cdk@{pinned}`"
    )


if __name__ == "__main__":
    exit_code = main()
    gc.freeze()
    sys.exit(exit_code)
