"""Lists and downloads the files of a model at one commit, with the Hugging Face hub's own client.

Downloads use plain HTTP, not the hub's chunk store Xet (`HF_HUB_DISABLE_XET=1` in the Job): several
plain downloads in parallel also use the node's whole bandwidth, and they need a bounded amount of
memory and no cache.
"""

import errno
import re
import tomllib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import monotonic, sleep
from typing import TypeGuard, TypeVar

import httpx2
from huggingface_hub import HfApi, constants, errors
from huggingface_hub.hf_api import RepoSibling

from draftworth.errors import DraftworthError, UserInputError
from draftworth.untrusted import one_line
from pods.checkpoint_stager.download_limits import AnswerError, limited
from pods.checkpoint_stager.model_files import HubFile

# Waits between tries, besides those of the hub's client. If the hub is down longer, the Job starts
# another pod.
RETRY_WAITS_SECONDS = (2.0, 10.0, 30.0)
_TRANSIENT_STATUS = frozenset((408, 425, 429, 500, 502, 503, 504))
_OUR_DISK = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EIO))
# Errors that the hub's client raises or passes on, if the hub's answer cannot be used.
_NO_ANSWER = (
    httpx2.HTTPError,
    OSError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)
_GIT_ID = re.compile(r"[0-9a-f]{40}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_MAX_FILE_BYTES = 2**50
# The query of a URL of the hub's storage has a signature with which anybody can read the file.
_QUERY = re.compile(r"\?[^\s'\"]*")
_REFUSALS = tomllib.loads(Path(__file__).with_name("refusals.toml").read_text(encoding="utf-8"))

T = TypeVar("T")


class HubUnreachableError(DraftworthError):
    """The hub or the network failed; another try may succeed."""


class NoSuchRevisionError(UserInputError):
    """The hub has the model, but not this branch, tag or commit of it."""


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """A model's files in the hub at one commit."""

    commit: str
    files: tuple[HubFile, ...]


@dataclass
class Hub:
    """A client of the Hugging Face hub for one model.

    Each method raises UserInputError if the hub refuses the model, revision or token, and
    HubUnreachableError if another try may succeed.

    token_source: where the token is stored, for messages; empty: there is no token.
    clock: returns seconds, for the time limit of an answer.
    """

    api: HfApi
    model: str
    token_source: str = ""
    clock: Callable[[], float] = monotonic

    def describe(self, revision: str) -> Checkpoint:
        """Return the commit that a revision stands for, and the files of that commit."""
        describe = partial(
            self.api.model_info,
            self.model,
            revision=revision,
            files_metadata=True,
            timeout=constants.HF_HUB_ETAG_TIMEOUT,
        )
        info = self._with_retries(describe, revision)
        if not _is_id(info.sha, _GIT_ID) or not info.siblings:
            raise HubUnreachableError(f"{self.model} at {revision}: the hub named no commit")
        files = tuple(self._file(sibling) for sibling in info.siblings)
        # A commit has each path once, so a list with the same path twice is wrong.
        path, count = Counter(file.path for file in files).most_common(1)[0]
        if count > 1:
            raise HubUnreachableError(
                f"{self.model} at {revision}: the hub lists a file twice: {one_line(path)}; next: "
                "try again later, or name another revision"
            )
        return Checkpoint(commit=info.sha, files=files)

    def download(self, path: str, commit: str, folder: Path, *, size_bytes: int) -> Path:
        """Download one file into an empty folder, without a check of its content.

        size_bytes: the size in the hub's list; a much larger file is not read to its end.
        """
        at = {"revision": commit, "local_dir": folder}
        download = partial(self.api.hf_hub_download, self.model, path, **at)
        return Path(self._with_retries(download, commit, path=path, size_bytes=size_bytes))

    def _file(self, sibling: RepoSibling) -> HubFile:
        path, size, blob_id = sibling.rfilename, sibling.size, sibling.blob_id
        sha256 = sibling.lfs.sha256 if sibling.lfs else None
        if (
            isinstance(path, str)
            and isinstance(size, int)
            and 0 <= size <= _MAX_FILE_BYTES
            and _is_id(blob_id, _GIT_ID)
            and (sha256 is None or _is_id(sha256, _SHA256))
        ):
            return HubFile(path=path, size_bytes=size, sha256=sha256, git_sha1=blob_id)
        raise HubUnreachableError(
            f"{self.model}: the hub gave no size or hash for {one_line(str(path))}, so a copy of "
            "it could not be checked"
        )

    def _with_retries(
        self,
        request: Callable[[], T],
        revision: str,
        *,
        path: str = "its files",
        size_bytes: int = 0,
    ) -> T:
        for wait_seconds in (*RETRY_WAITS_SECONDS, None):
            try:
                with limited(size_bytes, self.clock):
                    return request()
            except AnswerError as error:
                raise HubUnreachableError(
                    f"{self.model} at {revision}: {path}: {error}; next: look at what stands "
                    "between the hub and this network, or name another revision"
                ) from error
            except errors.HFValidationError as error:
                raise UserInputError(f"{self.model} at {revision}: {_first_line(error)}") from error
            except _NO_ANSWER as error:
                cause = _cause(error)
                if isinstance(cause, OSError) and cause.errno in _OUR_DISK:
                    raise DraftworthError(f"scratch space: {cause}") from error
                if isinstance(cause, errors.HfHubHTTPError) and self._is_final(cause):
                    raise self._refusal(cause, revision) from error
                if wait_seconds is None:
                    raise HubUnreachableError(
                        f"{self.model} at {revision}: the hub did not answer as it should, "
                        f"{len(RETRY_WAITS_SECONDS) + 1} times: {_first_line(cause)}"
                    ) from error
                sleep(wait_seconds)
        raise AssertionError  # the last try returns or raises

    def _is_final(self, error: errors.HfHubHTTPError) -> bool:
        # Refusals by other hosts are not final: the hub's storage refuses URLs that have expired.
        from_hub = str(error.response.url).startswith(f"{self.api.endpoint}/")
        return from_hub and error.response.status_code not in _TRANSIENT_STATUS

    def _refusal(self, error: errors.HfHubHTTPError, revision: str) -> DraftworthError:
        where, status = f"{self.model} at {revision}", error.response.status_code
        is_missing = isinstance(error, errors.RepositoryNotFoundError)
        if isinstance(error, errors.RevisionNotFoundError):
            return NoSuchRevisionError(f"{where}: {_REFUSALS['no_revision']}")
        if isinstance(error, errors.GatedRepoError) or status == 403:
            why = "gated" if self.token_source else "gated_without_token"
        elif status == 401 and self.token_source and not is_missing:
            why = "refused_token"
        elif is_missing or status in (401, 404):
            why = "missing" if self.token_source else "missing_without_token"
        else:
            return DraftworthError(f"{where}: the hub answered {status}: {_first_line(error)}")
        page = f"{self.api.endpoint}/{self.model}"
        words = {"token": self.token_source, "error": _first_line(error), "page": page}
        return UserInputError(f"{where}: {_REFUSALS[why].format(**words)}")


def _is_id(value: object, form: re.Pattern[str]) -> TypeGuard[str]:
    return isinstance(value, str) and form.fullmatch(value) is not None


def _cause(error: BaseException) -> BaseException:
    while not isinstance(error, errors.HfHubHTTPError) and error.__cause__ is not None:
        error = error.__cause__
    return error


def _first_line(error: BaseException) -> str:
    message = getattr(error, "server_message", None) or str(error) or type(error).__name__
    line = next((line for line in str(message).splitlines() if line.strip()), type(error).__name__)
    return _QUERY.sub("", one_line(line))
