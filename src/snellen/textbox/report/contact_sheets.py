"""Sheets: what `snellen textbox show` draws. Solid green frames say focus, dashed magenta ones avoid, as words say too."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from snellen.charts.colours import INK, LINE, PAPER, SOFT
from snellen.charts.pictures import Font, clip_text, eye_chart, wrap_text
from snellen.errors import SnellenError
from snellen.textbox.report.scene_tables import Bucket, Showing, listed
from snellen.textbox.scenes.objects import SceneObject
from snellen.textbox.scenes.scenes import SceneBatch

FOCUS, AVOID = "#17c653", "#ff3fd0"
"""Bright enough for black scenes; on paper they only ever stand beside their words."""

_RIGHT, _WRONG, _UNDEFINED = "#1d7a3a", "#b3261e", "#6a707b"
_MARGIN, _GAP, _CELL = 36, 12, 192
_BIG, _NAME, _TEXT, _SMALL = (ImageFont.load_default(size) for size in (30, 17, 15, 13))
_SAME = (
    "A column is one picture. What a map of it should focus on and avoid depends on the rule that the classifier follows."
)
_LEGEND = (
    ("focus", "focus: what the rule looks at"),
    ("avoid", "avoid: what the rule does not ask about"),
    ("neutral", "no frame: neutral, asked about by a test that is not met"),
)
_TOLD = (("right", "model right"), ("wrong", "model wrong"))


def setting_sheet(showing: Showing) -> Image.Image:
    """All buckets in two columns, the same scenes in each, with what is to be focused on and avoided framed."""
    images = len(showing.buckets[0].scenes)
    cell = _cell(showing.spec.side, _CELL)
    told = showing.right is not None
    wide = max(images * cell + (images - 1) * _GAP, 430)
    high = 58 + cell + (30 if told else 10) + 22
    rows = -(-len(showing.buckets) // 2)
    page, draw, top = _page(2 * _MARGIN + 2 * wide + 48, *_head(showing), rows * high, told)
    for at, bucket in enumerate(showing.buckets):
        x, y = _MARGIN + (at // rows) * (wide + 48), top + (at % rows) * high
        draw.line((x, y, x + wide, y), fill=LINE)
        _bucket_words(draw, bucket, x, y + 10, wide)
        for number in range(images):
            left = x + number * (cell + _GAP)
            _scene(page, bucket, number, (left, y + 58), cell, showing.spec.rule.objects)
            if bucket.right is not None:
                _verdict(draw, bool(bucket.right[number]), (left, y + 58 + cell + 8))
    return page


def settings_sheet(showings: Sequence[Showing]) -> Image.Image:
    """A line per setting, a column per bucket, the same scene all the way down: one picture, and what each rule sees."""
    first = showings[0]
    cell = _cell(first.spec.side, 128)
    left, high = 196, cell + 52
    width = 2 * _MARGIN + left + len(first.buckets) * (cell + _GAP) - _GAP
    told = any(one.right is not None for one in showings)
    page, draw, top = _page(width, "the seven settings", _SAME, 44 + len(showings) * high, told)
    for at, bucket in enumerate(first.buckets):
        x = _MARGIN + left + at * (cell + _GAP)
        draw.text((x, top), f"bucket {bucket.number}", fill=INK, font=_TEXT)
        draw.text((x, top + 19), clip_text(bucket.shown, _SMALL, cell), fill=SOFT, font=_SMALL)
    for row, showing in enumerate(showings):
        y = top + 44 + row * high
        draw.line((_MARGIN, y, width - _MARGIN, y), fill=LINE)
        draw.text((_MARGIN, y + 12), showing.spec.name, fill=INK, font=_NAME, stroke_width=0.3)
        for line, words in enumerate(wrap_text(showing.spec.rule.text, _SMALL, left - 24)):
            draw.text((_MARGIN, y + 38 + 17 * line), words, fill=SOFT, font=_SMALL)
        for at, bucket in enumerate(showing.buckets):
            x = _MARGIN + left + at * (cell + _GAP)
            _scene(page, bucket, 0, (x, y + 12), cell, showing.spec.rule.objects)
            if bucket.truth.label is None:
                draw.text((x, y + cell + 18), "undefined", fill=_UNDEFINED, font=_SMALL)
                continue
            draw.text((x, y + cell + 18), f"label {bucket.truth.label}", fill=INK, font=_SMALL)
            if bucket.right is not None:
                _verdict(draw, bool(bucket.right[0]), (x + 56, y + cell + 18), "")
    return page


def write_sheet(sheet: Image.Image, path: Path) -> Path:
    """Writes a contact_sheet, in whichever format the name of the file asks for."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        sheet.save(path)
    except ValueError:
        raise SnellenError(f"no picture can be written as '{path.name}'; let --out end in .png") from None
    except OSError as problem:
        raise SnellenError(f"cannot write '{path}' ({problem.strerror or problem}); choose another --out") from None
    return path


