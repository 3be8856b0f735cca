"""The CDK app: one experiment file in, its stacks out.

    cdk synth -c experiment=experiments/qwen3-32b.yaml

Exit code 2: the experiment file is wrong; the message says where and what is allowed.
"""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path

if __name__ == "__main__":
    # A process of some seconds frees nothing worth looking for: 0.4 s less of about 4, half of it
    # at the end, where Python looks once more unless all is frozen.
    gc.disable()
    # And its Node.js needs no four helpers: 0.6 s less, of which 0.2 s are the user's.
    os.environ.setdefault("NODE_OPTIONS", "--v8-pool-size=1")

import aws_cdk as cdk

from draftworth.errors import UserInputError
from draftworth.planning.looked_up_price import with_looked_up_price
from draftworth.planning.resolved import load_neuron
from stacks.priced_application import build_priced_application

DEFAULT_EXPERIMENT = "experiments/qwen3-32b.yaml"


def main() -> int:
    """Synthesize the experiment that the context names."""
    app = cdk.App()
    path = Path(app.node.try_get_context("experiment") or DEFAULT_EXPERIMENT)
    try:
        experiment = with_looked_up_price(load_neuron(path), app.node.try_get_context)
    except UserInputError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    build_priced_application(app, experiment=experiment)
    app.synth()
    return 0


if __name__ == "__main__":
    exit_code = main()
    gc.freeze()
    sys.exit(exit_code)
