"""The stager Job's program copies one model from Hugging Face into the checkpoints bucket.

Servers and the capacity controller read the result there: `_READY.json`, or `_FAILED.json` if no
other pod of the Job will try again.

Exit codes: 0 the model is READY, 1 a failure that may be temporary, 2 the input is wrong.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError
from huggingface_hub import HfApi

from draftworth.errors import DraftworthError, UserInputError
from draftworth.records.checkpoints import FAILURES_VARIABLE
from draftworth.untrusted import hide_secret
from pods.checkpoint_stager.checkpoints_bucket import PARTS_AT_ONCE, Store
from pods.checkpoint_stager.hub import Hub
from pods.checkpoint_stager.hub_token import read_token
from pods.checkpoint_stager.stager import ScratchSpace, Staging
from pods.log import end_at_sigterm, log_line

PARALLEL_FILES = 4
ALLOWED = "allowed"
_AGAIN = "when that is mended, raise `rerun` in the experiment and deploy again"
_RETRYING = Config(retries={"mode": "standard", "max_attempts": 8})


def main(argv: Sequence[str]) -> int:
    """Stage the model once, and return the exit code."""
    arguments = _parser().parse_args(argv)
    end_at_sigterm()
    try:
        _stage(arguments)
    except DraftworthError as error:
        log_line(str(error))
        return error.exit_code
    except BotoCoreError as error:  # no region, no credentials
        log_line(f"AWS cannot be used: {error}")
        return DraftworthError.exit_code
    return 0


def _stage(arguments: argparse.Namespace) -> None:
    connections = PARALLEL_FILES * (PARTS_AT_ONCE + 1)
    s3 = boto3.client("s3", config=_RETRYING.merge(Config(max_pool_connections=connections)))
    model, revision = arguments.model, arguments.revision
    staging = Staging(
        open_hub=lambda: _hub(model, arguments.token_secret),
        store=Store(client=s3, bucket=arguments.bucket, model=model, revision=revision),
        scratch=ScratchSpace(arguments.scratch, arguments.scratch_gib * 2**30),
        parallel_files=PARALLEL_FILES,
        progress=log_line,
        allow_pickle=arguments.pickle_weights == ALLOWED,
    )
    try:
        staging.run()
    except UserInputError as error:
        _give_up(staging.store, str(error))
        raise
    except Exception as error:
        if int(os.environ.get(FAILURES_VARIABLE) or 0) >= arguments.retries:
            text = str(error) if isinstance(error, DraftworthError) else repr(error)
            _give_up(staging.store, f"{text}; {arguments.retries + 1} tries failed")
        raise


def _give_up(store: Store, reason: str) -> None:
    try:
        if store.ready() is None:
            store.put_failed(f"{reason}; {_AGAIN}")
    except (DraftworthError, BotoCoreError) as error:
        log_line(f"the failure cannot be reported: {error}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m pods.checkpoint_stager", description=__doc__)
    parser.add_argument("--model", required=True, help="hub id, OWNER/NAME")
    parser.add_argument("--revision", required=True, help="branch, tag or commit")
    parser.add_argument("--bucket", required=True, help="checkpoints bucket")
    parser.add_argument("--scratch", required=True, type=Path, help="folder for files on their way")
    parser.add_argument(
        "--scratch-gib",
        type=int,
        required=True,
        help="room in it, GiB: so much is downloaded and not yet uploaded at once",
    )
    parser.add_argument(
        "--pickle-weights",
        choices=("refused", ALLOWED),
        default="refused",
        help="weights that can run code when they are loaded (%(default)s)",
    )
    parser.add_argument("--retries", type=int, required=True, help="pods started for failed ones")
    parser.add_argument("--token-secret", help="NAME of the Secrets Manager secret with the token")
    return parser


def _hub(model: str, secret: str | None) -> Hub:
    """Return a client of the hub at the address in `HF_ENDPOINT`, or else of huggingface.co.

    secret: the name of the secret with the hub's token; None: the client has no token.
    """
    if secret is None:
        # False: otherwise the client would use a token in the user's home folder.
        return Hub(HfApi(token=False), model)
    token = read_token(boto3.client("secretsmanager", config=_RETRYING), secret)
    hide_secret("Hugging Face token", token)
    return Hub(HfApi(token=token), model, token_source=f"secret {secret}")