def _cell(side: int, wanted: int) -> int:
    """The side of a drawn scene: every pixel enlarged by a whole number, to about as wide as wanted."""
    return side * max(1, round(wanted / side))


def _head(showing: Showing) -> tuple[str, str]:
    spec = showing.spec
    parts = [
        f"{len(spec.rule.defined)} of {len(showing.buckets)} buckets have a label",
        f"{spec.side} by {spec.side} pixels on {spec.background}",
    ]
    if showing.right is not None:
        parts.append(f"{showing.model} tells {showing.right[0]} of these {showing.right[1]} scenes right")
    return f"{spec.name}:  {spec.rule.text}", "   ·   ".join(parts)


def _page(width: int, title: str, below: str, body: int, told: bool) -> tuple[Image.Image, ImageDraw.ImageDraw, int]:
    """Paper with the title at its head and the legend at its foot, and where the space between begins."""
    titles = wrap_text(title, _BIG, width - 2 * _MARGIN)
    top = 74 + 38 * len(titles) + 44
    legend = _legend_places(width, told)
    page = Image.new("RGB", (width, top + body + 36 + 28 * (1 + legend[-1][1])), PAPER)
    draw = ImageDraw.Draw(page)
    eye_chart(draw, _MARGIN, 28)
    for at, words in enumerate(titles):
        draw.text((_MARGIN, 68 + 38 * at), words, fill=INK, font=_BIG, stroke_width=0.3)
    draw.text((_MARGIN, 76 + 38 * len(titles)), clip_text(below, _TEXT, width - 2 * _MARGIN), fill=SOFT, font=_TEXT)
    bottom = top + body + 8
    draw.line((_MARGIN, bottom, width - _MARGIN, bottom), fill=LINE)
    for (what, words), (x, line) in zip(_legend(told), legend, strict=True):
        _legend_entry(draw, what, words, (x, bottom + 18 + 28 * line))
    return page, draw, top


def _legend(told: bool) -> tuple[tuple[str, str], ...]:
    return _LEGEND + _TOLD if told else _LEGEND


def _legend_places(width: int, told: bool) -> list[tuple[int, int]]:
    """Where each entry of the legend begins, and in which line: as many in a line as fit."""
    places, x, line = [], _MARGIN, 0
    for _, words in _legend(told):
        needs = 35 + int(_TEXT.getlength(words))
        if x > _MARGIN and x + needs > width - _MARGIN:
            x, line = _MARGIN, line + 1
        places.append((x, line))
        x += needs + 32
    return places


def _legend_entry(draw: ImageDraw.ImageDraw, what: str, words: str, corner: tuple[int, int]) -> None:
    x, y = corner
    if what in ("right", "wrong"):
        _verdict(draw, what == "right", (x + 10, y + 1), "model ", _TEXT)
        return
    draw.rectangle((x, y, x + 25, y + 17), fill="black")
    draw.rectangle((x + 7, y + 6, x + 18, y + 11), fill="white")
    _frame(draw, (x + 3, y + 2, x + 22, y + 15), what)
    draw.text((x + 35, y), words, fill=INK, font=_TEXT)


