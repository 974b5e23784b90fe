"""What all pages have in common: their frame, their filters, and that they are written whole or not at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup, escape

from snellen.charts import numbers
from snellen.charts.colours import page_css
from snellen.errors import SnellenError
from snellen.files.atomic import write_whole


def render_page(template: str, styles: Sequence[str], facts: Mapping[str, Any]) -> str:
    """A page from a template that fills the frame; files are named as they lie in the package: `report/page.html`."""
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_read),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters.update(soft=_soft, join_names=numbers.join_names)
    return environment.get_template(template).render(style=Markup(page_css() + "".join(map(_read, styles))), **facts)


def _read(name: str) -> str:
    return resources.files("snellen").joinpath(name).read_text(encoding="utf-8")


def _soft(label: str) -> Markup:
    """A label that may break after brackets and commas."""
    text = str(escape(label))
    for mark in ("(", ","):
        text = text.replace(mark, f"{mark}<wbr>")
    return Markup(text)


def write_page(text: str, path: str | Path) -> Path:
    """Writes the page whole, so that a reader never meets half of it."""
    target = Path(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        write_whole(target, text.encode())
    except OSError as problem:
        raise SnellenError(f"cannot write the report to '{target}': {problem.strerror}; choose another place") from None
    return target
