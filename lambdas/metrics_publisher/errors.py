"""Why a message is not done. SQS delivers it again; after enough tries it is a dead letter."""

from __future__ import annotations


class PublishError(Exception):
    """The message is not done; the text is the reason that goes to the log."""

    retry_helps = False


class UnusableError(PublishError):
    """The message, the file it names or the age of its figures is at fault."""


class NotNowError(PublishError):
    """The next delivery of the message can do it."""

    retry_helps = True


class ClaimedError(NotNowError):
    """Another delivery of the same file is being published at this moment."""