def _bucket_words(draw: ImageDraw.ImageDraw, bucket: Bucket, x: int, y: int, width: int) -> None:
    """Two lines over the scenes of a bucket: what it is, and what its frames say."""
    label = bucket.truth.label
    draw.text((x, y), f"bucket {bucket.number}", fill=INK, font=_NAME, stroke_width=0.3)
    shown = f"shows {bucket.shown}"
    said = "undefined" if label is None else f"label {label}"
    draw.text((x + 98, y + 1), clip_text(shown, _TEXT, width - 200), fill=SOFT, font=_TEXT)
    draw.text((x + width, y), said, fill=_UNDEFINED if label is None else INK, font=_NAME, anchor="ra", stroke_width=0.3)
    if label is None:
        words = "the rule gives no label here, so that nothing is taught or asked"
        draw.text((x, y + 24), clip_text(words, _TEXT, width), fill=_UNDEFINED, font=_TEXT)
        return
    words = f"focus {listed(bucket.truth.focus)}   ·   avoid {listed(bucket.truth.avoid)}"
    draw.text((x, y + 24), clip_text(words, _TEXT, width), fill=SOFT, font=_TEXT)


def _scene(
    page: Image.Image, bucket: Bucket, number: int, corner: tuple[int, int], cell: int, objects: Sequence[SceneObject]
) -> None:
    """A scene, enlarged, and the frames around what is in it; faded where the rule says nothing."""
    scenes: SceneBatch = bucket.scenes
    pixels = scenes.pixels[number].permute(1, 2, 0).contiguous().numpy()
    picture = Image.fromarray(pixels).resize((cell, cell), Image.Resampling.NEAREST)
    if bucket.truth.label is None:
        picture = Image.blend(picture, Image.new("RGB", picture.size, PAPER), 0.72)
    page.paste(picture, corner)
    scale = cell // scenes.pixels.shape[-1]
    for object_, box in zip(objects, scenes.boxes[number].tolist(), strict=True):
        what = (
            "focus" if object_.name in bucket.truth.focus else "avoid" if object_.name in bucket.truth.avoid else "neutral"
        )
        top, left, bottom, right = (scale * one for one in box)
        x, y = corner
        _frame(ImageDraw.Draw(page), (x + left - 4, y + top - 4, x + right + 3, y + bottom + 3), what)


def _frame(draw: ImageDraw.ImageDraw, box: tuple[int, int, int, int], what: str) -> None:
    """A solid green frame or a dashed magenta one, two pixels wide, with a dark rim that parts it from any ground."""
    if what == "neutral":
        return
    left, top, right, bottom = box
    draw.rectangle((left - 1, top - 1, right + 1, bottom + 1), outline="black", width=4)
    if what == "focus":
        draw.rectangle(box, outline=FOCUS, width=2)
        return
    for start, end, across in ((left, right, True), (top, bottom, False)):
        for at in range(start, end + 1, 9):
            stop = min(at + 4, end)
            for edge in (top, bottom - 1) if across else (left, right - 1):
                dash = (at, edge, stop, edge + 1) if across else (edge, at, edge + 1, stop)
                draw.rectangle(dash, fill=AVOID)


def _verdict(
    draw: ImageDraw.ImageDraw, right: bool, corner: tuple[int, int], who: str = "model ", font: Font = _SMALL
) -> None:
    """A green disc and the word right, or a red square and the word wrong."""
    x, y = corner
    colour, word = (_RIGHT, "right") if right else (_WRONG, "wrong")
    mark = (x, y + 3, x + 9, y + 12)
    if right:
        draw.ellipse(mark, fill=colour)
    else:
        draw.rectangle(mark, fill=colour)
    draw.text((x + 15, y), who + word, fill=colour, font=font)
