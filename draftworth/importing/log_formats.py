"""The table of the forms of log that are read: a form is added in `forms/` and here."""

from collections.abc import Mapping

from draftworth.importing.forms.anthropic import ANTHROPIC
from draftworth.importing.forms.openai_chat import OPENAI_JSONL, SAGEMAKER
from draftworth.importing.forms.openai_responses import OPENAI_RESPONSES
from draftworth.importing.forms.opentelemetry import OPENTELEMETRY
from draftworth.importing.forms.public_sets import ALPACA, SHAREGPT, SPEED_BENCH
from draftworth.importing.forms.tables import CSV
from draftworth.importing.forms.traces import LANGFUSE, LANGSMITH
from draftworth.importing.log_form import LogForm

# The error for a log that was not read names the first of these that reads it. So those
# that ask for less of a record come later.
FORMATS: Mapping[str, LogForm] = {
    "openai-jsonl": OPENAI_JSONL,
    "anthropic": ANTHROPIC,
    "sagemaker": SAGEMAKER,
    "opentelemetry": OPENTELEMETRY,
    "langsmith": LANGSMITH,
    "langfuse": LANGFUSE,
    "alpaca": ALPACA,
    "openai-responses": OPENAI_RESPONSES,
    "sharegpt": SHAREGPT,
    "speed-bench": SPEED_BENCH,
    "csv": CSV,
}
