"""The base class of the types that YAML files are read into, and patterns of their values.

The class is strict (a string is not a number), frozen and closed: an unknown key is an error. If a
misspelt key were ignored, another experiment would run than the file describes.
"""

import ast
import inspect
import json
import sys
from collections import Counter
from functools import cache
from importlib.resources import files
from itertools import pairwise
from typing import Annotated, Any, TypeVar

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    TypeAdapter,
)
from pydantic_core import CoreSchema, PydanticCustomError

MAX_NAME_LENGTH = 32  # It leaves room for prefixes and hashes within a DNS label's 63 characters.
MAX_HUB_ID_LENGTH = 140
MAX_REVISION_LENGTH = 200
# Ids for examples, here and in experiments/; they belong to no real account.
EXAMPLE_RESERVATION = "cr-0123456789abcdef0"
EXAMPLE_ACCOUNT = "111122223333"


def _data_in(text: str) -> Any:
    # `yaml.safe_load`, which is not written in C, would take a quarter of the time of each start.
    return yaml.load(text, Loader=yaml.CSafeLoader)


_TABLES: dict[str, dict[str, Any]] = _data_in(
    files("draftworth.experiment").joinpath("words.yaml").read_text(encoding="utf-8")
)
PATTERNS: dict[str, str] = {name: entry["pattern"] for name, entry in _TABLES["patterns"].items()}
SET_NAME = PATTERNS["set_name"]
PATTERN_WORDS: dict[str, str] = {
    entry["pattern"]: entry["words"] for entry in _TABLES["patterns"].values()
}
# The tables in `words.yaml`: phrases for error messages, by the value that each phrase describes.
WORDS: dict[str, dict[str, str]] = _TABLES


def _each_once(values: tuple[Any, ...]) -> tuple[Any, ...]:
    if twice := [value for value, count in Counter(values).items() if count > 1]:
        raise PydanticCustomError("repeated", "{twice}", {"twice": ", ".join(map(str, twice))})
    return values


# Larger numbers are typing errors: the longest context of a model is this many tokens.
PositiveInt = Annotated[int, Field(ge=1, le=10_000_000)]
# For prices, rates and weights: with these bounds products and ratios of any two are finite.
PositiveFloat = Annotated[float, Field(ge=0.001, le=1e12)]
# For a number that a file may leave out: it is 0 until `loading.with_defaults` replaces it. The
# 0 comes from a `default_factory` (`int()` is 0) and not from `default=0`, which the JSON Schema
# would show to users.
WORKED_OUT: Any = Field(default_factory=int)
# For a list in which a repeated entry is an error.
EachOnce = AfterValidator(_each_once)
Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME_LENGTH, pattern=PATTERNS["name"])]


T = TypeVar("T")


class StrictModel(BaseModel):
    """The base class of the pydantic types of the experiment, the catalogue and other YAML data."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", allow_inf_nan=False)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Return the JSON Schema, in which each field without `description=` has its docstring.

        Pydantic's `use_attribute_docstrings` would read and parse the source of every class at each
        start, and only the schema needs them.
        """
        reference = handler(core_schema)
        properties = handler.resolve_ref_schema(reference).get("properties", {})
        for kind in cls.__mro__:
            if issubclass(kind, StrictModel):
                for name, text in _field_docstrings(kind).items():
                    properties[name].setdefault("description", text)
        return reference


def _field_docstrings(kind: type) -> dict[str, str]:
    """Return the string below each field that the class itself declares, by the field's name."""
    docstrings: dict[str, str] = {}
    for field, below in pairwise(_classes_in(kind.__module__)[kind.__name__].body):
        match field, below:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                docstrings[name] = inspect.cleandoc(text)
    return docstrings


@cache
def _classes_in(module: str) -> dict[str, ast.ClassDef]:
    """Return the syntax trees of the classes in a module's source, by the class's name."""
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {node.name: node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}


def read_yaml(kind: type[T], text: str) -> T:
    """Return a data file's YAML text as an object of the type `kind`, such as `Catalog`.

    It raises pydantic.ValidationError if the text does not fit the type.
    """
    return TypeAdapter(kind).validate_json(json.dumps(_data_in(text), default=str))
