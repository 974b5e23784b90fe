"""References as links and as BibTeX, parsed from the lines of `snellen.plugins.citations`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from snellen.plugins.citations import CITATIONS

PLACES = {
    "Ancona 2017": "http://www.interpretable-ml.org/nips2017workshop/papers/02.pdf",
    "Saporta 2022": "https://www.nature.com/articles/s42256-022-00536-x",
}
"""Addresses of works that the literature's evidence names, but that no plug-in cites and arXiv does not have."""

_JOURNAL = re.compile(
    r"Transactions|Journal|Pattern Recognition|PLoS ONE|Nature |Radiology|Information Fusion|Image Understanding"
)


@dataclass(frozen=True, kw_only=True)
class Reference:
    """One line of `citations`, parsed into its parts."""

    key: str
    authors: tuple[str, ...]
    """Family names; the last is `others` where the line has `et al.`"""
    title: str
    venue: str
    """Empty where the line names none."""
    year: str
    arxiv: str
    """The number on arXiv; empty without one."""

    @property
    def url(self) -> str:
        """The address of the paper on arXiv; empty if it is not there."""
        return f"https://arxiv.org/abs/{self.arxiv}" if self.arxiv else ""

    def bibtex(self, names: Sequence[str] = ()) -> str:
        """The BibTeX entry.

        Args:
            names: Full names of authors, which replace the family names that they end with.

        """
        left, full = list(names), []
        for family in self.authors:
            full_name = next((name for name in left if name.split()[-1] == family), None)
            full.append(full_name or family)
            if full_name:  # two authors may share a family name
                left.remove(full_name)
        fields = {"title": f"{{{self.title}}}", "author": " and ".join(full)}
        kind = "misc"
        if self.venue and _JOURNAL.search(self.venue):
            journal, volume, number = re.fullmatch(r"(.*?)(?: (\d+)(?:\((\d+)\))?)?", self.venue).groups()  # type: ignore[union-attr]
            kind, fields = "article", {**fields, "journal": journal, "volume": volume or "", "number": number or ""}
        elif self.venue:
            kind, fields = "inproceedings", {**fields, "booktitle": self.venue}
        fields |= {"year": self.year, "eprint": self.arxiv, "archiveprefix": "arXiv" if self.arxiv else ""}
        lines = [f"  {name} = {{{_plain(text)}}}," for name, text in fields.items() if text]
        return "\n".join([f"@{kind}{{{self.key},", *lines, "}"])


def reference(key: str) -> Reference | None:
    """The reference with this key; None if `citations` does not have it."""
    match = re.fullmatch(r"(.+?)\. (.+?)\. (?:(.+?),? )?(\d{4})\.(?: arXiv:(\S+))?", CITATIONS.get(key, ""))
    if match is None:
        return None
    authors, title, venue, year, arxiv = match.groups()
    families = authors.replace(" et al", ", others").split(", ")
    return Reference(
        key=key, authors=tuple(families), title=title, venue=(venue or "").removeprefix("In: "), year=year, arxiv=arxiv or ""
    )


def place_of(source: str) -> str:
    """The address of a work as the literature's evidence names it, `Petsiuk 2018 (arXiv:1806.07421)`; empty if unknown."""
    if number := re.search(r"arXiv:(\d{4}\.\d{4,5})", source):
        return f"https://arxiv.org/abs/{number[1]}"
    words = source.split(" (", maxsplit=1)[0].split()
    cited = reference("".join(words[:2]).lower())
    return cited.url if cited else PLACES.get(" ".join(words[:2]), "")


def _plain(text: str) -> str:
    """Text with the special characters of TeX escaped."""
    return re.sub(r"([&%#_$])", r"\\\1", text)
