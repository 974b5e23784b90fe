"""How much of a full run its verdicts need: `--until settled` beside all images, on the same images, methods and metrics.

    python benchmarks/settled.py --images FOLDER --labels CSV --full runs/full --settled runs/settled [--model NAME]
    python benchmarks/settled.py --model digits --images zoo:digits --full runs/full --settled runs/settled

The full run takes long; stop the script whenever you like, it goes on where it was. Then the looks are replayed on the full
run's scores, for several orders of the images, with the passes that each would have taken by the plan. With `--settled` the
run until settled is really made too. Neither keeps maps. `--ratio` is the neighbours' time over ours for the same scores
(`metrics.py`, the battery); with it the time to a verdict is set against their time for all images: an extrapolation.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Container
from dataclasses import dataclass
from typing import cast

import pandas as pd

from snellen.images import Samples
from snellen.plugins.notation import split_names
from snellen.plugins.registry import label
from snellen.runs import Run
from snellen.runs import plan as planning
from snellen.runs.evaluate import evaluate
from snellen.runs.options import Options
from snellen.runs.progress import Live
from snellen.runs.schedule import seeded_order
from snellen.runs.settings import Settings
from snellen.runs.tasks import MissingUnit, Shard, cached_passes
from snellen.types import Passes
from snellen.verdicts import RunLooks, judge_run, run_sampling
from snellen.verdicts.rule import judge

METHODS = (
    "gradient,input-x-gradient,guided-backprop,lrp-epsilon,deeplift-rescale,grad-cam,layer-cam,hires-cam,"
    "random,edge,fake-cam,centre"
)
METRICS = (
    "deletion(steps=4),insertion(steps=4),lerf(steps=4),morf(steps=4),monotonicity(steps=4),sufficiency(steps=4),"
    "minimality(steps=4),average-drop,average-gain,average-increase,local-accuracy,completeness,faithfulness(cells=5),"
    "luminosity-calibration(cells=5),infidelity(samples=16),complexity,sparseness,sparsity,coherency,weight-randomisation"
)

Verdicts = dict[tuple[str, str], str]


@dataclass(frozen=True)
class Replay:
    """What the looks at the scores of a full run would have computed."""

    verdicts: Verdicts
    sizes: dict[tuple[str, str], int]
    """By method and metric, on how many images."""
    words: str
    seconds: float
    """Of the looks themselves."""


def replay(run: Run, scores: pd.DataFrame, seed: int, undecided: Container[tuple[str, str]] = ()) -> Replay:
    """Takes the looks at a run's scores, with its images in the order that this seed draws.

    Args:
        run: The full run.
        scores: Its scores.
        seed: Of the order.
        undecided: Pairs of a method and a metric that stop after the first look, as if it were known that all images leave
            them inconclusive.
    """
    names = [str(name) for name in run.samples()["sample"]]
    order = [names[place] for place in seeded_order(names, seed)]
    sampling = run_sampling(run)
    spec = run.record.spec.changed(until="settled", seed=run.record.spec.seed)
    looks, started = RunLooks(spec, order, sampling), time.perf_counter()
    place = scores["sample"].map({name: at for at, name in enumerate(order)})
    absent: dict[str, list[str]] = {}
    for method, metric in run.problems():
        absent.setdefault(metric, []).append(method)
    sizes: dict[tuple[str, str], int] = {}
    kept = []
    for metric in looks.tests:
        of_metric = scores[scores["metric"] == metric]
        while (size := looks.next_size(metric)) is not None:
            sizes |= {(method, metric): size for method in looks.needs(metric)}
            reach = of_metric["method"].map({method: sizes[method, metric] for method in of_metric["method"].unique()})
            if not looks.look(metric, of_metric[place[of_metric.index] < reach], absent.get(metric, ())):
                break
            test = looks.tests[metric]
            test._hopeless |= [(method, metric) in undecided for method in test.methods]
        kept.append(of_metric[place[of_metric.index] < reach])
    seconds = time.perf_counter() - started
    looked = {metric: test.result() for metric, test in looks.tests.items()}
    judged = judge(pd.concat(kept), spec.methods, spec.metrics, seed=spec.seed, sampling=sampling, looked=looked)
    return Replay({(each.method, each.metric): each.verdict for each in judged}, sizes, looks.words(), seconds)


def planned(
    sizes: dict[tuple[str, str], int], plan: planning.Plan, methods: list, metrics: list, images: int, shard: int
) -> int:
    """The passes through the model of these numbers of images, less what the cache saves."""
    units = []
    for start in range(0, images, shard):
        part = range(start, min(images, start + shard))
        for method in methods:
            chosen = tuple(by for by in metrics if sizes.get((label(method), label(by)), 0) > start)
            if chosen:
                place = Shard(part, cast(Samples, ()))
                key = f"{label(method)} {start}"
                units.append(MissingUnit(key=key, map_key=key, method=method, metrics=chosen, shard=place, stored=None))
    total = sum((unit.passes(plan) for unit in units), Passes()) - cached_passes(units, plan)
    return total.forward + total.backward


def differences(ours: Verdicts, theirs: Verdicts) -> list[str]:
    """The verdicts that differ, by name."""
    return [
        f"{method} by {metric}: {ours[method, metric]}, on all images {verdict}"
        for (method, metric), verdict in theirs.items()
        if ours[method, metric] != verdict
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="efficientnet-lite0")
    parser.add_argument("--images", required=True)
    parser.add_argument("--labels")
    parser.add_argument("--methods", default=METHODS)
    parser.add_argument("--metrics", default=METRICS)
    parser.add_argument("--full", required=True, help="the folder of the full run, which is continued")
    parser.add_argument("--settled", help="the folder of the run until settled, which is continued too")
    parser.add_argument("--seeds", type=int, default=3, help="how many orders of the images to replay")
    parser.add_argument("--ratio", type=float, help="the neighbours' time over ours for the same scores")
    options = parser.parse_args()
    values = {"model": options.model, "images": options.images, "labels": options.labels, "out": options.full}
    settings = Settings.of(
        {name: value for name, value in values.items() if value is not None}
        | {"methods": split_names(options.methods), "metrics": split_names(options.metrics)}
    )
    observer = Live()
    classifier, samples = settings.load(observer)
    methods, metrics = planning.parse_methods(settings.methods), planning.parse_metrics(settings.metrics)
    all_images = Options(keep_maps="none")
    run = evaluate(
        classifier, samples, methods=methods, metrics=metrics, out=options.full, options=all_images, observer=observer
    )
    whole = {(each.method, each.metric): each.verdict for each in judge_run(run).judgements}
    images, shard, scores = len(samples), run.record.spec.shard, run.scores()
    inputs = classifier.to_inputs(samples[0].image[None])
    plan = planning.plan_passes(classifier, methods, metrics, (inputs.shape[2], inputs.shape[3]))
    everything = {(label(method), label(by)): images for method in methods for by in metrics}
    most = planned(everything, plan, methods, metrics, images, shard)
    totals = run.record.totals
    if totals is None:
        raise SystemExit(f"'{options.full}' is not finished; give the same command again")
    print(
        f"\n{images} images, {len(methods)} methods of which {len(run.methods) - len({m for m, _ in whole})} are controls, "
        f"{len(metrics)} metrics: {len(whole)} verdicts, {dict(Counter(whole.values()))}"
    )
    print(f"full run: {totals.forward + totals.backward:,} passes ({most:,} by the plan), {totals.seconds:,.0f} s of work")
    shares = []
    for seed in range(options.seeds):
        outcome = replay(run, scores, seed)
        taken = planned(outcome.sizes, plan, methods, metrics, images, shard)
        cells = sum(outcome.sizes.values()) / (images * len(everything))
        shares.append(taken / most)
        other = differences(outcome.verdicts, whole)
        print(
            f"order {seed}: {taken / most:.1%} of the passes, {cells:.1%} of the scores; {len(other)} of {len(whole)} "
            f"verdicts differ; the looks took {outcome.seconds:.1f} s; {outcome.words}"
        )
        print("".join(f"    {words}\n" for words in other), end="")
        undecided = {pair for pair, verdict in whole.items() if verdict == "inconclusive"}
        foreseen = replay(run, scores, seed, undecided)
        share = planned(foreseen.sizes, plan, methods, metrics, images, shard) / most
        print(f"    {share:.1%} of the passes if it were known after the first look what all images leave inconclusive")
    if options.settled:
        stopping = Options(until="settled", keep_maps="none")
        stopped = evaluate(
            classifier, samples, methods=methods, metrics=metrics, out=options.settled, options=stopping, observer=observer
        )
        cost = stopped.record.totals
        ours = {(each.method, each.metric): each.verdict for each in judge_run(stopped).judgements}
        print(
            f"really run: {cost.forward + cost.backward:,} passes, {cost.seconds:,.0f} s of work, "
            f"{cost.wall_seconds:,.0f} s in all; {len(differences(ours, whole))} of {len(whole)} verdicts differ"
        )
        print("".join(f"    {words}\n" for words in differences(ours, whole)), end="")
    if options.ratio:
        share = sum(shares) / len(shares)
        print(
            f"time to verdict: the neighbours' {options.ratio:g} times our time for all scores, and {share:.1%} of the "
            f"passes: about {options.ratio / share:.1f} times as fast as theirs on all images (extrapolated)"
        )


if __name__ == "__main__":
    main()
