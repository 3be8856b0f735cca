"""The CDK app builds one stack from one experiment file.

    cdk synth -c experiment=experiments/qwen3-32b.yaml

`cdk` starts it with `python3 -O`, as cdk.json says: jsii then does not check the types of each call
again, which mypy has checked. That saves a twentieth of the CPU time.

The app's exit code is 2 if the experiment file, the version of the CDK command line or the Python
installation is wrong; the message says what is needed. `cdk` itself then exits with 1.
"""

import gc
import os
import sys
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path

try:
    import aws_cdk as cdk
    from aws_cdk.cloud_assembly_schema import Manifest

    from draftworth.errors import UserInputError
    from draftworth.planning.prices import with_looked_up_price
    from draftworth.planning.resolved import load_neuron
    from stacks.application import build_priced_application
    from stacks.constructs.add_ons import NEURON_CHART_CONTEXT
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
    """Synthesize the experiment that the CDK context names; return the exit code."""
    try:
        check_cli(os.environ)
        synthesize(cdk.App())
    except UserInputError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


def synthesize(app: cdk.App) -> None:
    """Write the CloudFormation template of the experiment file that the app's context names.

    UserInputError: the file, or a key of the context, is wrong.
    """
    path = Path(named_experiment(app.node.get_all_context()))
    experiment = with_looked_up_price(load_neuron(path), app.node.try_get_context)
    build_priced_application(app, experiment=experiment)
    app.synth()


def named_experiment(context: Mapping[str, object]) -> str:
    """Return the experiment file that the context names, else `DEFAULT_EXPERIMENT`.
    UserInputError: a key of the context is misspelt, or its value is empty."""
    for key, value in (("experiment", "FILE"), (NEURON_CHART_CONTEXT, "FOLDER")):
        nearly = set(get_close_matches(key, context, n=9, cutoff=0.8)) - {key}
        if nearly:
            raise UserInputError(
                f"-c {min(nearly)}=...: an unknown key; did you mean -c {key}={value}?"
            )
    if "experiment" not in context:
        sys.stderr.write(f"no -c experiment=FILE is given: {DEFAULT_EXPERIMENT}\n")
        return DEFAULT_EXPERIMENT
    if not (named := str(context["experiment"])):
        raise UserInputError("-c experiment=: no file is named, allowed: -c experiment=FILE")
    return named


def check_cli(environment: Mapping[str, str]) -> None:
    """Check that the CDK command line can read the cloud assembly that aws-cdk-lib writes.

    The command line sets the version of its assembly schema in the environment; without a version,
    the command line did not start this app. Without this check the command line would fail after
    the synthesis and advise an upgrade to npm's `latest`, which is too old.
    """
    reads, writes = environment.get("CDK_CLI_ASM_VERSION", ""), Manifest.version()
    newest = reads.partition(".")[0]
    if not newest.isdecimal() or int(newest) >= int(writes.partition(".")[0]):
        return
    # The module imports boto3, which is slow, so it is imported only here.
    from draftworth.account.checks.deploy_prerequisites import pinned_cdk_version

    pinned = pinned_cdk_version(ROOT)
    raise UserInputError(
        f"CDK command line {environment.get('CDK_CLI_VERSION', 'of an unknown version')}: it reads "
        f"assemblies up to schema {reads}, aws-cdk-lib writes {writes}; next: `npm install` here "
        f"(package.json pins aws-cdk {pinned}) and `npx cdk` instead of `cdk`, or "
        f"`npm install --global aws-cdk@{pinned}`"
    )


if __name__ == "__main__":
    gc.disable()  # saves 0.5 s of CPU time (`python -m benchmarks.synth --garbage-collection`)
    exit_code = main()
    gc.freeze()  # so that the garbage collection at Python's exit has no objects to visit
    sys.exit(exit_code)
