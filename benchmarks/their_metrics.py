"""The other side of `metrics.py`: the same scores by captum.metrics, pytorch-grad-cam, torch-cam, and Quantus.

Every advantage that costs them nothing is given: evaluation mode, parameters without gradients, rows per pass and noise as
Snellen has them, drawn before the clock starts. Where a library cannot be asked for the same number by its settings alone,
the note says what was done.
"""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Callable
from typing import Any

import captum.metrics
import numpy as np
import torch
from pytorch_grad_cam.metrics.arcc import Coherency
from pytorch_grad_cam.metrics.cam_mult_image import CamMultImageConfidenceChange, IncreaseInConfidence
from pytorch_grad_cam.metrics.perturbation_confidence import PerturbationConfidenceMetric, RemoveMostRelevantFirst
from pytorch_grad_cam.metrics.road import NoisyLinearImputer
from pytorch_grad_cam.utils.model_targets import ClassifierOutputSoftmaxTarget
from torch import Tensor, nn

from quantus_metrics import quantus_judges
from snellen.maps.folding import unit_mask
from snellen.metrics.sensitivity import MaxSensitivity, perturb_inputs
from snellen.plugins.registry import METRICS
from snellen.types import Case, Rng
from theirs import Judge, Prepare, Rival, Work, now


def contests(work: Work, pixels: int, rng: Rng) -> list[Judge]:
    """Everyone else who computes one of our metrics, or several at once."""
    return [*quantus_judges(work, pixels, rng), *_captum(work, rng), *_torch_cam(work), *_grad_cam()]


# captum --------------------------------------------------------------------------------------------------------------


class Drawn:
    """What was drawn for each sample, sample by sample, handed out a few draws at a time as captum asks for them."""

    def __init__(self, rows: Tensor, samples: int) -> None:
        self.draws, self.at = rows.unflatten(0, (samples, -1)), 0

    def take(self, rows: int) -> Tensor:
        """The next draws of every sample, as many as make so many rows."""
        count = rows // len(self.draws)
        draws = self.draws[:, self.at : self.at + count].flatten(0, 1)
        self.at = (self.at + count) % self.draws.shape[1]
        return draws


def _captum(work: Work, rng: Rng) -> list[Judge]:
    samples, squares = work.perturbations, f"samples={work.squares}"

    def captum_sensitivity(case: Case, rival: Rival) -> Callable[[], Any]:
        drawn = Drawn(perturb_inputs(case.inputs, samples, MaxSensitivity().radius, rng=rng.child("sensitivity")), len(case))

        def explain(inputs: Any, target: Tensor) -> tuple[Tensor]:
            return (rival.explain(inputs[0] if isinstance(inputs, tuple) else inputs, target).detach(),)

        return lambda: captum.metrics.sensitivity_max(
            explain,
            case.inputs,
            perturb_func=lambda inputs: drawn.take(len(inputs)),
            n_perturb_samples=samples,
            max_examples_per_batch=case.classifier.rows_for(case.inputs, gradients=True),
            target=case.targets,
        )

    def unfaithful(*, scaled: bool) -> Prepare:
        def prepare(case: Case, rival: Rival) -> Callable[[], Any]:
            ours = METRICS.parse(f"infidelity({squares})")
            masks = torch.stack(list(ours.perturbations(case.inputs, rng=rng.child("infidelity"))), dim=1)  # type: ignore[attr-defined]
            drawn = Drawn(masks.flatten(0, 1).unsqueeze(1), len(case))
            first = torch.zeros_like(case.inputs)
            first[:, 0] = case.maps  # captum wants a value per channel, and adds them up

            def perturb_inputs(inputs: Tensor) -> tuple[Tensor, Tensor]:
                inside = drawn.take(len(inputs)).expand_as(inputs)
                return inside, torch.where(inside > 0, 0.0, inputs)

            return lambda: captum.metrics.infidelity(
                case.classifier.module,
                perturb_inputs,
                case.inputs,
                first,
                target=case.targets,
                n_perturb_samples=work.squares,
                max_examples_per_batch=case.classifier.rows_for(case.inputs),
                normalize=scaled,
            )

        return prepare

    note = "with our squares; asks for the picture itself with every batch"
    return [
        Judge("captum sensitivity_max", captum_sensitivity, explains=True, ours=(f"max-sensitivity(samples={samples})",),
              note="with our noise; explains the picture itself again"),
        Judge("captum infidelity", unfaithful(scaled=False), ours=(f"infidelity({squares})",), note=note),
        Judge("captum infidelity", unfaithful(scaled=True), ours=(f"infidelity({squares}, scaled=true)",), note=note),
    ]  # fmt: skip


# torch-cam -----------------------------------------------------------------------------------------------------------


