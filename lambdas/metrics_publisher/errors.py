"""Errors of a message. SQS delivers it again; after enough tries it is a dead letter."""


class PublishError(Exception):
    """The message is not done; the text is logged."""

    retry_helps = False


class UnusableError(PublishError):
    """The message, its file or the age of its figures cannot be used."""


class NotNowError(PublishError):
    """The next delivery of the message can succeed."""

    retry_helps = True


class ClaimedError(NotNowError):
    """Another delivery publishes the same file at this moment."""
