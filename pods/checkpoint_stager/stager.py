"""Stages one model: downloads, checks and uploads each file, and writes `_READY.json` last.

The process may end at any point without warning. The bucket then has complete files, perhaps a
multipart upload that S3 deletes after a day, and no `_READY.json`. The next try stages the same
commit and keeps the complete files.
"""

import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from draftworth.errors import UserInputError
from draftworth.records import checkpoints
from draftworth.records.codec import RecordError
from draftworth.untrusted import MIB, one_line
from pods.checkpoint_stager import model_files
from pods.checkpoint_stager.checkpoints_bucket import Store
from pods.checkpoint_stager.hub import Checkpoint, Hub, NoSuchRevisionError

# How often a file is downloaded at most, if its size or its hash is wrong.
MAX_DOWNLOADS_PER_FILE = 3
_GIB = 2**30


class ScratchSpace:
    """A folder for downloaded files until they are uploaded: threads share its `size_bytes`."""

    def __init__(self, folder: Path, size_bytes: int) -> None:
        self._folder = folder
        self.size_bytes = size_bytes
        self._free_bytes = size_bytes
        self._changed = threading.Condition()

    @contextmanager
    def room_for(self, size_bytes: int) -> Iterator[Path]:
        """Wait until `size_bytes` are free, reserve them, and yield an empty, temporary folder."""
        with self._changed:
            self._changed.wait_for(lambda: self._free_bytes >= size_bytes)
            self._free_bytes -= size_bytes
        try:
            with tempfile.TemporaryDirectory(
                prefix="staging-", dir=self._folder, ignore_cleanup_errors=True
            ) as folder:
                yield Path(folder)
        finally:
            with self._changed:
                self._free_bytes += size_bytes
                self._changed.notify_all()


