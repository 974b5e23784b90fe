"""Classifier: with `snapshot` and `probes` the only code that touches hooks, gradients, evaluation mode and devices."""

from __future__ import annotations

import contextlib
import copy
import time
import weakref
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from snellen import attention, probes, speed, tails, tokens
from snellen.errors import SnellenError, nearest
from snellen.geometry import AS_IS, Geometry
from snellen.graphs import Graph, as_graph
from snellen.ledger import Ledger
from snellen.operations import Handler, Operation, intercepting
from snellen.registry import Need
from snellen.snapshot import fingerprint, frozen, snapshot
from snellen.speed import Precision
from snellen.types import Output, Passes

T = TypeVar("T")

Images = Float[Tensor, "batch channels height width"]
Targets = Int[Tensor, " batch"]

FORWARD_BUDGET = 128 << 20
"""Bytes of the largest activation in a forward pass: beyond that a larger batch only leaves the processor's caches."""

TAIL_BUDGET = 16 << 20
"""Bytes of a layer's activations that go through the rest of the model at once; more would only leave the caches."""

GRADIENT_BUDGET = 768 << 20
"""Bytes of activations that a pass with gradients may hold, all layers together."""


@dataclass(frozen=True, eq=False)
class Answers:
    """What the classifier says of each row: the target's logit and probability, and the class that it finds most likely."""

    logit: Float[Tensor, "*rows"]
    probability: Float[Tensor, "*rows"]
    predicted: Int[Tensor, "*rows"]

    @staticmethod
    def read(logits: Float[Tensor, "rows classes"], targets: Targets) -> Answers:
        """What the logits say of each row's target."""
        best = logits.argmax(dim=1).to(targets.device)
        return Answers(_pick(logits, targets, "logit"), _pick(logits, targets, "probability"), best)

    def of(self, output: Output) -> Float[Tensor, "*rows"]:
        """The number that is meant."""
        return self.logit if output == "logit" else self.probability


