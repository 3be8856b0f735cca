"""Reads requests to OpenAI-compatible chat servers, from OpenAI's files and SageMaker's capture.

Sources: OpenAI, batch input and fine-tuning files; Amazon SageMaker, data capture from real-time
endpoints.
"""

import base64
from dataclasses import replace
from typing import Any

from draftworth.importing.chat_log import Logged, logged
from draftworth.importing.log_form import LogForm, Value
from draftworth.importing.provenance import logged_time, model_name
from draftworth.records.chat import NotSendableError, wrong_form
from draftworth.records.codec import RecordError, load_value


def openai_jsonl(value: Value) -> Logged:
    """Read a line of OpenAI's batch input or fine-tuning files, or of a log with responses."""
    request = _body(value.get("body") or value.get("request") or value)
    entry = logged(request, _body(value.get("response", value.get("completion"))))
    return replace(entry, model=entry.model or model_name(value.get("model")))


def sagemaker(value: Value) -> Logged:
    """Read a line of SageMaker's data capture: a request to an endpoint and its response.

    An unreadable response counts as not logged; an unreadable request raises NotSendableError.
    """
    captured = value.get("captureData")
    if not isinstance(captured, dict) or "endpointInput" not in captured:
        raise NotSendableError("without captureData", "no captureData.endpointInput")
    request = _payload(captured["endpointInput"])
    try:
        response = _payload(captured.get("endpointOutput"))
    except NotSendableError:  # the request is useful without its answer
        response = None
    event = value.get("eventMetadata")
    time = event.get("inferenceTime") if isinstance(event, dict) else None
    return replace(logged(request, response), time=logged_time(time))


def _body(value: object) -> object:
    inner = value.get("body") if isinstance(value, dict) else None
    return value if inner is None else inner


def _payload(captured: object) -> Any:
    if not isinstance(captured, dict):
        raise wrong_form("captureData: a part that is not an object")
    data, encoding = captured.get("data"), captured.get("encoding")
    try:
        if isinstance(data, str) and encoding == "BASE64":
            return load_value(base64.b64decode(data, validate=True))
        return load_value(data if isinstance(data, str) and encoding == "JSON" else "")
    except (RecordError, ValueError) as error:
        raise NotSendableError("with data that is not JSON", "the data cannot be read") from error


OPENAI_JSONL = LogForm(read=openai_jsonl)
SAGEMAKER = LogForm(read=sagemaker)
