"""Reads from S3 the states that servers reported."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from draftworth.records.codec import RecordError, load_record
from draftworth.records.servers import ServerState, server_state_key
from draftworth.untrusted import TooLargeError, read_at_most

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


@dataclass
class ServerStates:
    """Reads the states that servers reported; a failed read is logged once per server.

    S3 answers `AccessDenied` for a missing object, because the Job's role may not list the folder.
    """

    client: S3Client
    bucket: str
    log: Callable[[str], None]
    _logged_keys: set[str] = field(default_factory=set)

    def read(self, server: str) -> ServerState | None:
        """Return a server's state; None if it is missing, unreadable or names another server."""
        key = server_state_key(server)
        try:
            body = self.client.get_object(Bucket=self.bucket, Key=key)["Body"]
            state = load_record(ServerState, read_at_most(body))
        except (RecordError, TooLargeError) as error:
            self._log_once(key, error)
            return None
        except Exception as error:  # noqa: BLE001 (the servers may become ready nevertheless)
            answer = getattr(error, "response", {})
            if answer.get("Error", {}).get("Code") not in ("NoSuchKey", "AccessDenied"):
                self._log_once(key, error)
            return None
        return state if state.server == server else None

    def _log_once(self, key: str, error: Exception) -> None:
        if key not in self._logged_keys:
            self._logged_keys.add(key)
            self.log(f"s3://{self.bucket}/{key}: cannot be read: {error}")
