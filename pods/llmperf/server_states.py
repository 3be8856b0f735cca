"""What the servers say of themselves in the results bucket, for who waits for them."""

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
    """Reads states, one at a time; a failure is logged once and ends nothing.

    Of an object that is not there S3 says "denied": this role may not list the folder.
    """

    client: S3Client
    bucket: str
    log: Callable[[str], None]
    _told: set[str] = field(default_factory=set)

    def read(self, server: str) -> ServerState | None:
        """A server's state; None where there is none that can be read, or it is another's."""
        key = server_state_key(server)
        try:
            body = self.client.get_object(Bucket=self.bucket, Key=key)["Body"]
            state = load_record(ServerState, read_at_most(body))
        except (RecordError, TooLargeError) as error:
            self._tell(key, error)
            return None
        except Exception as error:  # noqa: BLE001 (whatever it was, the servers may still come)
            if _code(error) not in ("NoSuchKey", "AccessDenied"):
                self._tell(key, error)
            return None
        return state if state.server == server else None

    def _tell(self, key: str, error: Exception) -> None:
        if key not in self._told:
            self._told.add(key)
            self.log(f"s3://{self.bucket}/{key}: cannot be read: {error}")


def _code(error: Exception) -> str:
    response = getattr(error, "response", {})
    return str(response.get("Error", {}).get("Code", ""))
