"""JSON records of a run folder: what all of them have in common, and the names of their fields on disk."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from snellen.files.documents import PlainName

STORED_KEYS = {
    "schema_version": "schema",
    "fitted": "lessons",
    "variants": "relatives",
    "class_names": "names",
    "preparation_seconds": "compile_seconds",
    "listed": "rows",
    "listed_units": "units",
}
"""The key on disk of each field that has another name in code."""

Count = Annotated[int, Field(ge=0)]
Seconds = Annotated[float, Field(ge=0)]


R = TypeVar("R", bound="Record")


class Record(BaseModel):
    """A JSON object of the run folder, read strictly; keys of other versions are kept."""

    model_config = ConfigDict(
        extra="allow",
        allow_inf_nan=False,
        frozen=True,
        populate_by_name=True,
        protected_namespaces=(),
        alias_generator=lambda field: STORED_KEYS.get(field, field),
    )

    def changed(self: R, **values: Any) -> R:
        """A copy with other values of these fields."""
        return self.model_copy(update=values)

    def as_json(self) -> dict[str, Any]:
        """The plain values that are stored: what was read or set, without defaults."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)


class FileRecord(Record):
    """A record that names a file in its own folder."""

    file: PlainName