@dataclass(frozen=True, kw_only=True)
class Staging:
    """Copies one model from Hugging Face into the checkpoints bucket.

    open_hub: makes the client of the hub. store: the model's folder in the bucket.
    parallel_files: how many files are copied at once. progress: writes a line to the log.
    allow_pickle: whether weights may be Python pickles, which can run code.
    """

    open_hub: Callable[[], Hub]
    store: Store
    scratch: ScratchSpace
    parallel_files: int
    progress: Callable[[str], None]
    allow_pickle: bool = False

    @cached_property
    def hub(self) -> Hub:
        """The hub's client, made at first use: a model that is already staged needs no client."""
        return self.open_hub()

    def run(self) -> checkpoints.ReadyModel:
        """Copy the files that the bucket lacks, and return the content of `_READY.json`.

        Another try may succeed after any error except UserInputError.
        """
        started_seconds = time.monotonic()
        ready = self.store.ready()
        if ready is not None:
            if not self.allow_pickle:
                model_files.refuse_pickle((file.path for file in ready.files), self.store.name)
            self.progress(f"{self.store.name} is READY at commit {ready.commit}: nothing to do")
            return ready
        checkpoint = self._checkpoint()
        staged = self._stage_all(self._files_that_fit(checkpoint), checkpoint.commit)
        ready = checkpoints.ReadyModel(
            model=self.store.model,
            revision=self.store.revision,
            commit=checkpoint.commit,
            files=tuple(staged),
            tokenizer_fingerprint=self._fingerprint(staged),
            staged_at_unix_s=time.time(),
            staging_seconds=time.monotonic() - started_seconds,
        )
        self.store.put_ready(ready)
        rate = ready.size_bytes / MIB / max(ready.staging_seconds, 0.001)
        self.progress(
            f"{self.store.name} is READY: {ready.size_bytes / _GIB:.1f} GiB in "
            f"{ready.staging_seconds:.0f} s ({rate:.0f} MiB/s), "
            f"vocabulary {(ready.tokenizer_fingerprint or 'none')[:12]}"
        )
        return ready

    def _checkpoint(self) -> Checkpoint:
        """Return the model at the commit where its staging began, which the bucket records.

        The branch may have moved since then.
        """
        earlier = self.store.planned_commit()
        checkpoint = self._planned(earlier) if earlier else self.hub.describe(self.store.revision)
        commit = earlier or self.store.plan(checkpoint.commit)
        if commit != checkpoint.commit:
            checkpoint = self.hub.describe(commit)
        self.progress(f"{self.store.name}: {'resuming' if earlier else 'staging'} commit {commit}")
        return checkpoint

    def _planned(self, commit: str) -> Checkpoint:
        try:
            return self.hub.describe(commit)
        except NoSuchRevisionError as error:
            # The experiment's revision may be right, and only the recorded commit is gone: the hub
            # deletes commits when a branch is rewritten.
            raise UserInputError(
                f"{error}; that commit is where staging of {self.store.name} began: where it is "
                f"another one by now, delete {self.store.address(checkpoints.PLAN_MARKER)} and "
                f"stage again"
            ) from error

    def _files_that_fit(self, checkpoint: Checkpoint) -> Sequence[model_files.HubFile]:
        wanted = model_files.served_files(
            checkpoint.files, self.store.name, allow_pickle=self.allow_pickle
        )
        total_gib = sum(file.size_bytes for file in wanted) / _GIB
        skipped = len(checkpoint.files) - len(wanted)
        self.progress(f"{len(wanted)} files, {total_gib:.1f} GiB; {skipped} that serving needs not")
        if markers := sorted(
            f.path for f in checkpoint.files if checkpoints.has_marker_name(f.path)
        ):
            why = "not staged, because their names are those of the stager's own markers"
            self.progress(one_line(f"{why}: {', '.join(markers)}"))
        largest = max(wanted, key=lambda file: file.size_bytes)
        if largest.size_bytes > self.scratch.size_bytes:
            raise UserInputError(
                f"{self.store.name}: {largest.path} has {largest.size_bytes / _GIB:.1f} GiB and "
                f"the scratch space is {self.scratch.size_bytes / _GIB:.1f} GiB; allowed: files "
                "that fit; next: a revision in smaller files, or more scratch (--scratch-gib, and "
                "the node's disk with it)"
            )
        return wanted

    def _stage_all(
        self, wanted: Sequence[model_files.HubFile], commit: str
    ) -> list[checkpoints.StoredFile]:
        """Stage files in parallel, the largest first, so that no large file is left for the end."""
        order = sorted(wanted, key=lambda file: file.size_bytes, reverse=True)
        with ThreadPoolExecutor(self.parallel_files, thread_name_prefix="stage") as pool:
            # If one file fails, `map` cancels the files that have not begun.
            staged = list(pool.map(lambda file: self._stage(file, commit), order))
        return sorted(staged, key=lambda file: file.path)

    def _stage(self, file: model_files.HubFile, commit: str) -> checkpoints.StoredFile:
        there = self.store.staged(file)
        if there is not None:
            self.progress(f"{file.path}: there already")
            return there
        started_seconds = time.monotonic()
        with self.scratch.room_for(file.size_bytes) as folder:
            path, sha256 = self._downloaded(file, commit, folder)
            staged = self.store.upload(path, file, sha256)
        seconds = time.monotonic() - started_seconds
        self.progress(f"{file.path}: {file.size_bytes / MIB:.1f} MiB in {seconds:.0f} s")
        return staged

    def _downloaded(self, file: model_files.HubFile, commit: str, folder: Path) -> tuple[Path, str]:
        for attempt in range(1, MAX_DOWNLOADS_PER_FILE + 1):
            # A new folder for each try: the client does not download a file that exists there.
            target = folder / str(attempt)
            path = self.hub.download(file.path, commit, target, size_bytes=file.size_bytes)
            try:
                return path, model_files.checked_sha256(path, file)
            except model_files.CorruptFileError as error:
                path.unlink()
                if attempt == MAX_DOWNLOADS_PER_FILE:
                    raise model_files.CorruptFileError(
                        f"{self.store.name}: {error}, {MAX_DOWNLOADS_PER_FILE} times; it is not "
                        "staged"
                    ) from error
                self.progress(f"{error}; once more")
        raise AssertionError  # the last try returns or raises

    def _fingerprint(self, staged: Sequence[checkpoints.StoredFile]) -> str | None:
        """Return the fingerprint of the tokenizer in the bucket; None: the model has none."""
        # Read the tokenizer from the bucket: if an earlier pod has staged it, this pod has not
        # downloaded it.
        wanted = [file for file in staged if file.path in checkpoints.TOKENIZER_FILES]
        with self.scratch.room_for(sum(file.size_bytes for file in wanted)) as folder:
            for file in wanted:
                self.store.download(file.path, folder / file.path)
            try:
                return checkpoints.tokenizer_fingerprint(folder)
            except RecordError as error:
                raise UserInputError(
                    f"{self.store.name}: {error}; the tokenizers of target and draft cannot be "
                    "compared; next: name another revision or model"
                ) from error