class Extractor:
    """Maps that were computed before, where torch-cam expects somebody who computes them."""

    def __init__(self, model: nn.Module, maps: Callable[[], Tensor]) -> None:
        self.model, self.maps = model, maps

    def __call__(self, class_idx: Any = None, scores: Any = None, **rest: Any) -> list[Tensor]:
        """One map per image."""
        return [self.maps()]

    def fuse_cams(self, cams: list[Tensor]) -> Tensor:
        """There is one layer."""
        return cams[0]

    def _hooks_off(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()


def _torch_cam(work: Work) -> list[Judge]:
    if importlib.util.find_spec("torchcam") is None:
        return []
    from torchcam.metrics import ClassificationMetric, DeletionInsertionMetric

    class Curves(DeletionInsertionMetric):  # type: ignore[misc]
        """Keeps the curves, of which torch-cam gives the mean area alone."""

        def _compute_curves(self, *arguments: Any, **named: Any) -> tuple[Tensor, Tensor, Tensor]:
            self.curves: tuple[Tensor, Tensor, Tensor] = super()._compute_curves(*arguments, **named)
            return self.curves

    def softmax(logits: Tensor) -> Tensor:
        return logits.softmax(dim=1)

    def curves(case: Case, rival: Rival) -> Any:
        extractor, rows = Extractor(case.classifier.module, lambda: case.maps), case.classifier.rows_for(case.inputs)
        metric = Curves(extractor, softmax, steps=work.sweep, batch_size=rows)
        metric.update(case.inputs, case.targets.tolist())
        fractions, deletion, insertion = metric.curves
        return torch.stack([torch.trapezoid(curve, fractions, dim=1) for curve in (deletion, insertion)])

    def confidence(case: Case, rival: Rival) -> Any:
        metric = ClassificationMetric(Extractor(case.classifier.module, lambda: unit_mask(case.maps)), softmax)
        metric.update(case.inputs, case.targets.tolist())
        summary = metric.summary()
        return [[summary["avg_drop"]], [summary["conf_increase"]]]

    return [
        Judge("torch-cam DeletionInsertionMetric", now(curves), ordered=True,
              ours=(f"deletion(steps={work.sweep})", f"insertion(steps={work.sweep}, fill=mean)")),
        Judge("torch-cam ClassificationMetric", now(confidence), note="gives means alone",
              ours=("average-drop(fill=mean)", "average-increase(fill=mean)")),
    ]  # fmt: skip


# pytorch-grad-cam ----------------------------------------------------------------------------------------------------


def _grad_cam() -> list[Judge]:
    def outputs(case: Case) -> list[ClassifierOutputSoftmaxTarget]:
        return [ClassifierOutputSoftmaxTarget(target) for target in case.targets.tolist()]

    def change(case: Case, rival: Rival) -> Any:
        metric = CamMultImageConfidenceChange()
        return np.abs(metric(case.inputs, unit_mask(case.maps).numpy(), outputs(case), case.classifier.module))

    def increase(case: Case, rival: Rival) -> Any:
        return IncreaseInConfidence()(case.inputs, unit_mask(case.maps).numpy(), outputs(case), case.classifier.module)

    def coherency(case: Case, rival: Rival) -> Any:
        def explain(input_tensor: Tensor, targets: Any) -> Any:
            return rival.explain(input_tensor, case.targets).detach().numpy()

        return Coherency()(case.inputs, unit_mask(case.maps).numpy(), outputs(case), case.classifier.module, explain)

    def road(case: Case, rival: Rival) -> Callable[[], Any]:
        first = case.classifier.output(case.inputs, case.targets, "probability").numpy()
        pixels = case.maps[0].numel()
        removed = [round(fraction * pixels) for fraction in METRICS.build("road").fractions]  # type: ignore[attr-defined]

        def run() -> Any:
            scores = []
            for count in removed:
                between = 100 * (pixels - count - 0.5) / (pixels - 1)  # of all values, those that stay and those that go
                remove = RemoveMostRelevantFirst(between, NoisyLinearImputer(noise=0.0))
                metric = PerturbationConfidenceMetric(remove)
                scores.append(metric(case.inputs, case.maps.numpy(), outputs(case), case.classifier.module))
            return np.mean(scores, axis=0) + first

        return run

    return [
        Judge("pytorch-grad-cam CamMultImageConfidenceChange", now(change), ours=("local-accuracy(fill=mean)",),
              note="its magnitude"),
        Judge("pytorch-grad-cam IncreaseInConfidence", now(increase), ours=("average-increase(fill=mean)",)),
        Judge("pytorch-grad-cam Coherency", now(coherency), explains=True, ours=("coherency",), unsigned=True,
              note="scores compared for maps without negative values"),
        Judge("pytorch-grad-cam ROADMostRelevantFirst", road, ordered=True, ours=("road(of=probability, noise=0.0)",),
              note="without noise, p(x) given"),
    ]  # fmt: skip
