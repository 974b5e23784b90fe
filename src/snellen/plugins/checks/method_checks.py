"""The rules for methods, each tried on the planted networks that the method accepts."""

from __future__ import annotations

import copy
import functools
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, get_args

import torch
from torch import Tensor

from snellen.classifier import Classifier
from snellen.classifier.ledger import Ledger
from snellen.errors import SnellenError
from snellen.plugins.checks.check import Check, FailedCheckError, require, require_close, summary_of
from snellen.plugins.checks.method_trial import MethodTrial, accepts, explain, fit, prepare, shared_classifier, trial_of
from snellen.plugins.checks.planted import (
    AREA_SHARE,
    MEAN,
    SIDE,
    STD,
    NetworkKind,
    planted_batch,
    planted_network,
)
from snellen.plugins.checks.planted_networks import WIDE, wide_network
from snellen.plugins.checks.planted_rewrites import rewrites
from snellen.plugins.checks.planted_states import PlantedError, breakable, in_training, model_state, require_unchanged
from snellen.plugins.outside import is_unstated
from snellen.plugins.registry import METHODS, label, spec, traits
from snellen.plugins.traits import MethodTraits, TraitEvidence
from snellen.types import Method, Passes, Rng

KINDS: tuple[NetworkKind, ...] = get_args(NetworkKind)

LEAST_SHARE = 1.05 * AREA_SHARE
"""A method must give more than this share of a map to the deciding patch."""


def method_checks(method: Method, *, kinds: Sequence[NetworkKind] | None = None) -> Iterator[Check]:
    """All checks of a method, chosen by its traits.

    Args:
        method: the method with the settings that it is tried with; few samples or steps make the checks fast.
        kinds: the planted networks to try it on; by default all that it accepts.
    """
    name = traits(method).name
    yield Check(
        plugin=name,
        name="settings-survive-json",
        function=functools.partial(check_settings, method),
        summary=summary_of(check_settings),
    )
    accepted = [kind for kind in KINDS if accepts(method, kind)] if kinds is None else list(kinds)
    yield Check(
        plugin=name,
        name="accepts-a-planted-network",
        function=functools.partial(_check_accepted, accepted),
        summary=summary_of(_check_accepted),
    )
    if not accepted:
        return
    for kind in accepted:
        for rule, function in network_rules(traits(method)).items():
            on_network = functools.partial(_on_network, function, method, kind)
            yield Check(plugin=name, name=f"{rule}/{kind}", function=on_network, summary=summary_of(function))
    left_out = rules_without_method_trait(traits(method))
    for rule, function_of_all in METHOD_RULES.items():
        if rule not in left_out:
            on_all = functools.partial(_on_all, function_of_all, method, tuple(accepted))
            yield Check(plugin=name, name=rule, function=on_all, summary=summary_of(function_of_all))


def network_rules(method_traits: MethodTraits) -> dict[str, Callable[[MethodTrial], None]]:
    """The rules that are tried on each planted network, by name."""
    left_out = rules_without_method_trait(method_traits)
    return {rule: function for rule, function in NETWORK_RULES.items() if rule not in left_out}


def rules_without_method_trait(method_traits: MethodTraits) -> dict[str, str]:
    """The rules about traits that a method does not state, each with the reason why it is left out."""
    reasons = {}
    if not method_traits.implementation_invariant:
        reasons["implementation-invariant"] = "it does not state this"
    if is_unstated(method_traits):
        unstated = ("deterministic", "class-specific", "planned-passes", "complete", "signed")
        reasons |= dict.fromkeys(unstated, "a plain function does not state this")
        if not method_traits.needs:
            reasons["black-box"] = "a plain function does not state this; give it the attribute `needs`"
    return reasons


def _on_network(rule: Callable[[MethodTrial], None], method: Method, kind: NetworkKind) -> None:
    rule(trial_of(method, kind))


def _on_all(rule: Callable[[list[MethodTrial]], None], method: Method, kinds: tuple[NetworkKind, ...]) -> None:
    rule([trial_of(method, kind) for kind in kinds])


def _check_accepted(kinds: Sequence[NetworkKind]) -> None:
    """It accepts one of the small networks on which methods are tried."""
    require(bool(kinds), "it refuses every planted network, so nothing can be tried; give it one of your own")


def check_settings(method: Method) -> None:
    """Settings and presets are the same after they were written and read as JSON and as text."""
    method_traits: MethodTraits = traits(method)
    variants = [method, *(METHODS.build(f"{method_traits.name}@{preset}") for preset in method_traits.presets)]
    for variant in variants:
        written = json.loads(json.dumps(spec(variant)))
        require(METHODS.parse(written) == variant, f"JSON turns {variant!r} into {METHODS.parse(written)!r}")
        require(METHODS.parse(label(variant)) == variant, f"{label(variant)} is read as {METHODS.parse(label(variant))!r}")


# Rules for each network -----------------------------------------------------------------------------------------------


