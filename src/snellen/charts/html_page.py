"""What all pages have in common: the template of the frame, template filters, and how a page is written to a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path

import jinja2
from markupsafe import Markup, escape

from snellen.charts import numbers
from snellen.charts.colours import page_css
from snellen.errors import SnellenError
from snellen.files.atomic import write_whole

TemplateValues = dict[str, object]
"""What a template shows, by name. Only templates read it: values that Python reads too are objects of their own."""


def render_page(template: str, styles: Sequence[str], facts: Mapping[str, object]) -> str:
    """A page as text.

    Args:
        template: The template, as a path inside the package, such as `report/page.html`.
        styles: Style sheets, as paths inside the package.
        facts: The variables of the template.
    """
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
    """A label with optional line breaks after brackets and commas."""
    text = str(escape(label))
    for mark in ("(", ","):
        text = text.replace(mark, f"{mark}<wbr>")
    return Markup(text)


def write_page(text: str, path: str | Path) -> Path:
    """Writes the page in one step, so that the file is never half-written."""
    target = Path(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        write_whole(target, text.encode())
    except OSError as problem:
        raise SnellenError(f"cannot write the report to '{target}': {problem.strerror}; choose another place") from None
    return target
