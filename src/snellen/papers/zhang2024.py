"""The four tables of "Saliency Maps Give a False Sense of Explainability to Image Classifiers"."""

from __future__ import annotations

from collections.abc import Mapping

from snellen.papers import table_rules as rules
from snellen.papers.claims import Claim, RuleResult, all_of, none_of
from snellen.papers.published_table import PublishedColumn, PublishedTable, TableBlock, per_cent, per_cent_left, unchanged
from snellen.papers.table_rules import CAM, FAKE, FIDELITY, GRADIENT

_METHODS = {
    FAKE: "fake-cam", "Gradient": "gradient@zhang2024", "IG": "integrated-gradients@zhang2024",
    "GuidedBP": "guided-backprop@zhang2024", "Grad-CAM": "grad-cam@zhang2024", "Grad-CAM++": "grad-cam++@zhang2024",
    "Score-CAM": "score-cam@zhang2024", "RISE": "rise@zhang2024", "LIME": "lime@zhang2024", "IBA": "iba@zhang2024",
}  # fmt: skip

_FIDELITY = {
    "average_increase": PublishedColumn(metric="average-increase", unit=per_cent, short="AI"),
    "100-average_drop": PublishedColumn(metric="average-drop", unit=per_cent_left, short="100−AD"),
    "average_gain": PublishedColumn(metric="average-gain", unit=per_cent, short="AG"),
    "insertion": PublishedColumn(metric="insertion@zhang2024", unit=per_cent, short="I"),
    "100-deletion": PublishedColumn(metric="deletion@zhang2024", unit=per_cent_left, short="100−D"),
}

_NO_EVAL = (
    "The published gradient and IG maps come from code that never calls eval(), so normalisation layers used the statistics "
    "of single images: do not expect those two rows to match."
)
_CURVES = (
    "Insertion starts from the published kernel of 5 pixels, a flat mean, where the metric's authors blur with 11; both "
    "curves take 28 steps."
)
_TIES = "The published code orders equal pixels by their position in memory; here their order is random."
_SQUASHED = (
    "The paper resizes pictures to 256×256 whatever their proportions, then crops 224×224; here proportions are kept."
)

_FAKE_TOP = Claim(
    sentence="Fake-CAM, a map without information, is in the top two on AI and AD",
    rule=all_of(rules.in_top_two(FAKE, "average_increase"), rules.in_top_two(FAKE, "100-average_drop")),
)
_GAIN_NOT_FOOLED = Claim(
    sentence="AG and I are not fooled: Fake-CAM is not in their top two",
    rule=none_of(rules.in_top_two(FAKE, "average_gain"), rules.in_top_two(FAKE, "insertion")),
)
_GRADIENT_LAST = Claim(
    sentence="gradient-based methods are last on most fidelity metrics", rule=rules.last_on_most(GRADIENT, FIDELITY)
)
_CAM_FIRST = Claim(
    sentence="CAM-based methods have the best mean rank over fidelity metrics", rule=rules.best_group(CAM, FIDELITY)
)


_CHANGES: dict[str, tuple[Mapping[str, str | int], ...]] = {
    "mixup": tuple({"condition": "mixup", "seed": seed} for seed in range(4)),
    "resize": tuple({"condition": f"resize(side={side})"} for side in (64, 32, 128, 448)),
    "rotation": tuple({"condition": f"rotation(degrees={degrees}, fill=[0.45])"} for degrees in (45, 135, 225, 315)),
    "crop": tuple({"condition": "crop", "seed": seed} for seed in range(4)),
}
_TRANSFORMS = tuple(_CHANGES)

