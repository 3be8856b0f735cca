"""The canary Job's program tests a variant's mounts and permissions before accelerators start.

First it waits until the checkpoints are complete in the bucket. It asks S3 itself, because a mount
may show old listings. A step that fails is repeated for some minutes, because AWS refuses a role
that was just created. Each report replaces the variant's previous report in the results bucket
(`draftworth/records/deployment.py`).

Exit codes: 0 all was read and written, 1 a step failed; the report says which.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from draftworth.errors import DraftworthError
from draftworth.image_registry import NoSuchImageError, UnansweredError, digest_of
from draftworth.records import checkpoints, codec, graph_manifests
from draftworth.untrusted import MIB, TooLargeError, open_file, read_file
from pods.canary.attempts import RETRIES, Attempts, add_options, exit_code
from pods.log import end_at_sigterm

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

ROLES = ("target", "draft")
WAIT_HOURS = 24
PATIENCE_SECONDS = 120
CONFIGURATION = "config.json"
# The bytes to read at each end of the largest file: the mount then requests both ends from S3.
_PROBE_BYTES = MIB
_LISTED = 1000
_NEXT = (
    "next: compare the pod's events, the log of the S3 CSI driver and the Pod Identity "
    "association of the variant's service account, then deploy again with a raised `rerun`"
)
_NEXT_IMAGE = (
    "no server could start; next: correct `release` or aws.pins.serving_image_digest, then deploy "
    "again"
)
# Errors that the next minutes do not mend; their texts say what to do.
FINAL = (graph_manifests.RefusedGraphsError, NoSuchImageError)


@dataclass(frozen=True, kw_only=True)
class MountedModel:
    """A folder where a checkpoint is mounted, with the model and revision that it must have."""

    folder: Path
    model: str
    revision: str

    def read(self, role: str) -> str:
        folder, where = self.folder, f"the mount {self.folder} ({role})"
        try:
            ready = codec.load_record(
                checkpoints.ReadyModel, read_file(folder / checkpoints.READY_MARKER)
            )
            if (ready.model, ready.revision) != (self.model, self.revision):
                raise DraftworthError(
                    f"{where} shows {ready.model} at {ready.revision}, asked for "
                    f"{self.model} at {self.revision}: it is mounted with another prefix"
                )
            read_file(folder / CONFIGURATION)
            largest = max(ready.files, key=lambda file: file.size_bytes)
            _probe(folder, largest)
        except (OSError, codec.RecordError, TooLargeError) as error:
            raise DraftworthError(f"{where} cannot be read: {error}") from error
        return (
            f"{folder}: {ready.model} at {ready.revision}, commit {ready.commit[:12]}; "
            f"{CONFIGURATION} and both ends of {largest.path}"
        )


def find_image(name: str) -> str:
    """Ask the registry for the serving image, and return a line about it for the log.

    The first pod that needs the image is on an accelerator node, where a missing image would be
    paid for. It raises NoSuchImageError if the registry lacks the image. If the registry does not
    answer, nothing is known, and the node's pull may succeed: nodes have credentials.
    """
    try:
        return f"{name}: {digest_of(name)}"
    except NoSuchImageError as error:
        raise NoSuchImageError(f"{error}; {_NEXT_IMAGE}") from error
    except UnansweredError as error:
        return f"whether the serving image exists is not known: {error}"


def read_artifacts(
    folder: Path, key: str, inputs: Mapping[str, Any], models: Mapping[str, MountedModel]
) -> str:
    """Read the artifacts bucket, mounted at `folder`, and return a line about it for the log.

    It raises RefusedGraphsError if the bucket has graphs that the server would refuse, and
    DraftworthError if the mount cannot be read.
    key, inputs: the artifact key of the graphs that the server needs, and the values whose hash the
        key is.
    models: the mounted checkpoints, by role (`target` or `draft`).
    """
    try:
        with os.scandir(folder) as entries:
            count = len([*islice(entries, _LISTED)])
        commits = graph_manifests.mounted_commits(
            {role: model.folder for role, model in models.items()}
        )
        manifest = graph_manifests.checked_manifest(folder, key, inputs, commits)
    except OSError as error:
        raise DraftworthError(
            f"the mount {folder} (compiled graphs) cannot be read: {error}"
        ) from error
    graphs = graph_manifests.manifest_key(key) if manifest else "no graphs of this variant yet"
    return f"{folder}: {count} folders; {graphs}"


def _probe(folder: Path, file: checkpoints.StoredFile) -> None:
    """Check a file's size and read both its ends; raise OSError if a byte is missing."""
    with open_file(folder / file.path) as opened:
        size_bytes = os.fstat(opened.fileno()).st_size
        if size_bytes != file.size_bytes:
            raise OSError(f"{file.path}: {file.size_bytes} bytes were staged, {size_bytes} there")
        expected = min(_PROBE_BYTES, size_bytes)
        for start in (0, size_bytes - expected):
            opened.seek(start)
            if len(opened.read(expected)) != expected:
                raise OSError(f"{file.path}: ended early at byte {start}")