class Classifier:
    """A frozen, evaluation-mode snapshot of a model, with its normalisation and class names.

    The model itself is copied, never changed: not its mode, not its parameters, not its hooks, also when it raises.
    *Pixels* are in [0, 1]; *inputs* are `(pixels - mean) / std`, what the network sees. A plain function from inputs to
    logits makes a black box: it offers `logits` and nothing that needs gradients.
    """

    def __init__(
        self,
        model: nn.Module | Callable[[Tensor], Any],
        *,
        mean: float | Sequence[float] = 0.0,
        std: float | Sequence[float] = 1.0,
        classes: Sequence[str] | None = None,
        name: str | None = None,
        outputs: str = "logits",
        geometry: Geometry = AS_IS,
        channels: int = 3,
        device: str | torch.device = "cpu",
        rows: int | None = None,
        precision: Precision = "float32",
    ) -> None:
        if outputs not in ("logits", "probabilities"):
            raise SnellenError(f"outputs must be 'logits' or 'probabilities', not {outputs!r}")
        if not callable(model):
            raise SnellenError(f"a model must be an nn.Module or a function from inputs to logits, not {model!r}")
        self.device = torch.device(device)
        speed.check_precision(precision, self.device)
        self.precision = precision
        self.mean, self.std = _per_channel(mean), _per_channel(std)
        if bool((self.std <= 0).any()):
            raise SnellenError(f"std must be positive, not {std}")
        self.classes = tuple(classes) if classes is not None else None
        self.outputs = outputs
        self.geometry = geometry
        self.channels = channels
        self.name = str(name or getattr(model, "__name__", type(model).__name__))
        graph = as_graph(model)
        model = model if graph is None else graph
        self.rows = rows
        self.gradient_rows = rows
        self._run: nn.Module | Callable[[Tensor], Any] = (
            snapshot(model, self.device) if isinstance(model, nn.Module) else model
        )
        self.fingerprint = fingerprint(model, self.mean, self.std, outputs)
        self.learned: dict[str, dict[str, Tensor]] = {}
        self._reset()

    def _reset(self) -> None:
        self._ledgers: list[Ledger] = []
        self._shared: dict[tuple[Any, ...], tuple[Any, Passes, float]] = {}
        self._compiled: speed.Compiled | None = None
        self._not_compiled: str | None = None
        self._operations: dict[tuple[Any, ...], tuple[Operation, ...]] = {}
        self._surveys: dict[tuple[int, ...], tokens.Survey] = {}
        self._attending: dict[tuple[int, ...], attention.Attending | str] = {}
        self._shapes: dict[tuple[Any, ...], tuple[int, int, int]] = {}
        self._tails: dict[tuple[Any, ...], tails.Tail | None] = {}
        self.use_compiled = False

    # What it offers -------------------------------------------------------------------------------------------------

    @property
    def module(self) -> nn.Module:
        """The private copy of the wrapped module; a black box has none."""
        if isinstance(self._run, nn.Module):
            return self._run
        raise SnellenError(f"'{self.name}' is a black-box function: it has no layers and no gradients")

    @property
    def offers(self) -> frozenset[Need]:
        """Which needs of methods this classifier can meet at all."""
        if not isinstance(self._run, nn.Module):
            return frozenset()
        if isinstance(self._run, Graph):
            return frozenset({"gradients"})
        return frozenset({"gradients", "layer", "relu"})

    def to_inputs(self, pixels: Images) -> Images:
        """What the network sees of these pixels."""
        return (pixels - self.mean.to(pixels)) / self.std.to(pixels)

    def to_pixels(self, inputs: Images) -> Images:
        """What a person sees of these inputs."""
        return inputs * self.std.to(inputs) + self.mean.to(inputs)

    # Passes ---------------------------------------------------------------------------------------------------------

    def logits(self, inputs: Images, *, through: Handler | None = None) -> Float[Tensor, "batch classes"]:
        """Pre-softmax outputs; `through` sees every operation of all rows at once, and may replace it."""
        rows = len(inputs) if through else self.rows_for(inputs)
        parts = [self._forward(part, through) for part in inputs.split(rows)]
        return torch.cat(parts)

    def probabilities(self, inputs: Images) -> Float[Tensor, "batch classes"]:
        """Softmax outputs."""
        return self.logits(inputs).softmax(dim=1)

    def scores(self, blocks: Iterable[tuple[Images, Targets]], of: Output) -> Float[Tensor, " rows"]:
        """The target's logit or probability for each row of many blocks, regrouped so that every pass is full."""
        return self._regrouped(blocks, lambda logits, targets: _pick(logits, targets, of))

    def answers(self, blocks: Iterable[tuple[Images, Targets]]) -> Answers:
        """The target's logit and probability and the class on top, for each row of many blocks in full passes."""

        def read(logits: Tensor, targets: Tensor) -> Tensor:
            found = Answers.read(logits, targets)
            return torch.stack([found.logit, found.probability, found.predicted.to(found.logit)], dim=1)

        logit, probability, predicted = self._regrouped(blocks, read).view(-1, 3).unbind(1)
        return Answers(logit, probability, predicted.long())

    def predictions(self, inputs: Images) -> Int[Tensor, " batch"]:
        """The class on top for each row."""
        return self.logits(inputs).argmax(dim=1)

    def _regrouped(
        self, blocks: Iterable[tuple[Images, Targets]], read: Callable[[Tensor, Tensor], Tensor]
    ) -> Float[Tensor, "rows ..."]:
        """What `read` makes of the logits of each row, over blocks regrouped so that every pass is full."""
        found: list[Tensor] = []
        held_inputs: list[Tensor] = []
        held_targets: list[Tensor] = []
        held = 0
        rows = 0

        def flush(count: int) -> None:
            nonlocal held
            inputs = held_inputs[0] if len(held_inputs) == 1 else torch.cat(held_inputs)
            targets = held_targets[0] if len(held_targets) == 1 else torch.cat(held_targets)
            found.append(read(self._forward(inputs[:count]), targets[:count]))
            held -= count
            held_inputs[:] = [inputs[count:]] if held else []
            held_targets[:] = [targets[count:]] if held else []

        for inputs, targets in blocks:
            rows = rows or self.rows_for(inputs)
            held_inputs.append(inputs)
            held_targets.append(targets)
            held += len(inputs)
            while held >= rows:
                flush(rows)
        if held:
            flush(held)
        return torch.cat(found) if found else torch.empty(0)

    def output(self, inputs: Images, targets: Targets, of: Output) -> Float[Tensor, " batch"]:
        """The target's logit or probability of each row, kept for the next caller with the very same tensors."""
        return self.answered(inputs, targets).of(of)

    def answered(self, inputs: Images, targets: Targets) -> Answers:
        """All answers about these rows, from one pass that any caller with the very same inputs shares."""
        return Answers.read(self.known_logits(inputs), targets)

    def known_logits(self, inputs: Images) -> Float[Tensor, "batch classes"]:
        """The logits of these rows, kept for the next caller with the very same tensor."""
        return self._share(("logits",), inputs, inputs, lambda: self.logits(inputs), Passes(forward=len(inputs)))

    def kept(self, what: Hashable, inputs: Images, targets: Targets, compute: Callable[[], T], cost: Passes) -> T:
        """What somebody asked of these very tensors before, else what `compute` finds at this cost.

        For answers that do not hang on any map, so that all methods on the same images share them.
        """
        return self._share(("kept", what), inputs, targets, compute, cost)

    def gradient(
        self,
        inputs: Images,
        targets: Targets,
        *,
        of: Output = "logit",
        through: Handler | None = None,
        group: int = 1,
        shared: bool = False,
    ) -> tuple[Images, Float[Tensor, " batch"]]:
        """The gradient of each row's target output at that row, and the output itself.

        `through` may replace every operation of the forward pass by one with another backward rule. Each `group` of
        neighbouring rows goes through the model in one pass. `shared=True` keeps the answer for the next caller with the
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

        if not shared:
            return compute()
        return self._share(("gradient", of, through), inputs, targets, compute, Passes(len(inputs), len(inputs)))

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
                    with self._timed(Passes(forward=len(part))):
                        output = _pick(self._call(part), wanted, of)
                    (activation,) = seen
                    with self._timed(Passes(backward=len(part))):
                        (gradient,) = torch.autograd.grad(output.sum(), activation)
                kept.append(activation.detach().to(inputs.device))
                gradients.append(gradient.to(inputs.device))
            return torch.cat(kept), torch.cat(gradients)

        return self._share(("layer", layer, of), inputs, targets, compute, Passes(len(inputs), len(inputs)))

    def layer_features(self, inputs: Images, layer: str) -> Float[Tensor, "batch features rows columns"]:
        """The activations of a layer alone; taken from `layer_gradient` where that was asked for on the same tensor."""
        if not inputs.is_inference():
            for key, (known, _, seconds) in self._shared.items():
                if key[:2] == ("layer", layer) and key[3:5] == (id(inputs), inputs._version):
                    self.book_shared(Passes(forward=len(inputs)), seconds)
                    return cast(Tensor, known[0])

        def compute() -> Tensor:
            kept = []
            for part in inputs.split(self.rows_for(inputs)):
                with self.recording(layer, part) as seen, torch.no_grad(), self._timed(Passes(forward=len(part))):
                    self._call(part)
                kept.append(seen[0].to(inputs.device))
            return torch.cat(kept)

        return self._share(("features", layer), inputs, inputs, compute, Passes(forward=len(inputs)))

    def layer_shape(self, inputs: Images, layer: str) -> tuple[int, int, int]:
        """Features, rows and columns of a layer for images of this size; a look at the model, so no part of any account."""
        key = (layer, *inputs.shape[1:])
        if key not in self._shapes:
            with torch.inference_mode(), self.recording(layer, inputs) as seen:
                self._call(inputs[:1])
            features, rows, columns = seen[0].shape[1:]
            self._shapes[key] = (features, rows, columns)
        return self._shapes[key]

    def look(self, inputs: Images) -> Float[Tensor, "batch classes"]:
        """The logits, as a look at the model itself: no part of any account."""
        with torch.inference_mode():
            return self._call(inputs).to(inputs.device)

    def tail(
        self, inputs: Images, layer: str
    ) -> Callable[[Float[Tensor, "rows features down across"]], Float[Tensor, "rows classes"]] | None:
        """The rest of the model behind a layer, from its feature maps to the logits, for images of this size.

        None where something behind the layer also reads what came before it; `resume` works there too.
        """
        self.layer_shape(inputs, layer)
        layout = self.survey(inputs).layout(layer)
        key = (layer, *inputs.shape[1:])
        if key not in self._tails:
            # A token without a place is not part of a feature map, so it would have to come from before.
            alone = layout is not None and not (layout.order == "tokens" and layout.prefix)
            module = self.module.get_submodule(layer)
            self._tails[key] = tails.tail_of(module, self._call, inputs[:1]) if alone else None
        tail = self._tails[key]
        if tail is None or layout is None:
            return None

        def run(activations: Tensor) -> Tensor:
            placed = activations.to(self.device)
            if layout.order != "channels-first":
                placed = layout.put_back(placed, placed.new_empty(len(placed), 0, placed.shape[1]))
            with self._timed(Passes()), speed.arithmetic(self.precision, self.device):
                return tail(placed).to(activations.device)

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
        tail = self.tail(inputs, layer)
        with torch.enable_grad() if activations.requires_grad else torch.inference_mode():
            if tail is not None:
                return tail(activations)
            layout = self.survey(inputs).layout(layer)
            assert layout is not None, "a layer without places was refused above"
            placed = activations.to(self.device)
            with self._timed(Passes(forward=len(owners))):
                logits = tails.run_replaced(
                    self.module.get_submodule(layer),
                    lambda output: layout.put_back(placed, output),
                    lambda: self._call(inputs[owners]),
                )
            return logits.to(inputs.device)

    def resume_rows(self, inputs: Images, layer: str) -> int:
        """How many rows `resume` should be given at once."""
        if self.tail(inputs, layer) is None:
            return self.rows_for(inputs)
        features, rows, columns = self.layer_shape(inputs, layer)
        return _power_of_two(TAIL_BUDGET // (4 * features * rows * columns))

    def attentions(self, inputs: Images, fold: attention.Folding) -> Float[Tensor, "batch layers tokens tokens"]:
        """The weights of every attention of a pass, in order, with the heads folded into one."""
        rows = min(self.rows_for(inputs), self._attention_rows(inputs, FORWARD_BUDGET, kept=1))
        found = []
        for part in inputs.split(rows):
            noted = attention.Attentions(fold=fold)
            with torch.no_grad(), self._timed(Passes(forward=len(part))), intercepting(self.module, noted):
                self._call(part)
            found.append(torch.stack(noted.weights, dim=1).to(inputs.device))
        return torch.cat(found)

    def attention_gradients(
        self, inputs: Images, targets: Targets, weigh: attention.Weighing, *, of: Output = "logit"
    ) -> Float[Tensor, "batch layers tokens tokens"]:
        """What `weigh` makes of the weights of every attention and of the gradient of the target's output there.

        The graph starts at the first attention, and the backward pass ends there.
        """
        layers = self.attending(inputs).layers
        rows = min(self.rows_for(inputs, gradients=True), self._attention_rows(inputs, GRADIENT_BUDGET, kept=layers))
        found = []
        for part, wanted in zip(inputs.split(rows), targets.split(rows), strict=True):
            noted = attention.Attentions(gradients=True)
            with torch.enable_grad():
                with self._timed(Passes(forward=len(part))), intercepting(self.module, noted):
                    output = _pick(self._call(part), wanted, of)
                with self._timed(Passes(backward=len(part))):
                    gradients = torch.autograd.grad(output.sum(), noted.weights)
            weighed = [weigh(one.detach(), two) for one, two in zip(noted.weights, gradients, strict=True)]
            found.append(torch.stack(weighed, dim=1).to(inputs.device))
        return torch.cat(found)

    def _attention_rows(self, inputs: Images, budget: int, *, kept: int) -> int:
        """Rows whose attention weights, with what is computed from them, fit into the budget."""
        heads, count = self.attending(inputs).heads, len(self.attending(inputs).readers)
        return _power_of_two(budget // (4 * kept * heads * count**2 * inputs.element_size()))

    @contextlib.contextmanager
    def recording(self, layer: str, inputs: Images, *, leaf: bool = False) -> Iterator[list[Tensor]]:
        """Collects what the named layer puts out while the body runs; `leaf` makes that the start of the graph.

        What is collected is a feature map (batch, features, rows, columns), also where the layer puts out tokens or has its
        channels last; `inputs` are images of the size that will go through.
        """
        modules = dict(self.module.named_modules())
        if layer not in modules:
            raise SnellenError(f"'{self.name}' has no layer '{layer}'{nearest(layer, modules)}")
        layout = self.survey(inputs).layout(layer)
        if layout is None:
            raise SnellenError(f"layer '{layer}' of '{self.name}' does not put out a feature map; name another layer")
        seen: list[Tensor] = []

        def keep(module: nn.Module, args: Any, output: Tensor) -> Tensor | None:
            if seen:
                raise SnellenError(f"layer '{layer}' of '{self.name}' runs more than once in a pass; name another layer")
            # An in-place operation may follow, so the model goes on from a copy, or the copy is kept.
            features = layout.to_map(output)
            seen.append(features.detach().requires_grad_() if leaf else features.clone())
            return layout.put_back(seen[0], output) if leaf else None

        handle = modules[layer].register_forward_hook(keep)
        try:
            yield seen
        finally:
            handle.remove()

    # Account, checks, preparation -----------------------------------------------------------------------------------

    @contextlib.contextmanager
    def counting(self, on_pass: Callable[[Passes], None] | None = None) -> Iterator[Ledger]:
        """Books every pass that the body causes; accounts may nest."""
        ledger = Ledger(on_pass=on_pass)
        self._ledgers.append(ledger)
        try:
            yield ledger
        finally:
            # Two open accounts may hold equal numbers, so the right one is found by identity.
            self._ledgers[:] = [one for one in self._ledgers if one is not ledger]

    def book_shared(self, passes: Passes, seconds: float) -> None:
        """Books passes that were needed, but whose result was already there."""
        for ledger in self._ledgers:
            ledger.share(passes, seconds)

    def adopt(self, sibling: Classifier) -> Classifier:
        """The sibling, whose passes are booked in this classifier's accounts from now on."""
        sibling._ledgers = self._ledgers
        return sibling

    def relative(self, module: nn.Module | Callable[[Tensor], Any], name: str, *, copied: bool = False) -> Classifier:
        """Another model that takes the same inputs, read in the same way; its passes are booked in this one's accounts.

        `copied` says that the module was copied from this classifier's own and nobody else holds it: no copy is made again.
        """
        if copied and isinstance(module, nn.Module):
            twin = copy.copy(self)
            twin.name, twin.learned, twin.rows, twin.gradient_rows = f"{self.name}, {name}", {}, None, None
            twin._run = frozen(module, self.device)
            twin.fingerprint = fingerprint(module, self.mean, self.std, self.outputs)
            return self.adopt(twin)
        other = Classifier(
            module,
            mean=self.mean.flatten().tolist(),
            std=self.std.flatten().tolist(),
            name=f"{self.name}, {name}",
            outputs=self.outputs,
            geometry=self.geometry,
            channels=self.channels,
            device=self.device,
            precision=self.precision,
        )
        return self.adopt(other)

    def operations(self, inputs: Images, *, after: str | None = None) -> tuple[Operation, ...]:
        """Every tensor operation of one pass, in order, with its kind and layer; looked up once per size of image.

        `after` names a layer and leaves out what comes before its end.
        """
        key = (after, *inputs.shape[1:])
        if key not in self._operations:
            seen: list[Operation] = []

            def note(operation: Operation) -> Any:
                seen.append(operation.noted())
                return operation.run()

            layer = self.module if after is None else self.module.get_submodule(after)
            handle = layer.register_forward_hook(lambda *_: seen.clear() if after is not None else None)
            try:
                # A look at the model is no part of a method's account.
                with torch.inference_mode(), intercepting(self.module, note):
                    self._call(inputs[:1])
            finally:
                handle.remove()
            self._operations[key] = tuple(seen)
        return self._operations[key]

    def survey(self, inputs: Images) -> tokens.Survey:
        """Which layers put out a grid of features, and in which order of axes; looked up once per size of image."""
        size = tuple(inputs.shape[1:])
        if size not in self._surveys:
            pair = inputs[:1].expand(2, *size)
            with torch.inference_mode():
                self._surveys[size] = tokens.survey(self.module, lambda: self._call(pair), 2, (size[1], size[2]))
        return self._surveys[size]

    def attending(self, inputs: Images, *, who: str = "a map of attention") -> attention.Attending:
        """Between which tokens the model attends, and which of them its head reads; looked up once per size of image.

        A model whose attention does not lead from token to token is refused in the name of `who` asks.
        """
        size = tuple(inputs.shape[1:])
        if size not in self._attending:
            noted = attention.Attentions(gradients=True)
            with torch.enable_grad(), intercepting(self.module, noted):
                logits = self._call(inputs[:1].expand(2, *size))
            gradient = None
            if logits.requires_grad:
                uneven = torch.linspace(1, 2, logits.shape[1]).to(logits)  # a plain sum may cancel
                (gradient,) = torch.autograd.grad((logits * uneven).sum(), noted.weights[-1])
            self._attending[size] = attention.attending(noted, gradient, 2, self.survey(inputs))
        found = self._attending[size]
        if isinstance(found, str):
            raise SnellenError(f"{who} follows attention between all tokens, but '{self.name}' {found}; use grad-cam")
        return found

    def feature_layer(self, inputs: Images) -> str:
        """Where class-activation methods look: the last layer that still has places, or what enters the last attention."""
        layer = self.survey(inputs).feature_layer()
        if layer is None:
            raise SnellenError(f"no layer of '{self.name}' puts out a grid of features; name one with layer=")
        return layer

    def check(self, inputs: Images, labels: Sequence[int | None] = ()) -> int:
        """Tries one pass and returns the number of classes, or says in a sentence what is wrong with the model."""
        with torch.inference_mode(), self._timed(Passes(forward=len(inputs))):
            try:
                raw = self._raw(inputs)
            except SnellenError:
                raise
            except Exception as problem:
                shape = "×".join(map(str, inputs.shape))
                reason = str(problem).strip().splitlines()
                raise SnellenError(
                    f"'{self.name}' cannot take inputs of shape {shape}: {reason[0] if reason else type(problem).__name__}"
                ) from problem
        count = probes.check_outputs(raw, len(inputs), self.name, self.outputs)
        if self.classes is not None and len(self.classes) != count:
            raise SnellenError(f"'{self.name}' has {count} outputs, but {len(self.classes)} class names were given")
        for label in labels:
            if label is not None and not 0 <= label < count:
                raise SnellenError(f"label {label} is out of range: '{self.name}' has classes 0 to {count - 1}")
        return count

    def rows_for(self, inputs: Images, *, gradients: bool = False) -> int:
        """How many rows of this shape go through the model at once, from the memory budgets; found once, then kept."""
        if self.rows is None or self.gradient_rows is None:
            self.rows, self.gradient_rows = self._fit(inputs)
        return self.gradient_rows if gradients else self.rows

    def copies(self, inputs: Images) -> int:
        """How many copies of this batch fill one pass."""
        return max(1, self.rows_for(inputs) // len(inputs))

    def compile_for(self, inputs: Images) -> str | None:
        """Compiles the forward pass for full batches of this shape and uses it from now on; returns why not if it fails."""
        self.use_compiled = True
        if self._compiled is not None or self._not_compiled is not None:
            return self._not_compiled
        if self.device.type == "cpu" and (missing := speed.compiler_missing()):
            return missing
        rows = self.rows_for(inputs)
        example = self._place(inputs[:1].expand(rows, *inputs.shape[1:]).contiguous())
        try:
            self._compiled = speed.Compiled(self.module, example)
        except Exception as problem:  # every compiler failure means the same here: go on without it
            reason = str(problem).strip().splitlines()
            self._not_compiled = reason[0] if reason else type(problem).__name__
            return self._not_compiled
        return None

    # Below this line the model is called ------------------------------------------------------------------------------

    def _forward(self, inputs: Tensor, through: Handler | None = None) -> Tensor:
        if through is not None:  # which may keep what it sees for a pass with gradients
            with torch.no_grad(), self._timed(Passes(forward=len(inputs))), intercepting(self.module, through):
                return self._call(inputs).to(inputs.device)
        with torch.inference_mode(), self._timed(Passes(forward=len(inputs))):
            graph = self._compiled if self.use_compiled else None
            if graph is None or not graph.fits(inputs):
                return self._call(inputs).to(inputs.device)
            short = graph.shape[0] - len(inputs)
            padded = torch.cat([inputs, inputs[:1].expand(short, *inputs.shape[1:])]) if short > 0 else inputs
            return self._as_logits(graph(self._place(padded))[: len(inputs)].float()).to(inputs.device)

    def _backward(self, inputs: Tensor, targets: Tensor, of: Output, through: Handler | None) -> tuple[Tensor, Tensor]:
        if "gradients" not in self.offers:
            raise SnellenError(f"'{self.name}' is a black-box function: it has no gradients")
        leaf = self._place(inputs.detach()).requires_grad_()
        if leaf is inputs:
            leaf = inputs.clone().requires_grad_()
        with torch.enable_grad():
            with self._timed(Passes(forward=len(inputs))), intercepting(self.module, through) if through else _NOTHING:
                output = _pick(self._call(leaf), targets, of)
            with self._timed(Passes(backward=len(inputs))):
                (gradient,) = torch.autograd.grad(output.sum(), leaf)
        return gradient.contiguous().to(inputs.device), output.detach().to(inputs.device)

    def _call(self, inputs: Tensor) -> Tensor:
        return self._as_logits(self._raw(inputs))

    def _as_logits(self, raw: Tensor) -> Tensor:
        return raw.clamp_min(1e-12).log() if self.outputs == "probabilities" else raw

    def _raw(self, inputs: Tensor) -> Tensor:
        with speed.arithmetic(self.precision, self.device):
            placed = self._place(inputs)
            out = self._run(placed.clone() if placed is inputs else placed)  # a model may work in place on what it is given
        out = getattr(out, "logits", out)
        if not isinstance(out, Tensor):
            if isinstance(out, list | tuple | dict):
                kind = type(out).__name__
                raise SnellenError(
                    f"'{self.name}' returned a {kind}, not one tensor of logits; "
                    "wrap it in a function that returns the logits alone"
                )
            out = torch.as_tensor(out)
        return out.float()

    def _place(self, inputs: Tensor) -> Tensor:
        if not isinstance(self._run, nn.Module):
            return inputs
        return inputs.to(self.device, memory_format=torch.channels_last)

    @contextlib.contextmanager
    def _timed(self, passes: Passes) -> Iterator[None]:
        started = time.perf_counter()
        yield
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        seconds = time.perf_counter() - started
        for ledger in self._ledgers:
            ledger.pay(passes, seconds)

    def _share(self, what: tuple[Any, ...], inputs: Tensor, targets: Tensor, compute: Callable[[], T], cost: Passes) -> T:
        if inputs.is_inference() or targets.is_inference():  # such tensors have no version, so a change would go unseen
            return compute()
        key = (*what, id(inputs), inputs._version, id(targets), targets._version)
        if key in self._shared:
            known, passes, seconds = self._shared[key]
            self.book_shared(passes, seconds)
            return cast(T, known)
        with self.counting() as ledger:
            value = compute()
        self._shared[key] = (value, cost, ledger.seconds)
        weakref.finalize(inputs, self._shared.pop, key, None)  # an address may be used again once its tensor is gone
        weakref.finalize(targets, self._shared.pop, key, None)
        return value

    def _fit(self, inputs: Tensor) -> tuple[int, int]:
        """Rows per pass without and with gradients, as powers of two, from the bytes that one row's activations take."""
        if not isinstance(self._run, nn.Module) or isinstance(self._run, Graph):
            return 16, 16
        with torch.inference_mode():
            largest, total = probes.activation_bytes(self._run, lambda: self._call(inputs[:1]))
        image = inputs[0].numel() * inputs.element_size()
        return _power_of_two(FORWARD_BUDGET // max(largest, image)), _power_of_two(GRADIENT_BUDGET // (total + image))

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key not in _TRANSIENT}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._reset()


_TRANSIENT = {
    "_ledgers",
    "_shared",
    "_compiled",
    "_not_compiled",
    "_operations",
    "_surveys",
    "_attending",
    "_shapes",
    "_tails",
    "use_compiled",
}
_NOTHING = contextlib.nullcontext()


def _power_of_two(rows: int) -> int:
    return 1 << (min(512, max(1, rows)).bit_length() - 1)


def _per_channel(values: float | Sequence[float]) -> Tensor:
    return torch.as_tensor(values, dtype=torch.float32).reshape(1, -1, 1, 1)


def _pick(logits: Tensor, targets: Tensor, of: Output) -> Tensor:
    rows = logits if of == "logit" else logits.softmax(dim=1)
    picked: Tensor = rows.gather(1, targets.to(rows.device).view(-1, 1)).squeeze(1)
    return picked.to(targets.device)
