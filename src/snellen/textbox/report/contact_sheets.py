"""Contact sheets of scenes, drawn by `snellen textbox show`. Solid green frames: focus; dashed magenta ones: avoid."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from snellen.charts.colours import INK, LINE, PAPER, SOFT
from snellen.charts.pictures import Font, clip_text, eye_chart, wrap_text
from snellen.errors import SnellenError
from snellen.textbox.report.scene_tables import BucketScenes, RuleScenes, join_names
from snellen.textbox.scenes.objects import SceneObject
from snellen.textbox.scenes.scenes import SceneBatch

FOCUS, AVOID = "#17c653", "#ff3fd0"
"""Bright enough for black scenes; on paper the words beside them say the same."""

_RIGHT, _WRONG, _UNDEFINED = "#1d7a3a", "#b3261e", "#6a707b"
_MARGIN, _GAP, _CELL = 36, 12, 192
_BIG, _NAME, _TEXT, _SMALL = (ImageFont.load_default(size) for size in (30, 17, 15, 13))
_SAME = "A column is one picture. What a map of it should focus on and avoid depends on the rule of the classifier."
_LEGEND = (
    ("focus", "focus: what the rule looks at"),
    ("avoid", "avoid: what the rule does not ask about"),
    ("neutral", "no frame: neutral, in a test that is not met"),
)
_MODEL_LEGEND = (("right", "model right"), ("wrong", "model wrong"))


def setting_sheet(rule_scenes: RuleScenes) -> Image.Image:
    """All buckets in two columns, the same scenes in each, with frames around what to focus on and to avoid."""
    images = len(rule_scenes.buckets[0].scenes)
    cell = _cell_size(rule_scenes.spec.side, _CELL)
    with_model = rule_scenes.accuracy is not None
    wide = max(images * cell + (images - 1) * _GAP, 430)
    high = 58 + cell + (30 if with_model else 10) + 22
    rows = -(-len(rule_scenes.buckets) // 2)
    page, draw, top = _page(2 * _MARGIN + 2 * wide + 48, *_head(rule_scenes), rows * high, with_model)
    for index, bucket in enumerate(rule_scenes.buckets):
        x, y = _MARGIN + (index // rows) * (wide + 48), top + (index % rows) * high
        draw.line((x, y, x + wide, y), fill=LINE)
        _bucket_words(draw, bucket, x, y + 10, wide)
        for number in range(images):
            left = x + number * (cell + _GAP)
            _scene(page, bucket, number, (left, y + 58), cell, rule_scenes.spec.rule.objects)
            if bucket.correct is not None:
                _verdict(draw, bool(bucket.correct[number]), (left, y + 58 + cell + 8))
    return page


def settings_sheet(settings: Sequence[RuleScenes]) -> Image.Image:
    """A row per setting, a column per bucket, with the same scene in all rows of a column."""
    first = settings[0]
    cell = _cell_size(first.spec.side, 128)
    left, high = 196, cell + 52
    width = 2 * _MARGIN + left + len(first.buckets) * (cell + _GAP) - _GAP
    with_model = any(rule_scenes.accuracy is not None for rule_scenes in settings)
    page, draw, top = _page(width, "the seven settings", _SAME, 44 + len(settings) * high, with_model)
    for index, bucket in enumerate(first.buckets):
        x = _MARGIN + left + index * (cell + _GAP)
        draw.text((x, top), f"bucket {bucket.number}", fill=INK, font=_TEXT)
        draw.text((x, top + 19), clip_text(bucket.contents, _SMALL, cell), fill=SOFT, font=_SMALL)
    for row, rule_scenes in enumerate(settings):
        y = top + 44 + row * high
        draw.line((_MARGIN, y, width - _MARGIN, y), fill=LINE)
        draw.text((_MARGIN, y + 12), rule_scenes.spec.name, fill=INK, font=_NAME, stroke_width=0.3)
        for line, words in enumerate(wrap_text(rule_scenes.spec.rule.text, _SMALL, left - 24)):
            draw.text((_MARGIN, y + 38 + 17 * line), words, fill=SOFT, font=_SMALL)
        for index, bucket in enumerate(rule_scenes.buckets):
            x = _MARGIN + left + index * (cell + _GAP)
            _scene(page, bucket, 0, (x, y + 12), cell, rule_scenes.spec.rule.objects)
            if bucket.truth.label is None:
                draw.text((x, y + cell + 18), "undefined", fill=_UNDEFINED, font=_SMALL)
                continue
            draw.text((x, y + cell + 18), f"label {bucket.truth.label}", fill=INK, font=_SMALL)
            if bucket.correct is not None:
                _verdict(draw, bool(bucket.correct[0]), (x + 56, y + cell + 18), "")
    return page


def write_sheet(sheet: Image.Image, path: Path) -> Path:
    """Writes a contact sheet, in the format that the name of the file asks for."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        sheet.save(path)
    except ValueError:
        raise SnellenError(f"no picture can be written as '{path.name}'; let --out end in .png") from None
    except OSError as problem:
        raise SnellenError(f"cannot write '{path}' ({problem.strerror or problem}); choose another --out") from None
    return path


def _cell_size(side: int, target: int) -> int:
    """The side of a drawn scene: every pixel enlarged by a whole number, to about `target` pixels."""
    return side * max(1, round(target / side))


