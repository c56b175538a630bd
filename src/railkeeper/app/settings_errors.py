"""What is said of a settings file that can't be: the key, what is wrong with it, what would be right."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast, get_args

from pydantic import BaseModel

from railkeeper.app.settings_sources import KINDS, AnySource
from railkeeper.base.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic_core import ErrorDetails


def explained(errors: Sequence[ErrorDetails], root: type[BaseModel], where: str) -> InputError:
    """Return the error to raise for what pydantic has found in a file of the model `root`."""
    # A key that is misspelt is missing too: what was written is told first.
    error = min(errors, key=lambda e: e["type"] != "extra_forbidden")
    key = ".".join(str(x) for x in error["loc"])
    if error["type"] == "extra_forbidden":
        known = _model_at(root, error["loc"][:-1]).model_fields
        return InputError(f"{where}: {key}", "is not a known key", f"known keys: {', '.join(sorted(known))}")
    if error["type"] == "missing":
        return InputError(f"{where}: {key}", "is missing", "give it")
    if error["type"].startswith("union_tag"):
        kind = error["input"].get("kind") if isinstance(error["input"], dict) else None
        problem = "is missing" if kind is None else f"is {kind!r}"
        return InputError(f"{where}: {key}.kind", problem, f"one of {', '.join(KINDS)}")
    right = _RIGHT.get(error["type"]) or error["msg"].removeprefix("Value error, ")
    return InputError(f"{where}: {key}", f"is {_shown(error['input'], key)}", right[:1].lower() + right[1:])


def _shown(value: Any, key: str) -> str:
    """Return a value as a message may show it: a journal's URL and whole tables may hold a password."""
    if key == "keeper.journal":
        return "no text"
    if isinstance(value, dict | list):
        return f"a {'table' if isinstance(value, dict) else 'list'} of {len(value)}"
    return repr(value)


def _model_at(root: type[BaseModel], loc: tuple[int | str, ...]) -> type[BaseModel]:
    """Return the model of the table at a place in the file, as errors name it: keys, numbers, a source's kind."""
    model: Any = root
    for step in loc:
        if isinstance(step, int):
            continue
        field = model.model_fields.get(step)
        found = _models_in(Any if field is None else field.annotation)
        model = found[0] if field is not None and found else _SOURCES.get(str(step), model)
    return cast("type[BaseModel]", model)


def _models_in(annotation: Any) -> list[Any]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models_in(part)]


# Their place in the file is named by their kind.
_SOURCES = {model.model_fields["kind"].annotation.__args__[0]: model for model in _models_in(AnySource)}
_RIGHT = {
    "model_type": "a table",
    "model_attributes_type": "a table",
    "dict_type": "a table",
    "list_type": "a list",
    "string_too_short": "a text that is not empty",
    "too_short": "at least one",
}
