"""Numbers for people: at most three digits, a true minus sign, and words where there is no number."""

from __future__ import annotations

import math
from collections.abc import Sequence

Number = float | int
"""A number of either type: type checks at run time do not accept an int as a float."""

SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def short(value: float | int) -> str:
    """A number with at most three digits, or `undefined`.

    >>> short(0.6712), short(12.345), short(48213.0), short(-0.04567), short(float("nan"))
    ('0.67', '12.3', '48.2k', '−0.046', 'undefined')
    """
    if math.isnan(value):
        return "undefined"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    return _plain(abs(value), value < 0)


def _plain(size: float | int, negative: bool) -> str:
    if size == 0:
        return "0"
    if size < 0.000995:
        digits, power = f"{size:.1e}".split("e")
        text = f"{digits}×10{str(int(power)).translate(SUPERSCRIPTS)}"
    elif size < 0.0995:
        text = f"{size:.2g}"
    elif size < 9.995:
        text = f"{size:.2f}"
    elif size < 99.95:
        text = f"{size:.1f}"
    elif size < 999.5:
        text = f"{size:.0f}"
    else:
        for unit, name in ((1e3, "k"), (1e6, "M"), (1e9, "G"), (1e12, "T")):
            if size < 999.5 * unit or name == "T":
                text = f"{size / unit:.3g}{name}"
                break
    return f"−{text}" if negative else text


def amount(value: float | int) -> str:
    """A count, or a mean of counts: whole numbers stay whole.

    >>> amount(77), amount(32.5), amount(48213)
    ('77', '32.5', '48.2k')
    """
    return str(int(value)) if value < 1000 and float(value).is_integer() else short(value)


def signed(value: float | int) -> str:
    """A difference with its sign.

    >>> signed(0.125), signed(-2.0), signed(0.0)
    ('+0.12', '−2.00', '0')
    """
    return f"+{short(value)}" if value > 0 and math.isfinite(value) else short(value)


def interval(low: float, high: float, n: int, *, signs: bool = False) -> str:
    """The 95 % interval in brackets, or why there is none.

    Args:
        low: Its lower end.
        high: Its upper end.
        n: From how many values it was computed.
        signs: Whether positive ends get a plus sign, as differences do.
    """
    if math.isnan(low) or math.isnan(high):
        return "no interval"
    if low == high:
        return f"all {n} equal"
    write = signed if signs else short
    return f"[{write(low)}, {write(high)}]"


def count(number: int, noun: str) -> str:
    """A number with its noun.

    >>> count(1, "image"), count(7, "image")
    ('1 image', '7 images')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}".replace(",", " ")


def join_names(names: Sequence[str]) -> str:
    """Names as a list in a sentence.

    >>> join_names(["a"]), join_names(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def duration(seconds: float | int) -> str:
    """A duration in words.

    >>> duration(0.0123), duration(48.2), duration(312)
    ('12.3 ms', '48.2 s', '5 min 12 s')
    """
    if math.isnan(seconds):
        return "not measured"
    if seconds < 1:
        return f"{short(1000 * seconds)} ms"
    if seconds < 100:
        return f"{short(seconds)} s"
    whole = round(seconds)
    hours, minutes = whole // 3600, whole // 60
    return f"{minutes} min {whole % 60} s" if hours == 0 else f"{hours} h {minutes % 60} min"
