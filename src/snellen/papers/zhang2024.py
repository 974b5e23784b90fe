"""The four tables of "Saliency Maps Give a False Sense of Explainability to Image Classifiers"."""

from __future__ import annotations

from collections.abc import Mapping

from snellen.papers import table_rules as findings
from snellen.papers.published_table import Arm, Column, Protocol, as_it_is, per_cent, per_cent_left
from snellen.papers.table_rules import CAM, FAKE, FIDELITY, GRADIENT, Finding

_METHODS = {
    FAKE: "fake-cam", "Gradient": "gradient@zhang2024", "IG": "integrated-gradients@zhang2024",
    "GuidedBP": "guided-backprop@zhang2024", "Grad-CAM": "grad-cam@zhang2024", "Grad-CAM++": "grad-cam++@zhang2024",
    "Score-CAM": "score-cam@zhang2024", "RISE": "rise@zhang2024", "LIME": "lime@zhang2024", "IBA": "iba@zhang2024",
}  # fmt: skip

_FIDELITY = {
    "average_increase": Column("average-increase", per_cent, "AI"),
    "100-average_drop": Column("average-drop", per_cent_left, "100−AD"),
    "average_gain": Column("average-gain", per_cent, "AG"),
    "insertion": Column("insertion@zhang2024", per_cent, "I"),
    "100-deletion": Column("deletion@zhang2024", per_cent_left, "100−D"),
}

_NO_EVAL = (
    "The published gradient and IG maps come from code that never calls eval(), so normalisation layers used the statistics "
    "of single images: do not expect those two rows to match."
)
_CURVES = (
    "Insertion starts from the published kernel of 5 pixels, a flat mean, where the metric's authors blur with 11; both "
    "curves take 28 steps."
)
_TIES = (
    "The published code orders equal pixels by their place in memory; here lots are drawn, so a constant map gets no order."
)
_SQUASHED = "The paper squashes pictures to 256×256 before cutting 224×224; here the shape is kept."

_FAKE_TOP = Finding(
    "Fake-CAM, a map that knows nothing, is in the top two on AI and AD",
    findings.both(findings.in_top_two(FAKE, "average_increase"), findings.in_top_two(FAKE, "100-average_drop")),
)
_GAIN_NOT_FOOLED = Finding(
    "AG and I are not fooled: Fake-CAM is not in their top two",
    findings.neither(findings.in_top_two(FAKE, "average_gain"), findings.in_top_two(FAKE, "insertion")),
)
_GRADIENT_LAST = Finding(
    "gradient-based methods are last on most fidelity metrics", findings.last_on_most(GRADIENT, FIDELITY)
)
_CAM_FIRST = Finding("CAM-based methods have the best mean rank over fidelity metrics", findings.best_group(CAM, FIDELITY))


_CHANGES: dict[str, tuple[Mapping[str, str | int], ...]] = {
    "mixup": tuple({"condition": "mixup", "seed": seed} for seed in range(4)),
    "resize": tuple({"condition": f"resize(side={side})"} for side in (64, 32, 128, 448)),
    "rotation": tuple({"condition": f"rotation(degrees={degrees}, fill=[0.45])"} for degrees in (45, 135, 225, 315)),
    "crop": tuple({"condition": "crop", "seed": seed} for seed in range(4)),
}
_TRANSFORMS = tuple(_CHANGES)

