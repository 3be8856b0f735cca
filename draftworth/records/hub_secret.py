"""The Hugging Face token in the text of a secret."""

from draftworth.records.codec import RecordError, load_object


def token_in(text: str) -> str:
    """Return the token that a secret holds, alone or as the only value of a JSON object.

    The AWS console writes such an object. Empty: the text holds no token that an HTTP header may
    have, which is printable ASCII without spaces.
    """
    token = _only_value(text.strip())
    return token if token.isascii() and token.isprintable() and " " not in token else ""


def _only_value(text: str) -> str:
    if not text.startswith("{"):
        return text
    try:
        values = list(load_object(text).values())
    except RecordError:
        return ""
    return values[0].strip() if len(values) == 1 and isinstance(values[0], str) else ""
