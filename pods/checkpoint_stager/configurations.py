"""What models are without their weights: into folders, for who compiles their graphs.

Compiling reads configurations only, so it needs no staged checkpoint and can begin at once. Each
folder gets the marker that a staged checkpoint has: where a branch moved between the two, their
commits differ, and who loads the graphs sees it.

Exit codes: 0 every folder is whole, 1 something failed that may not fail again, 2 the input is
wrong.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from botocore.exceptions import BotoCoreError

from draftworth.errors import DraftworthError, UserInputError
from draftworth.records.codec import RecordError, dump_record
from draftworth.records.files import StoredFile, replace_file
from draftworth.records.staging import READY_MARKER, ReadyModel
from draftworth.records.tokenizers import tokenizer_fingerprint
from pods.checkpoint_stager.files import HubFile, is_weights, served_files
from pods.checkpoint_stager.hub import Hub
from pods.checkpoint_stager.program import open_hub
from pods.checkpoint_stager.stager import downloaded
from pods.log import log_line
from pods.termination import end_at_sigterm


def main(argv: Sequence[str]) -> int:
    """Fill each folder once."""
    arguments = _parser().parse_args(argv)
    end_at_sigterm()
    try:
        for model, revision, folder in arguments.checkpoint:
            hub = open_hub(model, arguments.token_secret, arguments.region)
            log_line(_told(fetch(hub, revision, Path(folder), progress=log_line)))
    except DraftworthError as error:
        log_line(str(error))
        return error.exit_code
    except (BotoCoreError, OSError) as error:  # no region, no credentials; no room
        log_line(f"the configuration cannot be had: {error}")
        return DraftworthError.exit_code
    return 0


def fetch(hub: Hub, revision: str, into: Path, *, progress: Callable[[str], None]) -> ReadyModel:
    """The served files of a model but its weights, below `into`; the marker last.

    Raises:
        UserInputError: there is no such model, it may not be read, or serving cannot use it.
        DraftworthError: the hub did not answer as it should.
        OSError: the folder cannot be written.
    """
    started_seconds = time.monotonic()
    checkpoint = hub.describe(revision)
    # However its weights are kept: none is read here, and staging refuses what must not be.
    served = served_files(checkpoint.files, f"{hub.model} at {revision}", allow_pickle=True)
    small = [file for file in served if not is_weights(file.path)]
    into.mkdir(parents=True, exist_ok=True)
    files = [_fetched(hub, file, checkpoint.commit, into, progress) for file in small]
    ready = ReadyModel(
        model=hub.model,
        revision=revision,
        commit=checkpoint.commit,
        files=tuple(files),
        tokenizer_fingerprint=_fingerprint(into),
        staged_at_unix_s=time.time(),
        staging_seconds=time.monotonic() - started_seconds,
    )
    replace_file(into / READY_MARKER, dump_record(ready))
    return ready


def _told(ready: ReadyModel) -> str:
    return f"{ready.model} at {ready.revision}: commit {ready.commit}, {len(ready.files)} files"


def _fetched(
    hub: Hub, file: HubFile, commit: str, into: Path, progress: Callable[[str], None]
) -> StoredFile:
    with tempfile.TemporaryDirectory(prefix=".fetching-", dir=into) as folder:
        path, sha256 = downloaded(hub, file, commit, Path(folder), progress=progress)
        there = into / file.path
        there.parent.mkdir(parents=True, exist_ok=True)
        path.replace(there)
    return StoredFile(path=file.path, size_bytes=file.size_bytes, sha256=sha256)


def _fingerprint(folder: Path) -> str | None:
    try:
        return tokenizer_fingerprint(folder)
    except RecordError as error:
        raise UserInputError(
            f"{folder}: {error}; next: name another revision or model in the experiment"
        ) from error


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m pods.checkpoint_stager.configurations", description=__doc__
    )
    parser.add_argument(
        "--checkpoint",
        required=True,
        action="append",
        nargs=3,
        metavar=("MODEL", "REVISION", "FOLDER"),
        help="hub id, OWNER/NAME; its branch, tag or commit; the folder to fill",
    )
    parser.add_argument("--token-secret", help="NAME of the Secrets Manager secret with the token")
    parser.add_argument("--region", help="of that secret")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
