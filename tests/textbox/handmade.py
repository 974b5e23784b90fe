"""Frames of scores made by hand, so that what should be concluded from them is known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import pandas as pd

from snellen.textbox.report.bucket_means import PAPER
from snellen.textbox.scenes.settings import RULES, find_setting

Values = Callable[[str, int, str], tuple[float, float]]
"""From setting, bucket and method to PAFL and SAFL."""

rule_of = lru_cache(find_setting)


def frame_of(
    values: Values, methods: Sequence[str] = tuple(PAPER.values()), settings: Sequence[str] = tuple(RULES)
) -> pd.DataFrame:
    """Two images per bucket, .1 above and below the mean that is asked for; NaN where the rule has nothing to score."""
    rows = []
    for name in settings:
        rule = rule_of(name)
        for bucket in rule.defined:
            truth = rule.truths[bucket - 1]
            shown = ((bucket - 1) % 3 > 0) + ((bucket - 1) // 3 % 2) + (bucket > 6)
            for method in methods:
                pafl, safl = values(name, bucket, method)
                for at, apart in enumerate((-0.1, 0.1)):
                    on, off = (pafl + apart if truth.focus else float("nan")), (safl if truth.avoid else float("nan"))
                    scores = {"pafl": on, "safl": off, "piou": on, "siou": off, "pmafl": on, "smafl": off}
                    facts = {"setting": name, "simple": rule.simple, "bucket": bucket, "visible": shown}
                    rows.append({**facts, "sample": f"{bucket}/{at}", "method": method, **scores})
    return pd.DataFrame(rows)