TABLES = (
    Protocol(
        name="zhang2024-table1",
        cite="zhang2024",
        title="Table 1: fidelity, explaining the true class",
        file="zhang2024_table1_fidelity.csv",
        methods=_METHODS,
        columns={**_FIDELITY, "monotonicity": Column("monotonicity-correlation", as_it_is, "mono")},
        arms=(Arm("", "", {"target": "label"}),),
        findings=(
            _FAKE_TOP,
            Finding(
                "Fake-CAM is in the top two on monotonicity",
                findings.in_top_two(FAKE, "monotonicity"),
                "its published 0.57 ranks equal chunks by their place in memory; here equal chunks share their rank",
            ),
            _GAIN_NOT_FOOLED,
            _GRADIENT_LAST,
            _CAM_FIRST,
        ),
        differs=(_NO_EVAL, _CURVES, _TIES, _SQUASHED),
    ),
    Protocol(
        name="zhang2024-table2",
        cite="zhang2024",
        title="Table 2: fidelity, explaining three classes",
        file="zhang2024_table2_targets.csv",
        methods=_METHODS,
        columns=_FIDELITY,
        arms=(
            Arm("the true class", "ground_truth", {"target": "label"}),
            Arm("the predicted class", "predicted", {"target": "predicted"}),
            Arm("the least likely class", "least_probable", {"target": "least-likely"}),
        ),
        findings=(
            Finding(
                "for the least likely class AI, 100−AD and 100−D rise above those of the predicted class",
                findings.both(
                    *(
                        findings.moves(one, "predicted", "least_probable", up=True)
                        for one in ("average_increase", "100-average_drop", "100-deletion")
                    )
                ),
            ),
            Finding(
                "for the least likely class AG and I fall below those of the predicted class",
                findings.both(
                    *(findings.moves(one, "predicted", "least_probable", up=False) for one in ("average_gain", "insertion"))
                ),
            ),
            Finding(
                "I is not lower for the predicted than for the true class",
                findings.neither(findings.moves("insertion", "ground_truth", "predicted", up=False)),
                "the paper's text says that all metrics are best for the true class; its own table says otherwise for I",
            ),
            Finding(
                "Fake-CAM is in the top two on AI and AD for the predicted class",
                findings.both(
                    findings.in_top_two(FAKE, "average_increase", "predicted"),
                    findings.in_top_two(FAKE, "100-average_drop", "predicted"),
                ),
            ),
        ),
        differs=(_NO_EVAL, _CURVES, _TIES, _SQUASHED),
        left_out={"Score-CAM": "it takes a pass per channel of the last layer, for each of three classes"},
    ),
    Protocol(
        name="zhang2024-table3",
        cite="zhang2024",
        title="Table 3: robustness and complexity",
        file="zhang2024_table3_robustness_complexity.csv",
        methods=_METHODS,
        columns={
            "max_sensitivity": Column("max-sensitivity", as_it_is, "MS"),
            "avg_sensitivity": Column("avg-sensitivity", as_it_is, "AS"),
            "sparseness": Column("sparseness", per_cent, "sparse"),
            "complexity": Column("complexity", as_it_is, "complex"),
            "effective_complexity": Column("effective-complexity-count", as_it_is, "EC"),
        },
        arms=(Arm("", "", {"target": "label"}),),
        findings=(
            Finding(
                "Fake-CAM, a constant map, has MS = AS = 0, as the definition demands",
                findings.both(
                    findings.about(FAKE, "max_sensitivity", 0.0, 1e-6), findings.about(FAKE, "avg_sensitivity", 0.0, 1e-6)
                ),
                "the published 0.96 compares each method's map with the map of another method",
            ),
            Finding(
                "robustness hardly tells methods apart: all MS lie within a factor of two",
                findings.close_together("max_sensitivity", 2.0),
                "probably an effect of the same mistake",
            ),
            Finding(
                "complexity metrics name the extreme: Fake-CAM is the least sparse and the most complex",
                findings.both(
                    findings.extreme(FAKE, "sparseness", highest=False), findings.extreme(FAKE, "complexity", highest=True)
                ),
            ),
            Finding("LIME is the sparsest", findings.extreme("LIME", "sparseness", highest=True)),
        ),
        differs=(
            "The published MS and AS perturb the picture, explain it with another method, and compare with the method's own "
            "map; here the same method explains again.",
            "The published EC counts pixels above 10⁻⁵, as here; the definition in the text is effective-complexity. It is "
            "counted on the raw map here, on the map stretched to [0, 1] there.",
            _NO_EVAL,
            _SQUASHED,
        ),
        left_out={
            "Score-CAM": "eleven maps of one pass per channel each for every picture",
            "IBA": "eleven maps of a hundred backward passes each for every picture",
        },
    ),
    Protocol(
        name="zhang2024-table4",
        cite="zhang2024",
        title="Table 4: fidelity on changed pictures",
        file="zhang2024_table4_transforms.csv",
        methods=_METHODS,
        columns=_FIDELITY,
        arms=tuple(Arm(one, one, {"target": "label"}, variations) for one, variations in _CHANGES.items()),
        findings=(
            Finding("AG is the metric that moves least", findings.steadiest("average_gain", FIDELITY, _TRANSFORMS)),
            Finding(
                "gradient-based methods move more with the change than CAM-based ones",
                findings.moves_more(GRADIENT, CAM, ("average_increase", "100-average_drop"), _TRANSFORMS),
            ),
            Finding(
                "AD of Fake-CAM drops dramatically with resize",
                lambda values: (
                    values.get("resize", FAKE, "100-average_drop") < values.get("crop", FAKE, "100-average_drop") / 2
                ),
                "the published AD and AG of that row look exchanged",
            ),
        ),
        differs=(
            "The columns AD and D of the published table are 100−AD and 100−D.",
            "The published resize row of Fake-CAM (AD 2.0, AG 90.5) looks as if the two were exchanged.",
            "The paper takes four variations of each change (--variations 4) and 1000 pictures; one is run by default.",
            "Turned pictures have grey corners, as there; there in the mean colour of ImageNet.",
            "Mixed pictures carry the label of the larger share here, always that of the first picture there.",
            _NO_EVAL,
            _TIES,
        ),
        left_out={
            "Score-CAM": "it takes a pass per channel of the last layer, for each of four changes",
            "IBA": "it takes a hundred backward passes per map, for each of four changes",
        },
    ),
)
