from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.study.planted_study import plant

from snellen.errors import SnellenError
from snellen.study.folder import Study
from snellen.study.web import sentences
from snellen.study.web.sentences import Sentences, check_texts, shipped, words

ROOM = Path(sentences.__file__).parent
USED = re.compile(r"""\bt(?:\.rich|\.line)?\(\s*["']([^"']+)["']""")
SOURCES = [*(ROOM / "pages").glob("*.html"), *ROOM.glob("*.py"), *(ROOM.parent / "tasks").rglob("*.py")]


def test_both_languages_have_the_same_sentences_with_the_same_words_to_fill_in() -> None:
    english, german = shipped("en"), shipped("de")
    assert english.keys() == german.keys()
    for name, text in english.items():
        assert words(text) == words(german[name]), name
        assert text.count("**") == german[name].count("**"), name
        assert text.count("**") % 2 == 0, name
        assert text != german[name] or len(text) < 8, name


def test_every_sentence_is_used_and_every_used_sentence_is_there() -> None:
    used = {(source.name, name) for source in SOURCES for name in USED.findall(source.read_text())}
    assert len(used) > 100
    patterns = {name: re.compile(re.escape(name).replace(r"\*", r"[^.]+")) for _, name in used}
    for source, name in used:
        assert any(patterns[name].fullmatch(sentence) for sentence in shipped()), (source, name)
    for sentence in shipped():
        assert any(pattern.fullmatch(sentence) for pattern in patterns.values()), sentence


def test_words_are_filled_in_and_nothing_in_them_is_markup() -> None:
    texts = {"a": "**Bold** {who} & <b>\nnew line", "b": "One 5 %\n\n{who}", "c.d.e": "deep"}
    t = Sentences("en", texts)
    assert t("a", who="{x}") == "**Bold** {x} & <b> new line"
    assert t.line("a", who="**<i>**{who}") == "<strong>Bold</strong> **&lt;i&gt;**{who} &amp; &lt;b&gt; new line"
    assert t.rich("b", who="Ada") == "<p>One 5\N{NO-BREAK SPACE}%</p>\n<p>Ada</p>"
    assert t.rich("b", who="Eve") == "<p>One 5\N{NO-BREAK SPACE}%</p>\n<p>Eve</p>"
    assert t("c.*.*", "d", "e") == "deep"


def _edited(study: Study, change: Any) -> Study:
    path = study.folder / "texts" / "de.yaml"
    texts = yaml.safe_load(path.read_text())
    change(texts)
    path.write_text(yaml.safe_dump(texts, allow_unicode=True))
    return Study.read(study.folder)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda texts: texts["consent"].pop("agree"), r"de.yaml' has no 'consent.agree'; Snellen's own text says: I agree"),
        (lambda texts: texts["consent"].update(agre="Ja"), r"unknown name 'consent.agre'; did you mean 'consent.agree'"),
        (lambda texts: texts["common"].update(progress="Seite {page}"), r"'common.progress' .* has lost its \{pages\}"),
        (lambda texts: texts["end"].update(heading="Danke, {name}!"), r"asks for \{name\}, but nothing can be filled in"),
        (lambda texts: texts["end"].update(code="{code}"), r"'end.code' .* asks for \{code\}, but nothing"),
        (lambda texts: texts["common"].update(back=True), r"'common.back' .* must be a sentence, not True"),
        (lambda texts: texts["common"].update(back="  "), "must be a sentence"),
        (lambda texts: texts.update(common="Weiter"), "has no 'common"),
    ],
)
def test_a_text_that_was_edited_badly_is_refused_in_a_sentence(change: Any, message: str, tmp_path: Path) -> None:
    study, _ = plant(tmp_path / "s")
    with pytest.raises(SnellenError, match=message):
        check_texts(_edited(study, change))


def test_a_text_that_was_edited_well_is_what_people_read(tmp_path: Path) -> None:
    study, _ = plant(tmp_path / "s")
    texts = check_texts(_edited(study, lambda texts: texts["end"].update(text="Ende.\n\n**Kontakt:** <ada@example.org>")))
    assert texts["de"].rich("end.text") == "<p>Ende.</p>\n<p><strong>Kontakt:</strong> &lt;ada@example.org&gt;</p>"
    assert set(texts) == {"en", "de"}


def test_a_third_language_needs_only_its_file(tmp_path: Path) -> None:
    study, _ = plant(tmp_path / "s", scales=[])
    french = dict(study.texts["en"]) | {"language": "Français"}
    (study.folder / "texts" / "fr.yaml").write_text(yaml.safe_dump(french))
    settings = yaml.safe_load((study.folder / "study.yaml").read_text()) | {"languages": ["en", "fr"]}
    (study.folder / "study.yaml").write_text(yaml.safe_dump(settings))
    assert check_texts(Study.read(study.folder))["fr"]("language") == "Français"
