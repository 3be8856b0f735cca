"""Reads the traces of LangSmith and Langfuse, one run or observation at a time.

Sources: LangSmith, run data format (run_type, inputs, outputs, extra.metadata.ls_model_name,
extra.invocation_params) with messages of LangChain, OpenAI or Anthropic; Langfuse, observations of
its API (startTime, modelParameters) and of its exports to files (start_time, provided_model_name,
model_parameters, and input and output as JSON text).
"""

from dataclasses import replace
from typing import Any

from draftworth.importing.chat_log import Logged, logged
from draftworth.importing.log_form import LogForm, Value, listed_under
from draftworth.importing.messages import answer_text, decoded
from draftworth.importing.provenance import logged_time
from draftworth.importing.recorded import Recorded, converted
from draftworth.records.chat import NotSendableError

_QUESTIONS = ("messages", "prompt", "input", "question", "query", "text")


def langsmith(value: Value) -> Logged:
    """Read a run that called a model; a run around it has the same messages again."""
    if value.get("run_type", "llm") != "llm":
        raise NotSendableError("of a run_type other than llm", "no call of a model")
    inputs, extra = decoded(value.get("inputs")), _object(value.get("extra"))
    settings = {**_object(extra.get("invocation_params")), **_settings(inputs)}
    metadata = _object(extra.get("metadata"))
    names = (settings.get("model"), settings.get("model_name"), metadata.get("ls_model_name"))
    model = next((name for name in names if name), None)
    if isinstance(inputs, dict) and "prompts" in inputs and "messages" not in inputs:
        return _text_to_continue({**settings, "model": model}, inputs["prompts"], value)
    return converted(
        Recorded(
            messages=_question(inputs, "inputs"),
            system=_settings(inputs).get("system"),
            answer=decoded(value.get("outputs")),
            tools=settings.get("tools"),
            tool_choice=settings.get("tool_choice"),
            response_format=settings.get("response_format"),
            settings=settings,
            model=model,
            time=value.get("start_time"),
        )
    )


def _text_to_continue(settings: Value, prompts: object, value: Value) -> Logged:
    """Return the call of a completion model, which gets a text and not messages."""
    if not isinstance(prompts, list) or len(prompts) != 1:
        raise NotSendableError("with several prompts in one call", "prompts: not one")
    text = logged({**settings, "prompt": prompts[0]}, answer_text(decoded(value.get("outputs"))))
    return replace(text, time=logged_time(value.get("start_time")))


def langfuse(value: Value) -> Logged:
    """Read an observation that called a model; an observation around it has the same messages."""
    if not value.keys() & {"traceId", "trace_id"}:
        raise NotSendableError("without a trace id, so no observations", "no traceId")
    if value.get("type", "GENERATION") != "GENERATION":
        raise NotSendableError("of a type other than GENERATION", "no call of a model")
    question = value.get("input")
    inputs = decoded(question)
    names = ("model", "providedModelName", "provided_model_name")
    return converted(
        Recorded(
            messages=_question(inputs, "input") if isinstance(inputs, dict) else question,
            answer=value.get("output"),
            tools=_settings(inputs).get("tools"),
            settings=_object(value.get("modelParameters", value.get("model_parameters"))),
            model=next((value[name] for name in names if value.get(name)), None),
            time=value.get("startTime", value.get("start_time")),
        )
    )


def _question(inputs: object, name: str) -> Any:
    """Return the messages, or the one text, in what a model was called with."""
    if not isinstance(inputs, dict):
        return inputs
    if "role" in inputs:
        return [inputs]
    key = next((key for key in _QUESTIONS if inputs.get(key)), None)
    if key is None:
        raise NotSendableError(f"without messages in {name}", "no messages and no question")
    return inputs[key]


def _settings(inputs: object) -> dict[str, Any]:
    return inputs if isinstance(inputs, dict) and "messages" in inputs else {}


def _object(value: object) -> dict[str, Any]:
    value = decoded(value)
    return value if isinstance(value, dict) else {}


LANGSMITH = LogForm(read=langsmith, parts=listed_under("runs"))
LANGFUSE = LogForm(read=langfuse, parts=listed_under("data"))