def _head(rule_scenes: RuleScenes) -> tuple[str, str]:
    spec = rule_scenes.spec
    parts = [
        f"{len(spec.rule.defined)} of {len(rule_scenes.buckets)} buckets have a label",
        f"{spec.side} by {spec.side} pixels on {spec.background}",
    ]
    if rule_scenes.accuracy is not None:
        correct, total = rule_scenes.accuracy
        parts.append(f"{rule_scenes.architecture} classifies {correct} of these {total} scenes correctly")
    return f"{spec.name}:  {spec.rule.text}", "   ·   ".join(parts)


def _page(width: int, title: str, below: str, body: int, with_model: bool) -> tuple[Image.Image, ImageDraw.ImageDraw, int]:
    """An empty page with title and legend, and where the space between them begins."""
    titles = wrap_text(title, _BIG, width - 2 * _MARGIN)
    top = 74 + 38 * len(titles) + 44
    legend = _legend_places(width, with_model)
    page = Image.new("RGB", (width, top + body + 36 + 28 * (1 + legend[-1][1])), PAPER)
    draw = ImageDraw.Draw(page)
    eye_chart(draw, _MARGIN, 28)
    for index, words in enumerate(titles):
        draw.text((_MARGIN, 68 + 38 * index), words, fill=INK, font=_BIG, stroke_width=0.3)
    draw.text((_MARGIN, 76 + 38 * len(titles)), clip_text(below, _TEXT, width - 2 * _MARGIN), fill=SOFT, font=_TEXT)
    bottom = top + body + 8
    draw.line((_MARGIN, bottom, width - _MARGIN, bottom), fill=LINE)
    for (what, words), (x, line) in zip(_legend(with_model), legend, strict=True):
        _legend_entry(draw, what, words, (x, bottom + 18 + 28 * line))
    return page, draw, top


def _legend(with_model: bool) -> tuple[tuple[str, str], ...]:
    return _LEGEND + _MODEL_LEGEND if with_model else _LEGEND


def _legend_places(width: int, with_model: bool) -> list[tuple[int, int]]:
    """Where each entry of the legend begins, and in which line: as many in a line as fit."""
    places, x, line = [], _MARGIN, 0
    for _, words in _legend(with_model):
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


def _bucket_words(draw: ImageDraw.ImageDraw, bucket: BucketScenes, x: int, y: int, width: int) -> None:
    """Two lines over the scenes of a bucket: what it is, and what its frames say."""
    label = bucket.truth.label
    draw.text((x, y), f"bucket {bucket.number}", fill=INK, font=_NAME, stroke_width=0.3)
    contents = f"shows {bucket.contents}"
    label_text = "undefined" if label is None else f"label {label}"
    draw.text((x + 98, y + 1), clip_text(contents, _TEXT, width - 200), fill=SOFT, font=_TEXT)
    colour = INK if label is not None else _UNDEFINED
    draw.text((x + width, y), label_text, fill=colour, font=_NAME, anchor="ra", stroke_width=0.3)
    if label is None:
        words = "the rule gives no label here, so these scenes are not used"
        draw.text((x, y + 24), clip_text(words, _TEXT, width), fill=_UNDEFINED, font=_TEXT)
        return
    words = f"focus {join_names(bucket.truth.focus)}   ·   avoid {join_names(bucket.truth.avoid)}"
    draw.text((x, y + 24), clip_text(words, _TEXT, width), fill=SOFT, font=_TEXT)


def _scene(
    page: Image.Image, bucket: BucketScenes, number: int, corner: tuple[int, int], cell: int, objects: Sequence[SceneObject]
) -> None:
    """Draws a scene, enlarged, with frames around its objects; faded where the rule gives no label."""
    scenes: SceneBatch = bucket.scenes
    pixels = scenes.pixels[number].permute(1, 2, 0).contiguous().numpy()
    picture = Image.fromarray(pixels).resize((cell, cell), Image.Resampling.NEAREST)
    if bucket.truth.label is None:
        picture = Image.blend(picture, Image.new("RGB", picture.size, PAPER), 0.72)
    page.paste(picture, corner)
    scale = cell // scenes.pixels.shape[-1]
    truth = bucket.truth
    for item, box in zip(objects, scenes.boxes[number].tolist(), strict=True):
        role = "focus" if item.name in truth.focus else "avoid" if item.name in truth.avoid else "neutral"
        top, left, bottom, right = (scale * edge for edge in box)
        x, y = corner
        _frame(ImageDraw.Draw(page), (x + left - 4, y + top - 4, x + right + 3, y + bottom + 3), role)


def _frame(draw: ImageDraw.ImageDraw, box: tuple[int, int, int, int], what: str) -> None:
    """A solid green frame or a dashed magenta one, two pixels wide, with a dark rim that sets it off from any background."""
    if what == "neutral":
        return
    left, top, right, bottom = box
    draw.rectangle((left - 1, top - 1, right + 1, bottom + 1), outline="black", width=4)
    if what == "focus":
        draw.rectangle(box, outline=FOCUS, width=2)
        return
    for start, end, across in ((left, right, True), (top, bottom, False)):
        for offset in range(start, end + 1, 9):
            stop = min(offset + 4, end)
            for edge in (top, bottom - 1) if across else (left, right - 1):
                dash = (offset, edge, stop, edge + 1) if across else (edge, offset, edge + 1, stop)
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
