"""The sentences that participants read, a YAML file per language; those of a task are in the task's own file."""

from __future__ import annotations

import textwrap
from importlib import resources

from snellen.study.tasks import TASKS


def written_languages() -> list[str]:
    """The languages in which Snellen has sentences."""
    folder = resources.files(__name__)
    return sorted(file.name.removesuffix(".yaml") for file in folder.iterdir() if file.name.endswith(".yaml"))


def written_texts(language: str) -> str:
    """All sentences in a language as YAML with comments, for a study's folder: those of every task included."""
    text = resources.files(__name__).joinpath(f"{language}.yaml").read_text(encoding="utf-8")
    blocks = "".join(
        f"  {name}:\n{textwrap.indent(plugin.traits.texts[language], '    ')}"
        for name, plugin in TASKS.items()
        if language in plugin.traits.texts
    )
    return text.replace("\ntasks:\n", f"\ntasks:\n{blocks}", 1)
