"""The reasons why a message's file is not published, and whether another delivery can succeed."""

import tomllib
from pathlib import Path

_REASONS = tomllib.loads(Path(__file__).with_name("reasons.toml").read_text(encoding="utf-8"))


class PublishError(Exception):
    """The file that a message names was not published.

    reason: the key of the error's text in `reasons.toml`. values: what fills the text's
        placeholders.
    retry_helps: whether another delivery can succeed. SQS delivers the message again in either
        case; after `maxReceiveCount` tries it is a dead letter.
    """

    retry_helps = False

    def __init__(self, reason: str, **values: object) -> None:
        super().__init__(_REASONS[reason].format(**values))


class UnusableError(PublishError):
    """The message or file cannot be used, or its figures are too old or too new for CloudWatch."""


class NotNowError(PublishError):
    """The next delivery of the message can succeed."""

    retry_helps = True


class ClaimedError(NotNowError):
    """Another delivery publishes the same file at this moment."""
