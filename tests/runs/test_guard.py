"""A plug-in that changes shared objects fails by name, and all other scores are the same bits as without it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.runs.own_plugins import own_method, own_metric
from tests.runs.subject import Small, write_checkpoints, write_labelled
from torch import nn

import snellen
from snellen.images import from_folder
from snellen.images.geometry import AS_IS
from snellen.runs import Options, Run, evaluate
from snellen.runs.guard import Guard
from snellen.runs.job import UnfinishedError

METHODS = ["gradient", "grad-cam", "input-x-gradient"]
METRICS = ["deletion(steps=4)", "complexity", "max-sensitivity(samples=2)"]


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    return from_folder(write_labelled(tmp_path_factory.mktemp("images"), count=6), geometry=AS_IS)


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    return write_checkpoints(tmp_path_factory.mktemp("checkpoints"))


@pytest.fixture(scope="module")
def clean(samples):
    return bits(evaluate(Small(), samples, methods=METHODS, metrics=METRICS, options=Options(shard=3)))


def bits(run: Run, but: str = "") -> dict[tuple[str, str, str], float]:
    rows = run.scores()
    return {tuple(row[:3]): row[3] for row in rows.itertuples(index=False) if but not in row[1:3] or not but}


def head(classifier) -> nn.Linear:
    return classifier.module.head


def leave_hook(classifier, *_) -> None:
    classifier.module.body.register_forward_hook(lambda module, inputs, output: -output)


CHANGES = {
    "the inputs": lambda classifier, inputs, targets: inputs.zero_(),
    "the inputs#data": lambda classifier, inputs, targets: inputs.data.mul_(-1),
    "the inputs#numpy": lambda classifier, inputs, targets: np.copyto(inputs.numpy(), 0.5),
    "the inputs#swapped": lambda classifier, inputs, targets: inputs.data.copy_(inputs.flip(0)),
    "the targets": lambda classifier, inputs, targets: targets.zero_(),
    "'head.weight' of the model": lambda classifier, inputs, targets: head(classifier).weight.data.neg_(),
    "'mean' of the model": lambda classifier, inputs, targets: classifier.mean.add_(1),
    "the mode (train or eval) of the model": lambda classifier, inputs, targets: classifier.module.train(),
    "the hooks of 'body' of the model": leave_hook,
    "the parts of the model": lambda classifier, inputs, targets: setattr(classifier.module, "head", nn.Linear(32, 5)),
    "the settings of 'body.0' of the model": lambda classifier, *_: setattr(classifier.module.body[0], "stride", (2, 2)),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", CHANGES)
def test_a_method_that_changes_what_is_shared_fails_by_name_and_alone(samples, clean, tmp_path, what):
    with (
        own_method("writes", CHANGES[what]),
        pytest.raises(UnfinishedError, match="2 of 8 units failed, the first being writes ") as caught,
    ):
        evaluate(Small(), samples, methods=["writes", *METHODS], metrics=METRICS, out=tmp_path, options=Options(shard=3))
    assert f"writes changed {what.partition('#')[0]}" in str(caught.value)
    assert bits(Run(tmp_path)) == clean


@pytest.mark.slow
@pytest.mark.parametrize("what", ["the inputs", "the targets", "the maps", "the truth", "'head.weight' of the model"])
def test_a_metric_that_changes_what_is_shared_fails_by_name_and_alone(samples, clean, tmp_path, what):
    def act(case) -> None:
        changed = {"the inputs": case.inputs, "the targets": case.targets, "the maps": case.maps, "the truth": case.truth}
        head(case.classifier).weight.data.neg_() if "head" in what else changed[what].data.zero_()

    lit = samples if what != "the truth" else [
        snellen.Sample(sample.id, sample.image, sample.label, torch.ones(32, 32, dtype=torch.bool)) for sample in samples
    ]  # fmt: skip
    with own_metric("writes", act), pytest.raises(UnfinishedError, match="scores of shards failed"):
        evaluate(Small(), lit, methods=METHODS, metrics=["writes", *METRICS], out=tmp_path, options=Options(shard=3))
    run = Run(tmp_path)
    assert bits(run) == clean
    assert f"writes changed {what}" in run.problems()["gradient", "writes"]


def test_a_metric_that_changes_a_variant_is_caught(samples, checkpoints, tmp_path):
    def act(case) -> None:
        next(iter(case.variants.values())).module.head.bias.data.add_(1)

    metrics = ["writes", "complexity"]
    with (
        own_metric("writes", act, needs={"checkpoints"}),
        pytest.raises(UnfinishedError, match=r"writes changed 'head.bias' of its variant 'checkpoint/step-2'"),
    ):
        evaluate(Small(), samples, methods=["gradient"], metrics=metrics, out=tmp_path, checkpoints=checkpoints)


def test_cached_outputs_are_copies_that_plug_ins_may_change(samples, clean, tmp_path):
    """A cached gradient, or a map that was explained before, is copied for each plug-in."""

    def method(classifier, inputs, targets) -> None:
        classifier.gradient(inputs, targets, cached=True)[0].zero_()
        classifier.cached_logits(inputs).numpy()[:] = 0

    def metric(case) -> None:
        rng = snellen.types.Rng(0, ("a",) * len(case))
        first = case.explain(case.inputs, rng=rng)
        kept = first.clone()
        first.zero_()
        assert torch.equal(case.explain(case.inputs, rng=rng), kept)

    with own_method("writes", method), own_metric("writes", metric):
        run = evaluate(
            Small(), samples, methods=["writes", *METHODS], metrics=["writes", *METRICS], options=Options(shard=3)
        )
    assert bits(run, but="writes") == clean


def test_outputs_of_temporarily_changed_weights_are_not_cached(samples, clean, tmp_path):
    def act(classifier, inputs, targets) -> None:
        weight = head(classifier).weight
        before = weight.clone()
        weight.neg_()
        classifier.gradient(inputs, targets, cached=True)
        weight.copy_(before)

    with own_method("borrows", act):
        run = evaluate(Small(), samples, methods=["borrows", *METHODS], metrics=METRICS, options=Options(shard=3))
    assert bits(run, but="borrows") == clean


def test_settings_of_torch_and_left_gradients_are_restored(samples, clean):
    def act(classifier, inputs, targets) -> None:
        torch.set_default_dtype(torch.float64)
        torch.set_num_threads(3)
        torch.set_grad_enabled(True)
        inputs.requires_grad_()
        head(classifier).weight.requires_grad_()
        classifier.module(inputs).sum().backward()

    threads = torch.get_num_threads()
    with own_method("sets", act):
        run = evaluate(Small(), samples, methods=["sets", *METHODS], metrics=METRICS, options=Options(shard=3))
    assert bits(run, but="sets") == clean
    assert (torch.get_default_dtype(), torch.get_num_threads()) == (torch.float32, threads)


class Replacing(Small):
    """Writes to itself in every pass: a counter, a cache of the size of the batch, an attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("passes", torch.zeros(()))
        self.register_buffer("ones", torch.ones(1), persistent=False)

    def forward(self, images):
        self.passes += 1
        self.ones = torch.ones(len(images))
        self.rows = len(images)
        return super().forward(images) * self.ones[:, None]


def test_changes_that_the_model_makes_itself_are_allowed(samples, clean):
    run = evaluate(Replacing(), samples, methods=METHODS, metrics=METRICS, options=Options(shard=3))
    assert run.complete
    assert bits(run) == clean


def test_an_error_of_the_plug_in_is_raised_and_its_changes_are_restored():
    classifier, inputs = snellen.Classifier(Small()), torch.rand(2, 3, 32, 32)
    before = inputs.clone()

    def fail() -> None:
        inputs.zero_()
        head(classifier).weight.data.zero_()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), Guard({"the model": classifier}, {"the inputs": inputs}).watching("it"):
        fail()
    assert torch.equal(inputs, before)
    assert bool(head(classifier).weight.any())
