"""References as links and as BibTeX, made from the one line that `citations` has of each."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from snellen.plugins.citations import CITATIONS

PLACES = {
    "Ancona 2017": "http://www.interpretable-ml.org/nips2017workshop/papers/02.pdf",
    "Saporta 2022": "https://www.nature.com/articles/s42256-022-00536-x",
}
"""Where works of the literature are found that no plug-in cites and arXiv does not have."""

_JOURNAL = re.compile(
    r"Transactions|Journal|Pattern Recognition|PLoS ONE|Nature |Radiology|Information Fusion|Image Understanding"
)


@dataclass(frozen=True, kw_only=True)
class Reference:
    """One line of `citations`, taken apart."""

    key: str
    authors: tuple[str, ...]
    """Family names; the last is `others` where the line has `et al.`"""
    title: str
    venue: str
    year: str
    arxiv: str

    @property
    def url(self) -> str:
        """Where to read it; empty where only a library has it."""
        return f"https://arxiv.org/abs/{self.arxiv}" if self.arxiv else ""

    def bibtex(self, names: Sequence[str] = ()) -> str:
        """An entry; `names` are its authors in full, used where their family names are the line's."""
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
    """What `citations` has under a key, taken apart; nothing where the key is somebody else's."""
    match = re.fullmatch(r"(.+?)\. (.+?)\. (?:(.+?),? )?(\d{4})\.(?: arXiv:(\S+))?", CITATIONS.get(key, ""))
    if match is None:
        return None
    authors, title, venue, year, arxiv = match.groups()
    families = authors.replace(" et al", ", others").split(", ")
    return Reference(
        key=key, authors=tuple(families), title=title, venue=(venue or "").removeprefix("In: "), year=year, arxiv=arxiv or ""
    )


def place_of(source: str) -> str:
    """Where a work is found that the literature's evidence names, `Petsiuk 2018 (arXiv:1806.07421)`; empty if not known."""
    if number := re.search(r"arXiv:(\d{4}\.\d{4,5})", source):
        return f"https://arxiv.org/abs/{number[1]}"
    words = source.split(" (", maxsplit=1)[0].split()
    cited = reference("".join(words[:2]).lower())
    return cited.url if cited else PLACES.get(" ".join(words[:2]), "")


def _plain(text: str) -> str:
    """What TeX takes for commands, as characters."""
    return re.sub(r"([&%#_$])", r"\\\1", text)