TABLES = (
    PublishedTable(
        name="zhang2024-table1",
        cite="zhang2024",
        title="Table 1: fidelity, explaining the true class",
        file="zhang2024_table1_fidelity.csv",
        methods=_METHODS,
        columns={
            **_FIDELITY,
            "monotonicity": PublishedColumn(metric="monotonicity-correlation", unit=unchanged, short="mono"),
        },
        blocks=(TableBlock(settings={"target": "label"}),),
        claims=(
            _FAKE_TOP,
            Claim(
                sentence="Fake-CAM is in the top two on monotonicity",
                rule=rules.in_top_two(FAKE, "monotonicity"),
                note="its published 0.57 ranks equal chunks by their position in memory; here equal chunks share their rank",
            ),
            _GAIN_NOT_FOOLED,
            _GRADIENT_LAST,
            _CAM_FIRST,
        ),
        differs=(_NO_EVAL, _CURVES, _TIES, _SQUASHED),
    ),
    PublishedTable(
        name="zhang2024-table2",
        cite="zhang2024",
        title="Table 2: fidelity, explaining three classes",
        file="zhang2024_table2_targets.csv",
        methods=_METHODS,
        columns=_FIDELITY,
        blocks=(
            TableBlock(title="the true class", published="ground_truth", settings={"target": "label"}),
            TableBlock(title="the predicted class", published="predicted", settings={"target": "predicted"}),
            TableBlock(title="the least likely class", published="least_probable", settings={"target": "least-likely"}),
        ),
        claims=(
            Claim(
                sentence="for the least likely class AI, 100−AD and 100−D rise above those of the predicted class",
                rule=all_of(
                    *(
                        rules.moves(metric, "predicted", "least_probable", up=True)
                        for metric in ("average_increase", "100-average_drop", "100-deletion")
                    )
                ),
            ),
            Claim(
                sentence="for the least likely class AG and I fall below those of the predicted class",
                rule=all_of(
                    *(
                        rules.moves(metric, "predicted", "least_probable", up=False)
                        for metric in ("average_gain", "insertion")
                    )
                ),
            ),
            Claim(
                sentence="I is not lower for the predicted than for the true class",
                rule=none_of(rules.moves("insertion", "ground_truth", "predicted", up=False)),
                note="the paper's text says that all metrics are best for the true class; its own table disagrees for I",
            ),
            Claim(
                sentence="Fake-CAM is in the top two on AI and AD for the predicted class",
                rule=all_of(
                    rules.in_top_two(FAKE, "average_increase", "predicted"),
                    rules.in_top_two(FAKE, "100-average_drop", "predicted"),
                ),
            ),
        ),
        differs=(_NO_EVAL, _CURVES, _TIES, _SQUASHED),
        left_out={"Score-CAM": "it takes a pass per channel of the last layer, for each of three classes"},
    ),
    PublishedTable(
        name="zhang2024-table3",
        cite="zhang2024",
        title="Table 3: robustness and complexity",
        file="zhang2024_table3_robustness_complexity.csv",
        methods=_METHODS,
        columns={
            "max_sensitivity": PublishedColumn(metric="max-sensitivity", unit=unchanged, short="MS"),
            "avg_sensitivity": PublishedColumn(metric="avg-sensitivity", unit=unchanged, short="AS"),
            "sparseness": PublishedColumn(metric="sparseness", unit=per_cent, short="sparse"),
            "complexity": PublishedColumn(metric="complexity", unit=unchanged, short="complex"),
            "effective_complexity": PublishedColumn(metric="effective-complexity-count", unit=unchanged, short="EC"),
        },
        blocks=(TableBlock(settings={"target": "label"}),),
        claims=(
            Claim(
                sentence="Fake-CAM, a constant map, has MS = AS = 0, as the definition demands",
                rule=all_of(
                    rules.about(FAKE, "max_sensitivity", 0.0, 1e-6), rules.about(FAKE, "avg_sensitivity", 0.0, 1e-6)
                ),
                note="the published 0.96 compares each method's map with the map of another method",
            ),
            Claim(
                sentence="robustness hardly tells methods apart: all MS lie within a factor of two",
                rule=rules.close_together("max_sensitivity", 2.0),
                note="probably an effect of the same mistake",
            ),
            Claim(
                sentence="complexity metrics recognise the extreme: Fake-CAM is the least sparse and the most complex",
                rule=all_of(
                    rules.extreme(FAKE, "sparseness", highest=False), rules.extreme(FAKE, "complexity", highest=True)
                ),
            ),
            Claim(sentence="LIME is the sparsest", rule=rules.extreme("LIME", "sparseness", highest=True)),
        ),
        differs=(
            "The published MS and AS perturb the picture, explain it with another method, and compare with the method's own "
            "map; here the same method explains again.",
            "The published EC counts pixels above 10⁻⁵, as here; the definition in the text is effective-complexity. It is "
            "counted on the raw map here, and on the map rescaled to [0, 1] in the published code.",
            _NO_EVAL,
            _SQUASHED,
        ),
        left_out={
            "Score-CAM": "eleven maps of one pass per channel each for every picture",
            "IBA": "eleven maps of a hundred backward passes each for every picture",
        },
    ),
    PublishedTable(
        name="zhang2024-table4",
        cite="zhang2024",
        title="Table 4: fidelity on changed pictures",
        file="zhang2024_table4_transforms.csv",
        methods=_METHODS,
        columns=_FIDELITY,
        blocks=tuple(
            TableBlock(title=name, published=name, settings={"target": "label"}, variations=variations)
            for name, variations in _CHANGES.items()
        ),
        claims=(
            Claim(
                sentence="AG is the metric that moves least", rule=rules.moves_least("average_gain", FIDELITY, _TRANSFORMS)
            ),
            Claim(
                sentence="gradient-based methods move more with the change than CAM-based ones",
                rule=rules.moves_more(GRADIENT, CAM, ("average_increase", "100-average_drop"), _TRANSFORMS),
            ),
            Claim(
                sentence="AD of Fake-CAM drops dramatically with resize",
                rule=lambda values: RuleResult(
                    values.get("resize", FAKE, "100-average_drop") < values.get("crop", FAKE, "100-average_drop") / 2
                ),
                note="the published AD and AG of that row look exchanged",
            ),
        ),
        differs=(
            "The columns AD and D of the published table are 100−AD and 100−D.",
            "The published resize row of Fake-CAM (AD 2.0, AG 90.5) looks as if the two were exchanged.",
            "The paper takes 1000 pictures and four variations of each change (--variations 4; the default is 1).",
            "Rotated pictures have grey corners here; in the paper these have the mean colour of ImageNet.",
            "A mixed picture has the label of the larger share here; in the paper always that of the first picture.",
            _NO_EVAL,
            _TIES,
        ),
        left_out={
            "Score-CAM": "it takes a pass per channel of the last layer, for each of four changes",
            "IBA": "it takes a hundred backward passes per map, for each of four changes",
        },
    ),
)