def check_finite(trial: MethodTrial) -> None:
    """A map has one finite number per pixel."""
    maps = trial.maps
    require(maps.shape == (3, SIDE, SIDE), f"three images of {SIDE}×{SIDE} get maps of the shape {tuple(maps.shape)}")
    require(maps.dtype == torch.float32, f"maps are of the type {maps.dtype}, not torch.float32")
    require(bool(maps.isfinite().all()), "a map holds NaN or an infinite value")
    require(not trial.first.requires_grad, "a map requires a gradient")


def check_wide_image(trial: MethodTrial) -> None:
    """An image that is not square gets a map of its size, without preparation and for the planned passes."""
    rng = Rng(seed=3, ids=("wide",))
    inputs = rng.normal("image", (3, *WIDE))
    model = Classifier(wide_network(trial.kind))
    fit(trial.method, model, WIDE)
    with model.counting() as ledger:
        maps = trial.method(model, inputs, torch.tensor([1]), rng=rng)
    require(maps.shape == (1, *WIDE), f"an image of {WIDE} gets a map of the shape {tuple(maps.shape[1:])}")
    require(bool(maps.isfinite().all()), "a map holds NaN or an infinite value")
    _require_planned(_total(ledger), trial.method.passes(WIDE, model), trial.traits)


def check_singles(trial: MethodTrial) -> None:
    """A batch of three gets the maps of three single images."""
    batch = trial.batch()
    for i in range(3):
        row = slice(i, i + 1)
        inputs, targets = batch.inputs[row].clone(), batch.targets[row].clone()
        alone = explain(trial.method, batch.classifier, inputs, targets, batch.rng[row])
        require_close(trial.maps[i], alone[0], f"image {i} gets another map alone than in a batch")


def check_rows(trial: MethodTrial) -> None:
    """How many rows the classifier takes at once does not matter."""
    batch = trial.batch()
    narrow = Classifier(planted_network(trial.kind), mean=MEAN, std=STD, rows=8)
    maps = explain(trial.method, narrow, batch.inputs, batch.targets, batch.rng)
    require_close(maps, trial.maps, "a classifier that takes 8 rows at once gets other maps")


def check_same_rng(trial: MethodTrial) -> None:
    """The same rng gives the same bits, and nothing is drawn from torch's own generator."""
    require(torch.equal(trial.maps, trial.explain(trial.batch())), "the same rng gives another map")
    require(trial.first.torch_rng_unchanged, "it draws from torch's global generator; draw from rng")


def check_deterministic(trial: MethodTrial) -> None:
    """`deterministic` is true exactly when the seed does not matter."""
    batch = trial.batch()
    same = torch.equal(trial.maps, trial.explain(batch, rng=Rng(seed=99, ids=batch.rng.ids)))
    require(same == trial.traits.deterministic, f"another seed gives {'the same' if same else 'another'} map")


def check_model_unchanged(trial: MethodTrial) -> None:
    """Weights, buffers, gradients, hooks and modes of the user's model stay as they are."""
    net = in_training(planted_network(trial.kind))
    batch = planted_batch(3, classifier=Classifier(net, mean=MEAN, std=STD))
    before = [model_state(module) for module in (net, batch.classifier.module)]
    maps = trial.explain(batch)
    require_unchanged((net, batch.classifier.module), before)
    require(torch.equal(maps, trial.maps), "the same weights in training mode get another map")


def check_model_unchanged_after_error(trial: MethodTrial) -> None:
    """The model stays as it is when it raises, and the method works again when the model does."""
    net = in_training(breakable(planted_network(trial.kind)))
    batch = planted_batch(3, classifier=Classifier(net, mean=MEAN, std=STD))
    module: Any = batch.classifier.module
    prepare(trial.method, batch.classifier, batch.inputs)
    module.broken = True
    before = [model_state(module) for module in (net, module)]
    try:
        trial.method(batch.classifier, batch.inputs, batch.targets, rng=batch.rng)
    except PlantedError:
        pass
    else:
        raise FailedCheckError("it returns a map although the model raises")
    require_unchanged((net, module), before)
    module.broken = False
    maps = trial.method(batch.classifier, batch.inputs, batch.targets, rng=batch.rng)
    require(torch.equal(maps, trial.maps), "after an error of the model the map has changed")


def check_inputs_unchanged(trial: MethodTrial) -> None:
    """Inputs and targets stay as they are, and a caller may write into a map."""
    require(trial.first.inputs_unchanged, "it changes the inputs or targets, or makes them require a gradient")
    require_close(trial.first.again, trial.maps, "a caller who writes into a map changes the next one", rtol=0.0)


def check_class_specific(trial: MethodTrial) -> None:
    """`class_specific` is true exactly when another target gives another map."""
    batch = trial.batch()
    other = trial.explain(batch, targets=(batch.targets + 1) % 3)
    differs = [not torch.equal(own, others) for own, others in zip(trial.maps, other, strict=True)]
    require(differs == [trial.traits.class_specific] * 3, f"another target changes {sum(differs)} of 3 maps")


