"""Classifier: what methods and metrics may ask of a model.

With what it is made of (`network`, `anatomy`, `snapshot`, `probes`) the only code that touches hooks, gradients, evaluation
mode and devices.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, TypeVar, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from snellen.classifier import attention, batches, engines, probes, tokens
from snellen.classifier.cache import TensorCache
from snellen.classifier.calling_convention import alike
from snellen.classifier.graphs import as_graph
from snellen.classifier.layers import NetworkStructure
from snellen.classifier.ledger import Ledger, Ledgers
from snellen.classifier.network import Network
from snellen.classifier.operations import Handler, Operation, intercepting
from snellen.classifier.outputs import TargetOutputs, target_output
from snellen.classifier.snapshot import fingerprint, frozen, snapshot
from snellen.errors import SnellenError
from snellen.images.geometry import AS_IS, Geometry
from snellen.plugins.registry import Need
from snellen.types import Output, Passes

T = TypeVar("T")

Images = Float[Tensor, "batch channels height width"]
Targets = Int[Tensor, " batch"]


class Classifier:
    """A frozen, evaluation-mode snapshot of a model, with its normalisation and class names.

    The model itself is copied, never changed: not its mode, not its parameters, not its hooks, also when it raises.
    *Pixels* are in [0, 1]; *inputs* are `(pixels - mean) / std`, what the network sees. A plain function from inputs to
    logits makes a black box: it offers `logits` and nothing that needs gradients. `outputs` states whether the model puts
    out logits or probabilities; logits are taken unless stated, and refused where they look like something else.
    """

    def __init__(
        self,
        model: nn.Module | Callable[[Tensor], Any],
        *,
        mean: float | Sequence[float] = 0.0,
        std: float | Sequence[float] = 1.0,
        classes: Sequence[str] | None = None,
        name: str | None = None,
        outputs: str | None = None,
        geometry: Geometry = AS_IS,
        channels: int = 3,
        device: str | torch.device = "cpu",
        rows: int | None = None,
        precision: engines.Precision = "float32",
    ) -> None:
        self.outputs_stated = outputs is not None
        outputs = "logits" if outputs is None else outputs
        if outputs not in ("logits", "probabilities"):
            raise SnellenError(f"outputs must be 'logits' or 'probabilities', not {outputs!r}")
        if not callable(model):
            raise SnellenError(f"a model must be an nn.Module or a function from inputs to logits, not {model!r}")
        device = torch.device(device)
        engines.check_precision(precision, device)
        self.mean, self.std = _per_channel(mean), _per_channel(std)
        if bool((self.std <= 0).any()):
            raise SnellenError(f"std must be positive, not {std}")
        self.classes = tuple(classes) if classes is not None else None
        self.geometry = geometry
        self.channels = channels
        name = str(name or getattr(model, "__name__", type(model).__name__))
        graph = as_graph(model)
        model = model if graph is None else graph
        self.rows = rows
        self.gradient_rows = rows
        run = snapshot(model, device) if isinstance(model, nn.Module) else model
        self.network = Network(run, name, outputs, device, precision)
        self.fingerprint = fingerprint(model, self.mean, self.std, outputs)
        self.fitted_state: dict[str, dict[str, Tensor]] = {}
        self.no_gradient_reason: str | None = None
        """Why no gradient comes from the outputs back to the inputs, where `check` met that."""
        self._reset()

    def _reset(self) -> None:
        self._ledgers = Ledgers()
        self._cache = TensorCache()
        self._structure = NetworkStructure(self.network)
        self._compiled: engines.Compiled | None = None
        self._not_compiled: str | None = None
        self.use_compiled = False

    # What it offers -------------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """What it is called in records and sentences."""
        return self.network.name

    @property
    def outputs(self) -> str:
        """Whether the model itself puts out logits or probabilities."""
        return self.network.outputs

    @property
    def device(self) -> torch.device:
        """Where the model runs."""
        return self.network.device

    @property
    def precision(self) -> engines.Precision:
        """In which precision the model runs."""
        return self.network.precision

    @property
    def module(self) -> nn.Module:
        """The private copy of the wrapped module; a black box has none."""
        return self.network.module

    @property
    def offers(self) -> frozenset[Need]:
        """Which needs of methods this classifier can meet at all."""
        return self.network.offers - ({"gradients"} if self.no_gradient_reason else frozenset())

    def to_inputs(self, pixels: Images) -> Images:
        """What the network sees of these pixels."""
        return (pixels - self.mean.to(pixels)) / self.std.to(pixels)

    def to_pixels(self, inputs: Images) -> Images:
        """What a person sees of these inputs."""
        return inputs * self.std.to(inputs) + self.mean.to(inputs)

    # Passes ---------------------------------------------------------------------------------------------------------

    def logits(self, inputs: Images, *, through: Handler | None = None) -> Float[Tensor, "batch classes"]:
        """Pre-softmax outputs; `through` sees every operation of all rows at once, and may replace it."""
        self._choose_convention(inputs)
        rows = len(inputs) if through else self.rows_for(inputs)
        parts = [self._forward(part, through) for part in inputs.split(rows)]
        return torch.cat(parts)

    def probabilities(self, inputs: Images) -> Float[Tensor, "batch classes"]:
        """Softmax outputs."""
        return self.logits(inputs).softmax(dim=1)

    def scores(self, blocks: Iterable[tuple[Images, Targets]], of: Output) -> Float[Tensor, " rows"]:
        """The target's logit or probability for each row of many blocks, regrouped so that every pass is full."""
        return self._regrouped(blocks, lambda logits, targets: target_output(logits, targets, of))

    def target_outputs(self, blocks: Iterable[tuple[Images, Targets]]) -> TargetOutputs:
        """The target's logit and probability and the class on top, for each row of many blocks in full passes."""

        def read(logits: Tensor, targets: Tensor) -> Tensor:
            outputs = TargetOutputs.read(logits, targets)
            return torch.stack([outputs.logit, outputs.probability, outputs.predicted.to(outputs.logit)], dim=1)

        logit, probability, predicted = self._regrouped(blocks, read).view(-1, 3).unbind(1)
        return TargetOutputs(logit, probability, predicted.long())

    def predictions(self, inputs: Images) -> Int[Tensor, " batch"]:
        """The class on top for each row."""
        return self.logits(inputs).argmax(dim=1)

    def _regrouped(
        self, blocks: Iterable[tuple[Images, Targets]], read: Callable[[Tensor, Tensor], Tensor]
    ) -> Float[Tensor, "rows ..."]:
        """What `read` makes of the logits of each row, over blocks regrouped so that every pass is full."""
        found = [read(self._forward(inputs), targets) for inputs, targets in batches.regrouped(blocks, self.rows_for)]
        return torch.cat(found) if found else torch.empty(0)

    def output(self, inputs: Images, targets: Targets, of: Output) -> Float[Tensor, " batch"]:
        """The target's logit or probability of each row, kept for the next caller with the very same tensors."""
        return self.cached_outputs(inputs, targets).of(of)

    def cached_outputs(self, inputs: Images, targets: Targets) -> TargetOutputs:
        """All answers about these rows, from one pass that any caller with the very same inputs shares."""
        return TargetOutputs.read(self.cached_logits(inputs), targets)

    def cached_logits(self, inputs: Images) -> Float[Tensor, "batch classes"]:
        """The logits of these rows, kept for the next caller with the very same tensor."""
        return self._cached(("logits",), inputs, inputs, lambda: self.logits(inputs))

    def cached(self, key: Hashable, inputs: Images, targets: Targets, compute: Callable[[], T]) -> T:
        """The result of `compute`, cached per tensor. It must not depend on maps: all methods on the images get it."""
        return self._cached(("kept", key), inputs, targets, compute)

    def gradient(
        self,
        inputs: Images,
        targets: Targets,
        *,
        of: Output = "logit",
        through: Handler | None = None,
        group: int = 1,
        cached: bool = False,
    ) -> tuple[Images, Float[Tensor, " batch"]]:
        """The gradient of each row's target output at that row, and the output itself.

        `through` may replace every operation of the forward pass by one with another backward rule. Each `group` of
        neighbouring rows goes through the model in one pass. `cached=True` keeps the answer for the next caller with the
        very same tensors, for as long as those live.
        """

        def compute() -> tuple[Tensor, Tensor]:
            gradients, outputs = [], []
            rows = max(1, self.rows_for(inputs, gradients=True) // group) * group
            for part, wanted in zip(inputs.split(rows), targets.split(rows), strict=True):
                gradient, output = self._backward(part, wanted, of, through)
                gradients.append(gradient)
                outputs.append(output)
            return torch.cat(gradients), torch.cat(outputs)

        if not cached:
            return compute()
        return self._cached(("gradient", of, through), inputs, targets, compute)

    def layer_gradient(
        self, inputs: Images, targets: Targets, layer: str, *, of: Output = "logit"
    ) -> tuple[Float[Tensor, "batch features rows columns"], Float[Tensor, "batch features rows columns"]]:
        """The activations of a layer, and the gradient of the target's output there.

        Parameters and inputs need no gradient, so the graph starts at the layer and the backward pass ends there. Methods
        that ask for the same layer on the same tensors share one pass.
        """

        def compute() -> tuple[Tensor, Tensor]:
            kept, gradients = [], []
            rows = self.rows_for(inputs, gradients=True)
            for part, wanted in zip(inputs.split(rows), targets.split(rows), strict=True):
                with self.recording(layer, part, leaf=True) as seen, torch.enable_grad():
                    with self._booking(Passes(forward=len(part))):
                        output = target_output(self.network(part), wanted, of)
                    (activation,) = seen
                    with self._booking(Passes(backward=len(part))):
                        (gradient,) = torch.autograd.grad(output.sum(), activation)
                kept.append(activation.detach().to(inputs.device))
                gradients.append(gradient.to(inputs.device))
            return torch.cat(kept), torch.cat(gradients)

        return self._cached(("layer", layer, of), inputs, targets, compute)

    def layer_features(self, inputs: Images, layer: str) -> Float[Tensor, "batch features rows columns"]:
        """The activations of a layer alone; taken from `layer_gradient` where that was asked for on the same tensor."""
        known = self._cache.find(("layer", layer), inputs)
        if known is not None:
            (features, _), seconds = known
            self.book_cached(Passes(forward=len(inputs)), seconds)
            return cast(Tensor, features)

        def compute() -> Tensor:
            kept = []
            for part in inputs.split(self.rows_for(inputs)):
                with self.recording(layer, part) as seen, torch.no_grad(), self._booking(Passes(forward=len(part))):
                    self.network(part)
                kept.append(seen[0].to(inputs.device))
            return torch.cat(kept)

        return self._cached(("features", layer), inputs, inputs, compute)

    def layer_to_logits(
        self, inputs: Images, layer: str
    ) -> Callable[[Float[Tensor, "rows features down across"]], Float[Tensor, "rows classes"]] | None:
        """The rest of the model behind a layer, from its feature maps to the logits, for images of this size.

        None where something behind the layer also reads what came before it; `resume` works there too.
        """
        rest = self._look_inside(inputs).layer_to_logits(inputs, layer)
        if rest is None:
            return None

        def run(activations: Tensor) -> Tensor:
            with self._booking(Passes()):
                return rest(activations)

        return run

    def resume(
        self,
        inputs: Images,
        layer: str,
        activations: Float[Tensor, "rows features down across"],
        owners: Int[Tensor, " rows"],
    ) -> Float[Tensor, "rows classes"]:
        """The logits of each row, had the layer put out these activations for the image that owns the row.

        Only what follows the layer runs, where that is possible; else the whole model does, and its passes are booked.
        Gradients flow back to activations that ask for one.
        """
        rest = self.layer_to_logits(inputs, layer)
        with torch.enable_grad() if activations.requires_grad else torch.inference_mode():
            if rest is not None:
                return rest(activations)
            with self._booking(Passes(forward=len(owners))):
                return self._look_inside(inputs).logits_with_layer(inputs[owners], layer, activations).to(inputs.device)

    def resume_rows(self, inputs: Images, layer: str) -> int:
        """How many rows `resume` should be given at once."""
        if self.layer_to_logits(inputs, layer) is None:
            return self.rows_for(inputs)
        return batches.resume_rows(*self.layer_shape(inputs, layer))

    def attentions(self, inputs: Images, fold: attention.Folding) -> Float[Tensor, "batch layers tokens tokens"]:
        """The weights of every attention of a pass, in order, with the heads folded into one."""
        rows = min(self.rows_for(inputs), batches.attention_rows(self.attention_layout(inputs), inputs.element_size()))
        found = []
        for part in inputs.split(rows):
            noted = attention.AttentionRecorder(fold=fold)
            with torch.no_grad(), self._booking(Passes(forward=len(part))), intercepting(self.module, noted):
                self.network(part)
            found.append(torch.stack(noted.weights, dim=1).to(inputs.device))
        return torch.cat(found)

    def attention_gradients(
        self, inputs: Images, targets: Targets, weigh: attention.Weighing, *, of: Output = "logit"
    ) -> Float[Tensor, "batch layers tokens tokens"]:
        """What `weigh` makes of the weights of every attention and of the gradient of the target's output there.

        The graph starts at the first attention, and the backward pass ends there.
        """
        fit = batches.attention_rows(self.attention_layout(inputs), inputs.element_size(), gradients=True)
        rows = min(self.rows_for(inputs, gradients=True), fit)
        found = []
        for part, wanted in zip(inputs.split(rows), targets.split(rows), strict=True):
            noted = attention.AttentionRecorder(gradients=True)
            with torch.enable_grad():
                with self._booking(Passes(forward=len(part))), intercepting(self.module, noted):
                    output = target_output(self.network(part), wanted, of)
                with self._booking(Passes(backward=len(part))):
                    gradients = torch.autograd.grad(output.sum(), noted.weights)
            weighed = [weigh(one.detach(), two) for one, two in zip(noted.weights, gradients, strict=True)]
            found.append(torch.stack(weighed, dim=1).to(inputs.device))
        return torch.cat(found)

    # What is inside, from looks that are no part of any account -------------------------------------------------------

    def uncounted_logits(self, inputs: Images) -> Float[Tensor, "batch classes"]:
        """The logits, as a look at the model itself: no part of any account."""
        self._choose_convention(inputs)
        with torch.inference_mode():
            return self.network(inputs).to(inputs.device)

    def operations(self, inputs: Images, *, after: str | None = None) -> tuple[Operation, ...]:
        """Every tensor operation of one pass, in order, with its kind and layer; looked up once per size of image.

        `after` names a layer and leaves out what comes before its end.
        """
        return self._look_inside(inputs).operations(inputs, after)

    def layer_layouts(self, inputs: Images) -> tokens.LayerLayouts:
        """Which layers put out a grid of features, and in which order of axes; looked up once per size of image."""
        return self._look_inside(inputs).layer_layouts(inputs)

    def feature_layer(self, inputs: Images) -> str:
        """Where class-activation methods look: the last layer that still has places, or what enters the last attention."""
        return self._look_inside(inputs).feature_layer(inputs)

    def layer_shape(self, inputs: Images, layer: str) -> tuple[int, int, int]:
        """Features, rows and columns of a layer for images of this size; a look at the model, so no part of any account."""
        return self._look_inside(inputs).layer_shape(inputs, layer)

    def attention_layout(self, inputs: Images, *, who: str = "a map of attention") -> attention.AttentionLayout:
        """Between which tokens the model attends, and which of them its head reads; looked up once per size of image.

        A model whose attention does not lead from token to token is refused in the name of `who` asks.
        """
        return self._look_inside(inputs).attention_layout(inputs, who)

    def recording(
        self, layer: str, inputs: Images, *, leaf: bool = False
    ) -> contextlib.AbstractContextManager[list[Tensor]]:
        """Collects the feature map that the named layer puts out while the body runs; `leaf` starts the graph there."""
        return self._look_inside(inputs).recording(layer, inputs, leaf=leaf)

    # Account, checks, preparation -----------------------------------------------------------------------------------

    def counting(self, on_pass: Callable[[Passes], None] | None = None) -> contextlib.AbstractContextManager[Ledger]:
        """Books every pass that the body causes; accounts may nest."""
        return self._ledgers.counting(on_pass)

    def book_cached(self, passes: Passes, seconds: float) -> None:
        """Books passes that were needed, but whose result was already there."""
        self._ledgers.book_cached(passes, seconds)

    def clear_cache(self) -> None:
        """Forgets every answer that was kept for others."""
        self._cache = TensorCache()

    def count_passes_of(self, variant: Classifier) -> Classifier:
        """The variant, whose passes this classifier's ledgers count from now on."""
        variant._ledgers = self._ledgers
        return variant

    def variant(self, module: nn.Module | Callable[[Tensor], Any], name: str, *, copied: bool = False) -> Classifier:
        """Another model that takes the same inputs, read in the same way; its passes are booked in this one's accounts.

        `copied` says that the module was copied from this classifier's own and nobody else holds it: no copy is made again.
        """
        if copied and isinstance(module, nn.Module):
            twin = copy.copy(self)
            run = frozen(module, self.device)
            twin.network = self.network.variant(run, f"{self.name}, {name}")
            twin.fitted_state, twin.rows, twin.gradient_rows = {}, None, None
            twin.fingerprint = fingerprint(module, self.mean, self.std, self.outputs)
            twin._reset()
            return self.count_passes_of(twin)
        other = Classifier(
            module,
            mean=self.mean.flatten().tolist(),
            std=self.std.flatten().tolist(),
            name=f"{self.name}, {name}",
            outputs=self.outputs if self.outputs_stated else None,
            geometry=self.geometry,
            channels=self.channels,
            device=self.device,
            precision=self.precision,
        )
        return self.count_passes_of(other)

    def check(self, inputs: Images, labels: Sequence[int | None] = ()) -> int:
        """Tries one pass and returns the number of classes, or says in a sentence what is wrong with the model."""
        self._choose_convention(inputs)
        with torch.inference_mode(), self._booking(Passes(forward=len(inputs))):
            try:
                raw = self.network.raw(inputs)
            except SnellenError:
                raise
            except Exception as problem:
                shape = "×".join(map(str, inputs.shape))
                reason = str(problem).strip().splitlines()
                raise SnellenError(
                    f"'{self.name}' cannot take inputs of shape {shape}: {reason[0] if reason else type(problem).__name__}"
                ) from problem
        count = probes.check_outputs(raw, len(inputs), self.name)
        self.check_output_range(probes.OutputRange.of(raw), inputs)
        if self.classes is not None and len(self.classes) != count:
            raise SnellenError(f"'{self.name}' has {count} outputs, but {len(self.classes)} class names were given")
        for label in labels:
            if label is not None and not 0 <= label < count:
                raise SnellenError(f"label {label} is out of range: '{self.name}' has classes 0 to {count - 1}")
        if "gradients" in self.network.offers:
            self.no_gradient_reason = probes.no_gradient_reason(
                lambda leaf: self.network(leaf).sum(), self.network.place(inputs[:1])
            )
        return count

    def check_output_range(self, seen: probes.OutputRange, inputs: Images) -> str | None:
        """A sentence when outputs in this range hardly are what they are taken for; raised where they cannot be."""
        sigmoid = seen.within_one and "layer" in self.offers and self._look_inside(inputs).ends_in_sigmoid(inputs)
        return probes.check_output_range(seen, self.name, self.outputs, stated=self.outputs_stated, sigmoid=sigmoid)

    def rows_for(self, inputs: Images, *, gradients: bool = False) -> int:
        """How many rows of this shape go through the model at once, from the memory budgets; found once, then kept."""
        self._choose_convention(inputs)
        if self.rows is None or self.gradient_rows is None:
            self.rows, self.gradient_rows = batches.rows(self.network, inputs)
        return self.gradient_rows if gradients else self.rows

    def copies(self, inputs: Images) -> int:
        """How many copies of this batch fill one pass."""
        return max(1, self.rows_for(inputs) // len(inputs))

    def compile_for(self, inputs: Images) -> str | None:
        """Compiles the forward pass for full batches of this shape and uses it from now on; returns why not if it fails."""
        self.use_compiled = True
        if self._compiled is not None or self._not_compiled is not None:
            return self._not_compiled
        if self.device.type == "cpu" and (missing := engines.compiler_missing()):
            return missing
        rows = self.rows_for(inputs)
        if not self.network.convention.any_rows:
            return "the model does not take batches of any size"
        example = self.network.place(inputs[:1].expand(rows, *inputs.shape[1:]).contiguous())
        try:
            compiled = engines.Compiled(self.module, example)
            found = self.network.read(compiled(example), rows)
            with torch.no_grad():
                if self.precision == "float32" and not alike(found, self.network.raw(example)):
                    raise ValueError("the compiled model puts out something else")
            self._compiled = compiled
        except Exception as problem:  # every compiler failure means the same here: go on without it
            reason = str(problem).strip().splitlines()
            self._not_compiled = reason[0] if reason else type(problem).__name__
            return self._not_compiled
        return None

    def _choose_convention(self, inputs: Images) -> None:
        """Decides how the model is called with images of this shape, before any hook is set."""
        self.network.choose_convention(inputs, self.rows)

    def _look_inside(self, inputs: Images) -> NetworkStructure:
        self._choose_convention(inputs)
        return self._structure

    # Below this line the model is called ------------------------------------------------------------------------------

    def _forward(self, inputs: Tensor, through: Handler | None = None) -> Tensor:
        if through is not None:  # which may keep what it sees for a pass with gradients
            with torch.no_grad(), self._booking(Passes(forward=len(inputs))), intercepting(self.module, through):
                return self.network(inputs).to(inputs.device)
        with torch.inference_mode(), self._booking(Passes(forward=len(inputs))):
            graph = self._compiled if self.use_compiled else None
            if graph is None or not graph.fits(inputs):
                return self.network(inputs).to(inputs.device)
            short = graph.shape[0] - len(inputs)
            padded = torch.cat([inputs, inputs[:1].expand(short, *inputs.shape[1:])]) if short > 0 else inputs
            outputs = self.network.read(graph(self.network.place(padded)), len(padded))
            return self.network.as_logits(outputs[: len(inputs)]).to(inputs.device)

    def _backward(self, inputs: Tensor, targets: Tensor, of: Output, through: Handler | None) -> tuple[Tensor, Tensor]:
        if "gradients" not in self.offers:
            why = (
                f"gives no gradients ({self.no_gradient_reason})"
                if self.no_gradient_reason
                else "is a black-box function: it has no gradients"
            )
            raise SnellenError(f"'{self.name}' {why}")
        leaf = self.network.place(inputs.detach()).requires_grad_()
        if leaf is inputs:
            leaf = inputs.clone().requires_grad_()
        with torch.enable_grad():
            with self._booking(Passes(forward=len(inputs))), intercepting(self.module, through) if through else _NOTHING:
                output = target_output(self.network(leaf), targets, of)
            if not output.requires_grad:
                raise SnellenError(f"'{self.name}' gives no gradients ({probes.DETACHED})")
            with self._booking(Passes(backward=len(inputs))):
                (gradient,) = torch.autograd.grad(output.sum(), leaf)
        return gradient.contiguous().to(inputs.device), output.detach().to(inputs.device)

    def _booking(self, passes: Passes) -> contextlib.AbstractContextManager[None]:
        return self._ledgers.booking(passes, self.device)

    def _cached(self, key: tuple[Any, ...], inputs: Tensor, targets: Tensor, compute: Callable[[], T]) -> T:
        return self._cache.get_or_compute(key, inputs, targets, compute, self._ledgers)

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key not in _TRANSIENT}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._reset()


_TRANSIENT = {"_ledgers", "_cache", "_structure", "_compiled", "_not_compiled", "use_compiled"}
_NOTHING = contextlib.nullcontext()


def _per_channel(values: float | Sequence[float]) -> Tensor:
    return torch.as_tensor(values, dtype=torch.float32).reshape(1, -1, 1, 1)
