"""evaluate() -> Run: the only loop."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from snellen.classifier import Classifier
from snellen.errors import SnellenError
from snellen.files.documents import check_shape
from snellen.files.folder import LocalFolder
from snellen.images import apply_condition
from snellen.plugins.registry import CONDITIONS
from snellen.runs import chosen_targets, variant_training
from snellen.runs import plan as planning
from snellen.runs.executors import crew_of, visible_devices
from snellen.runs.job import Job, UnfinishedError
from snellen.runs.options import Options, Seed
from snellen.runs.progress import Observer, default_observer
from snellen.runs.run import Run
from snellen.runs.store import Store
from snellen.runs.subject import samples_for
from snellen.runs.torch_modes import usual_modes


@usual_modes()
def evaluate(
    classifier: Any,
    samples: Any,
    *,
    methods: Any = (),
    metrics: Any,
    maps: Any = None,
    map_range: Any = None,
    target: Any = "predicted",
    condition: Any = None,
    seed: int = 0,
    out: str | Path | None = None,
    options: Options | None = None,
    executor: Executor | None = None,
    observer: Observer | None = None,
    recipe: Any = None,
    training: Any = None,
    checkpoints: Any = None,
    trust: bool = False,
) -> Run:
    """Explains every sample by every method, scores the maps by every metric, and stores all of it in a run folder.

    Calling it again with the same folder continues: finished units are never repeated, new methods and metrics are added.

    Args:
        classifier: A `Classifier`, or a module or function that becomes one.
        samples: `Samples`, a folder, files, arrays, a Dataset, or a list of `Sample`.
        methods: A list of names, texts with settings or plug-ins, or one text of comma-separated names.
        metrics: The same; None computes the maps alone.
        maps: Maps made elsewhere, by a name for each set: a folder, an .npz or .safetensors file, a dictionary of arrays by
            sample id, or an array with a map per sample. They are scored like a method's, and never computed.
        map_range: The two numbers that black and white mean, where these maps are PNG files.
        target: What maps explain: predicted, label, every-label, least-likely, a class name or its number, contrast(a, b),
            up or down for a number, or a function from logits to one number per row.
        condition: Changes all images first, such as `rotation(degrees=45)`.
        seed: Changes every random draw.
        out: The run folder, or a URL such as s3://bucket/runs/mine; without one, a temporary folder that lives as long as
            the Run.
        options: How to compute.
        executor: Any `concurrent.futures.Executor`, instead of `options.workers`, which then says how many calls it runs at
            a time where the executor itself does not.
        observer: Shows progress.
        recipe: Trains variants for metrics that compare with other models; see `types.Recipe`.
        training: Labelled images for the recipe.
        checkpoints: A folder of state dicts that were saved while the classifier was trained.
        trust: Whether to open pickled models in `out` that were not made here, which executes what they hold.
    """
    if (recipe is None) != (training is None):
        raise SnellenError("a recipe and training images belong together: give --recipe and --training, or neither")
    if out is not None and not str(out).strip():
        raise SnellenError("out is empty; name the run folder, or leave it out")
    check_shape(Seed, seed, "seed")
    (options or Options()).check()
    progress = observer or default_observer()
    with _run_folder(out) as folder, ExitStack() as stack:
        wrapped = classifier if isinstance(classifier, Classifier) else Classifier(classifier)
        if options is not None and options.fold_norms:
            wrapped = wrapped.with_folded_norms()
        devices = visible_devices() if str(wrapped.device) == "cuda" else ()  # cuda:1 is that card for all workers
        crew = stack.enter_context(crew_of(executor, (options or Options()).workers, devices))
        parsed_condition = None if condition is None else CONDITIONS.parse(condition)
        plain = samples_for(wrapped, samples)
        job = Job(
            # What lives as long as the Run need not outlast a loss of power.
            store=Store(LocalFolder(folder, durable=False) if out is None else folder, progress.note),
            classifier=wrapped,
            samples=plain if parsed_condition is None else apply_condition(plain, parsed_condition, seed=seed),
            methods=planning.parse_methods(methods, maps, map_range),
            metrics=[] if metrics is None else planning.parse_metrics(metrics),
            target=chosen_targets.plain_target(target),
            condition=parsed_condition,
            seed=seed,
            options=options or Options(),
            crew=crew,
            observer=progress,
            recipe=None if recipe is None else variant_training.find_recipe(recipe),
            training=None if training is None else variant_training.find_training(training, wrapped),
            checkpoints={} if checkpoints is None else variant_training.find_checkpoints(checkpoints, wrapped),
            trust=trust,
        )
        fitted_before = dict(wrapped.fitted_state)
        with job.store.writing():
            try:
                job.in_order().run()
            finally:
                job.observer.end()
                wrapped.fitted_state = fitted_before  # states that were fitted to these samples do not fit others
        return Run(folder, temporary=out is None)


@contextmanager
def _run_folder(out: str | Path | None) -> Iterator[str | Path]:
    """The folder to write to; a temporary one is removed where an error leaves nothing computed in it."""
    if out is not None:
        yield out
        return
    folder = Path(tempfile.mkdtemp(prefix="snellen-"))
    try:
        yield folder
    except UnfinishedError:
        raise
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