def check_patch(trial: MethodTrial) -> None:
    """The patch that alone decides the output gets more than its share of the map."""
    size = trial.maps.abs()
    shares = (size * trial.batch().truth).sum(dim=(1, 2)) / size.sum(dim=(1, 2))
    words = ", ".join(f"{100 * share:.0f} %" for share in shares.tolist())
    require(
        bool((shares > LEAST_SHARE).all()),
        f"the patch covers {100 * AREA_SHARE:.0f} % of an image and gets {words} of the maps",
    )


def check_passes(trial: MethodTrial) -> None:
    """As many passes are made as were planned, also where some results are cached."""
    planned = 3 * trial.method.passes((SIDE, SIDE), shared_classifier(trial.kind))
    for made in trial.first.passes:
        _require_planned(made, planned, trial.traits)


def check_implementation_invariant(trial: MethodTrial) -> None:
    """Networks with other weights that compute the same function get the same map."""
    moved = changes_by_rewriting(trial.method, trial.kind)
    require(max(moved.values()) < 1e-3, f"maps move, in shares of their largest value, by {moved}")


def changes_by_rewriting(method: Method, kind: NetworkKind) -> dict[str, float]:
    """How far maps move, relative to their largest value, when the network is written in another way."""
    batch = planted_batch(3, classifier=shared_classifier(kind))
    before = explain(method, batch.classifier, batch.inputs, batch.targets, batch.rng)
    largest = before.abs().amax(dim=(1, 2))
    moved = {}
    for rewriting, net in rewrites(kind, planted_network(kind)).items():
        after = explain(method, Classifier(net, mean=MEAN, std=STD), batch.inputs, batch.targets, batch.rng)
        moved[rewriting] = float(((after - before).abs().amax(dim=(1, 2)) / largest).max())
    return moved


NETWORK_RULES: dict[str, Callable[[MethodTrial], None]] = {
    "finite-maps": check_finite,
    "wide-image": check_wide_image,
    "batch-equals-singles": check_singles,
    "rows-per-pass": check_rows,
    "same-rng-same-map": check_same_rng,
    "deterministic": check_deterministic,
    "model-unchanged": check_model_unchanged,
    "model-unchanged-after-error": check_model_unchanged_after_error,
    "inputs-unchanged": check_inputs_unchanged,
    "class-specific": check_class_specific,
    "finds-planted-patch": check_patch,
    "planned-passes": check_passes,
    "implementation-invariant": check_implementation_invariant,
}


# Rules for all networks together --------------------------------------------------------------------------------------


def check_complete(trials: list[MethodTrial]) -> None:
    """`complete` is true exactly when maps sum to the rise of the logit from the mean image to the image."""
    gaps = {}
    for trial in trials:
        batch = trial.batch()
        logits, start = (batch.classifier.logits(inputs) for inputs in (batch.inputs, torch.zeros_like(batch.inputs)))
        rise = (logits - start).gather(1, batch.targets[:, None])[:, 0]
        gaps[trial.kind] = float(((trial.maps.sum(dim=(1, 2)) - rise) / rise).abs().max())
    evidence = trials[0].traits.complete
    within = evidence.within if isinstance(evidence, TraitEvidence) else 0.02
    require((max(gaps.values()) < within) == bool(evidence), f"relative to the rise, the sums of maps miss it by {gaps}")


def check_signed(trials: list[MethodTrial]) -> None:
    """`signed` is true exactly when a map has negative values on some network."""
    negative = {trial.kind: bool((trial.maps < 0).any()) for trial in trials}
    require(any(negative.values()) == trials[0].traits.signed, f"maps have negative values: {negative}")


def check_black_box(trials: list[MethodTrial]) -> None:
    """`needs` is empty exactly when the method works with a function that gives outputs alone."""
    first = trials[0]
    net = copy.deepcopy(planted_network(first.kind))

    def black_box(inputs: Tensor) -> Tensor:
        outputs: Tensor = net(inputs)
        return outputs

    batch = planted_batch(3, classifier=Classifier(black_box, mean=MEAN, std=STD))
    needs = first.traits.needs - {"training-data"}
    try:
        maps = first.explain(batch)
    except SnellenError as refusal:
        require(bool(needs), f"it needs nothing but outputs, yet refuses a black box: {refusal}")
        require("black_box" in str(refusal), f"its refusal does not name the classifier: {refusal}")
    else:
        require(not needs, f"it works with a black box, although it needs {', '.join(sorted(needs))}")
        require_close(maps, first.maps, "a black box of the same outputs gets another map")


METHOD_RULES: dict[str, Callable[[list[MethodTrial]], None]] = {
    "complete": check_complete,
    "signed": check_signed,
    "black-box": check_black_box,
}


def _total(ledger: Ledger) -> Passes:
    return ledger.passes + ledger.cached


def _require_planned(made: Passes, planned: Passes, method_traits: MethodTraits) -> None:
    if method_traits.at_most:
        fits = made.forward <= planned.forward and made.backward <= planned.backward
        require(fits, f"at most {planned} are planned, but {made} are made")
    else:
        require(made == planned, f"{planned} are planned, but {made} are made")
