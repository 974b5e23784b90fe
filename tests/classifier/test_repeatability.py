"""Models that are not what they seem: random, aware of the batch, without gradients. All of them run, and it is said."""

from __future__ import annotations

import pytest
import torch
from tests.runs.subject import Small, write_images
from torch import nn

import snellen
from snellen.classifier.repeatability import repeatability_warnings
from snellen.errors import SnellenError
from snellen.images import from_folder
from snellen.images.geometry import AS_IS
from snellen.runs import evaluate


class LiveDropout(Small):
    def forward(self, images):
        return nn.functional.dropout(super().forward(images), 0.1, training=True)


class WholeBatch(Small):
    def forward(self, images):
        features = nn.functional.batch_norm(self.body(images), None, None, training=True)
        return self.head(features.mean(dim=(2, 3)))


class Counting(Small):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, images):
        self.seen += len(images)
        return super().forward(images)


class Detached(Small):
    def forward(self, images):
        return super().forward(images).detach()


class WithoutGrad(Small):
    def forward(self, images):
        with torch.no_grad():
            return super().forward(images)


class ThroughNumpy(Small):
    """Its preprocessing leaves torch; what follows does not."""

    def forward(self, images):
        return super().forward(torch.from_numpy(images.numpy() * 1.0))


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    return from_folder(write_images(tmp_path_factory.mktemp("images"), count=3), geometry=AS_IS)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (LiveDropout, "is not repeatable: the same images give outputs that differ"),
        (WholeBatch, "mixes the images of a batch: an image alone gives outputs"),
        (Counting, "changes its own state with every pass ('seen')"),
    ],
)
def test_an_unsteady_model_runs_and_its_record_and_report_say_so(samples, tmp_path, model, words):
    run = evaluate(model(), samples, methods=["gradient", "random"], metrics=["complexity"], out=tmp_path)
    (note,) = run.record.notes
    assert note.startswith(f"'{model.__name__}' {words}")
    assert words.partition("(")[0] in run.report().read_text()


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e4])
@pytest.mark.parametrize("offset", [0.0, 100.0])
def test_rounding_raises_no_alarm(samples, scale, offset):
    """Outputs of any size, also where a large constant hides a small spread; so deep that kernels round differently."""
    torch.manual_seed(0)
    layers = [layer for _ in range(12) for layer in (nn.Conv2d(16, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU())]
    net = nn.Sequential(nn.Conv2d(3, 16, 3), *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 7)).eval()
    with torch.no_grad():
        net[-1].weight.mul_(scale)
        net[-1].bias.add_(offset * scale)
    assert repeatability_warnings(snellen.Classifier(net), samples[0].image) == []


@pytest.mark.parametrize("rows", [None, 1])
def test_a_model_of_one_image_at_a_time_is_probed_with_one(samples, rows):
    def alone(images):
        assert len(images) == 1
        return images.mean(dim=(2, 3))

    assert repeatability_warnings(snellen.Classifier(alone, rows=rows), samples[0].image) == []


@pytest.mark.parametrize("model", [Detached, WithoutGrad, ThroughNumpy])
def test_a_model_without_gradients_serves_black_box_methods_and_refuses_the_others_by_name(samples, model):
    with pytest.raises(SnellenError, match=rf"^gradient needs gradients; but '{model.__name__}' gives no gradients \("):
        evaluate(model(), samples, methods=["gradient", "rise(masks=20)"], metrics=["complexity"])
    run = evaluate(model(), samples, methods=["rise(masks=20)", "random"], metrics=["deletion(steps=4)"])
    assert run.complete
    with pytest.raises(SnellenError, match="gives no gradients"):
        snellen.Classifier(Detached()).gradient(torch.rand(1, 3, 32, 32), torch.zeros(1, dtype=torch.long))


def test_gradients_that_are_cut_before_the_layers_are_enough_for_methods_that_start_there(samples):
    run = evaluate(ThroughNumpy(), samples, methods=["grad-cam"], metrics=["complexity"])
    plain = evaluate(Small(), samples, methods=["grad-cam"], metrics=["complexity"])
    assert run.scores()["value"].tolist() == plain.scores()["value"].tolist()
    with pytest.raises(SnellenError, match=r"^grad-cam needs gradients; but 'Detached' gives no gradients"):
        evaluate(Detached(), samples, methods=["grad-cam"], metrics=["complexity"])