@dataclass(frozen=True, kw_only=True)
class Canary:
    """Tests the mounts and permissions of one variant's server, once, and reports the result.

    client: looks for checkpoints. arguments: the parsed command line.
    models: the mounted checkpoints, by role (`target` or `draft`).
    """

    client: S3Client
    arguments: argparse.Namespace
    models: Mapping[str, MountedModel]
    attempts: Attempts

    def run(self) -> bool:
        """Test the mounts and write a report; return whether all was read.

        It raises boto3's error if the report cannot be written.
        """
        try:
            self._wait_until_staged()
            self.attempts.patiently(self._read, final=FINAL)
        except (BotoCoreError, ClientError, DraftworthError) as error:
            self.attempts.say(f"failed: {error}")
            reason = f"{error}"
            if not isinstance(error, FINAL):
                reason = f"{reason}; {_NEXT}"
            self.attempts.report(ok=False, text=reason)
            return False
        self.attempts.report(
            ok=True, text="checkpoints and artifacts were read, the results reached"
        )
        return True

    def _wait_until_staged(self) -> None:
        wait_seconds = self.arguments.wait_seconds
        give_up_at = time.monotonic() + wait_seconds
        for mounted in self.models.values():
            key = checkpoints.ready_key(mounted.model, mounted.revision)
            self.attempts.say(f"waiting for {key}")
            while not self.attempts.patiently(partial(self._is_there, key)):
                if time.monotonic() >= give_up_at:
                    raise DraftworthError(f"{key} was not staged within {wait_seconds:g} s")
                time.sleep(self.arguments.poll_seconds)

    def _is_there(self, key: str) -> bool:
        try:
            self.client.head_object(Bucket=self.arguments.checkpoints, Key=key)
        except ClientError as error:
            if error.response.get("Error", {}).get("Code") in ("404", "NoSuchKey", "NotFound"):
                return False
            raise
        return True

    def _read(self) -> None:
        say = self.attempts.say
        say(find_image(self.arguments.serving_image))
        for role, mounted in self.models.items():
            say(mounted.read(role))
        key, inputs = os.environ["ARTIFACT_KEY"], json.loads(os.environ["ARTIFACT_INPUTS"])
        say(read_artifacts(self.arguments.artifacts_folder, key, inputs, self.models))


def main(argv: Sequence[str]) -> int:
    """Test the mounts and permissions, and return the exit code."""
    arguments = _parser().parse_args(argv)
    end_at_sigterm()
    models = {role: _mounted(value) for role in ROLES if (value := getattr(arguments, role))}
    client = boto3.client("s3", config=RETRIES)
    attempts = Attempts(client=client, arguments=arguments, name=arguments.variant)
    canary = Canary(client=client, arguments=arguments, models=models, attempts=attempts)
    return exit_code(canary.run)


def _mounted(value: str) -> MountedModel:
    folder, _, checkpoint = value.partition("=")
    model, _, revision = checkpoint.partition("@")
    return MountedModel(folder=Path(folder), model=model, revision=revision)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m pods.canary", description=__doc__)
    parser.add_argument("--variant", required=True, help="the variant whose server this tests")
    parser.add_argument("--serving-image", required=True, help="the image of the variant's server")
    parser.add_argument("--checkpoints", required=True, help="the bucket with the checkpoints")
    parser.add_argument(
        "--artifacts-folder", required=True, type=Path, help="where the artifacts bucket is mounted"
    )
    for role in ROLES:
        parser.add_argument(
            f"--{role}",
            required=role == ROLES[0],
            metavar="FOLDER=MODEL@REVISION",
            help="where the checkpoint is mounted, and what it must be",
        )
    parser.add_argument(
        "--wait-seconds",
        type=float,
        default=WAIT_HOURS * 3600,
        help="the longest wait for staged checkpoints (%(default)s)",
    )
    add_options(parser, patience_seconds=PATIENCE_SECONDS)
    return parser
