"""Classifier: the interface of methods and metrics to a model.

Only this package touches hooks, gradients, evaluation mode and devices.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from snellen.classifier import arithmetic, attention, batches, gradient_passes, probes, tokens
from snellen.classifier.cache import TensorCache
from snellen.classifier.engines.engine import Engine, EngineName
from snellen.classifier.engines.later import LaterEngine, VariantEngine
from snellen.classifier.engines.trial import Trial, choose, full_pass, try_engine
from snellen.classifier.folded_norms import FoldedNorms, fold_norms
from snellen.classifier.graphs import as_graph
from snellen.classifier.heads import ExclusiveClasses, Head, WithTargets, read_head
from snellen.classifier.layers import NetworkStructure
from snellen.classifier.ledger import Ledger, Ledgers
from snellen.classifier.network import Network
from snellen.classifier.operations import Handler, Operation, intercepting
from snellen.classifier.outputs import TargetOutputs, target_output
from snellen.classifier.snapshot import fingerprint, frozen, snapshot
from snellen.classifier.targets import FurtherTarget
from snellen.errors import SnellenError, first_line
from snellen.images.geometry import AS_IS, Geometry
from snellen.plugins.notation import read_plugin
from snellen.plugins.registry import Need
from snellen.types import Images, Output, Passes, Targets

T = TypeVar("T")


class Classifier:
    """A frozen copy of a model in evaluation mode, with its normalisation and class names.

    The model itself is never changed: not its mode, parameters or hooks, also when it raises. *Pixels* are in [0, 1];
    *inputs* are `(pixels - mean) / std`, what the network receives. A plain function from inputs to logits makes a black
    box, which offers outputs but no gradients and layers.

    Args:
        model: an nn.Module, a TorchScript or exported program, or a function from inputs to logits.
        mean: mean of the normalisation, one number or one per channel.
        std: standard deviation of the normalisation, one number or one per channel.
        classes: names of the classes.
        name: name for records and messages; the name of the model's class or function if None.
        outputs: "logits" or "probabilities". If None, logits are assumed, and outputs that do not look like logits refused.
        heads: what the outputs mean (see `heads`): exclusive-classes, independent-labels, single-logit, number, with
            settings in brackets. If None, exclusive classes are assumed, and outputs that cannot be that are refused.
        geometry: how images are cropped and resized.
        channels: 3, 1 for a greyscale model, or as many as the model takes.
        device: where the model runs.
        rows: images per pass; found from the memory that a pass takes if None.
        precision: float32, bfloat16 or float16.
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
        heads: Head | str | None = None,
        geometry: Geometry = AS_IS,
        channels: int = 3,
        device: str | torch.device = "cpu",
        rows: int | None = None,
        precision: arithmetic.Precision = "float32",
    ) -> None:
        # A head says what outputs mean; whether the model gives logits is stated by `outputs` alone.
        self.outputs_stated = outputs is not None or (isinstance(heads, str) and "outputs" in read_plugin(heads)[1])
        if outputs not in (None, "logits", "probabilities"):
            raise SnellenError(f"outputs must be 'logits' or 'probabilities', not {outputs!r}")
        head = read_head(heads or ExclusiveClasses.kind, outputs)
        if not callable(model):
            raise SnellenError(f"a model must be an nn.Module or a function from inputs to logits, not {model!r}")
        device = torch.device(device)
        arithmetic.check_precision(precision, device)
        self.mean, self.std = _per_channel(mean), _per_channel(std)
        if bool((self.std <= 0).any()):
            raise SnellenError(f"std must be positive, not {std}")
        self.classes = head.column_names(tuple(classes) if classes is not None else None)
        self.geometry = geometry
        self.channels = channels
        name = str(name or getattr(model, "__name__", type(model).__name__))
        graph = as_graph(model)
        model = model if graph is None else graph
        self.rows = rows
        self.gradient_rows = rows
        run = snapshot(model, device) if isinstance(model, nn.Module) else model
        self.network = Network(run=run, name=name, head=head, device=device, precision=precision)
        self.fingerprint = fingerprint(model, self.mean, self.std, head.key)
        self.fitted_state: dict[str, dict[str, Tensor]] = {}
        """State of methods that were fitted to images (see `NeedsFit`), by their `fit_key()`."""
        self.target_name: str | None = None
        """The name of a further target (see `with_target`)."""
        self.model_facts: Mapping[str, Any] = {}
        """What a source knows about the model, for the run record (see `zoo.load_classifier`)."""
        self.notes: tuple[str, ...] = ()
        """What the user should know about the model before a run."""
        self.no_gradient_reason: str | None = None
        """Why outputs have no gradient at the inputs, if `check` found that."""
        self.folds_norms = False
        """Whether passes with gradients fold batch normalisations (see `with_folded_norms`)."""
        self._reset()

    def _reset(self) -> None:
        self._ledgers = Ledgers()
        self._cache = TensorCache()
        self._structure = NetworkStructure(self.network)
        self._trials: dict[tuple[Any, ...], Trial] = {}
        self._engine: Engine | None = None
        self._variant_engine: VariantEngine | None = None
        self._later: LaterEngine | None = None
        self._folded: FoldedNorms | None = None
        self._folded_structure: NetworkStructure | None = None

    # The model ------------------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """Name for records and messages."""
        return self.network.name

    @property
    def outputs(self) -> str:
        """Whether the model itself returns "logits" or "probabilities"."""
        return self.network.head.form

    @property
    def head(self) -> Head:
        """What the outputs mean."""
        return self.network.head

    @property
    def device(self) -> torch.device:
        """Where the model runs."""
        return self.network.device

    @property
    def precision(self) -> arithmetic.Precision:
        """The precision that the model runs in."""
        return self.network.precision

    @property
    def module(self) -> nn.Module:
        """The private copy of the module; a black box has none."""
        return self.network.module

    @property
    def offers(self) -> frozenset[Need]:
        """Which needs of methods the model meets, such as gradients."""
        return self.network.offers - ({"gradients"} if self.no_gradient_reason else frozenset())

    def to_inputs(self, pixels: Images) -> Images:
        """Normalised pixels: what the network receives."""
        return (pixels - self.mean.to(pixels)) / self.std.to(pixels)

    def to_pixels(self, inputs: Images) -> Images:
        """Inputs without normalisation: what a person sees."""
        return inputs * self.std.to(inputs) + self.mean.to(inputs)

    # Outputs --------------------------------------------------------------------------------------------------------

    def logits(self, inputs: Images, *, through: Handler | None = None) -> Float[Tensor, "batch classes"]:
        """One logit per target; `through` may replace each operation of the pass, and gets all rows at once."""
        self._choose_convention(inputs)
        rows = len(inputs) if through else self.rows_for(inputs)
        return torch.cat([self._forward(part, through) for part in inputs.split(rows)])

    def probabilities(self, inputs: Images) -> Float[Tensor, "batch classes"]:
        """The probability of each target."""
        return self.head.probabilities(self.logits(inputs))

    def predictions(self, inputs: Images) -> Int[Tensor, " batch"]:
        """The most likely column of each row."""
        return self.head.best(self.logits(inputs))

    def decisions(self, inputs: Images, targets: Targets) -> Int[Tensor, " batch"]:
        """The column that the model decides for, or whether it predicts each row's target (see `Head.decisions`)."""
        return self.head.decisions(self.logits(inputs), targets).to(inputs.device)

    def scores(self, blocks: Iterable[tuple[Images, Targets]], of: Output) -> Float[Tensor, " rows"]:
        """The target's logit or probability for all rows of many (inputs, targets) blocks, in full passes."""
        return self._read_blocks(blocks, lambda logits, targets: target_output(logits, targets, of, self.head))

    def target_outputs(self, blocks: Iterable[tuple[Images, Targets]]) -> TargetOutputs:
        """The target's logit and probability and the predicted class for all rows of many blocks, in full passes."""

        def read(logits: Tensor, targets: Tensor) -> Tensor:
            outputs = TargetOutputs.read(logits, targets, self.head)
            return torch.stack([outputs.logit, outputs.probability, outputs.predicted.to(outputs.logit)], dim=1)

        logit, probability, predicted = self._read_blocks(blocks, read).view(-1, 3).unbind(1)
        return TargetOutputs(logit, probability, predicted.long())

    def _read_blocks(
        self, blocks: Iterable[tuple[Images, Targets]], read: Callable[[Tensor, Tensor], Tensor]
    ) -> Float[Tensor, "rows ..."]:
        parts = [read(self._forward(inputs), targets) for inputs, targets in batches.regrouped(blocks, self.rows_for)]
        return torch.cat(parts) if parts else torch.empty(0)

    def uncounted_logits(self, inputs: Images) -> Float[Tensor, "batch classes"]:
        """The logits from one pass that no ledger counts, to examine the model itself."""
        self._choose_convention(inputs)
        with torch.inference_mode():
            return self.network(inputs).to(inputs.device)

    # Cached per tensor: the same tensor objects give the cached result, and its passes are booked as cached -----------

    def cached_logits(self, inputs: Images) -> Float[Tensor, "batch classes"]:
        """The logits of these rows, cached per tensor."""
        return self._cached(("logits",), inputs, inputs, lambda: self.logits(inputs))

    def cached_outputs(self, inputs: Images, targets: Targets) -> TargetOutputs:
        """The target's logit and probability and the predicted class of each row, cached per tensor."""
        return TargetOutputs.read(self.cached_logits(inputs), targets, self.head)

    def output(self, inputs: Images, targets: Targets, of: Output) -> Float[Tensor, " batch"]:
        """The target's logit or probability of each row, cached per tensor."""
        return target_output(self.cached_logits(inputs), targets, of, self.head)

    def cached(self, key: Hashable, inputs: Images, targets: Targets, compute: Callable[[], T]) -> T:
        """The result of `compute`, cached per tensor. It must not depend on maps, because all methods use it."""
        return self._cached(("cached", key), inputs, targets, compute)

    def _cached(self, key: tuple[Any, ...], inputs: Tensor, targets: Tensor, compute: Callable[[], T]) -> T:
        return self._cache.get_or_compute(key, inputs, targets, compute, self._ledgers)

    def clear_cache(self) -> None:
        """Drops all cached results."""
        self._cache = TensorCache()

    # Gradients and layers -------------------------------------------------------------------------------------------

    def gradient(
        self,
        inputs: Images,
        targets: Targets,
        *,
        of: Output = "logit",
        through: Handler | None = None,
        group: int = 1,
        cached: bool = False,
        times_outputs: bool = False,
    ) -> tuple[Images, Float[Tensor, " batch"]]:
        """The gradient of each row's target output at its input, and the outputs.

        Args:
            inputs: the rows.
            targets: the target class of each row.
            of: which output of the target.
            through: may replace each operation of the forward pass by one with another backward rule.
            group: this number of neighbouring rows always go through the model in one pass.
            cached: cache the result per tensor.
            times_outputs: multiply the gradient at each of the model's own outputs by that output, before it flows further.
        """

        def compute() -> tuple[Tensor, Tensor]:
            rows = max(1, self.rows_for(inputs, gradients=True) // group) * group
            if "gradients" not in self.offers:
                why = self.no_gradient_reason
                reason = f"gives no gradients ({why})" if why else "is a black-box function: it has no gradients"
                raise SnellenError(f"'{self.name}' {reason}")
            folded = self._fold(inputs) if through is None else None
            network = self.network if folded is None else folded.network
            return _pairs(
                gradient_passes.input_gradient(
                    network, part, part_targets, of, through, self._booking, times_outputs=times_outputs
                )
                for part, part_targets in zip(inputs.split(rows), targets.split(rows), strict=True)
            )

        return self._cached(("gradient", of, through, times_outputs), inputs, targets, compute) if cached else compute()

    def layer_gradient(
        self, inputs: Images, targets: Targets, layer: str, *, of: Output = "logit"
    ) -> tuple[Float[Tensor, "batch features rows columns"], Float[Tensor, "batch features rows columns"]]:
        """The feature map of a layer, and the gradient of each row's target output there; cached per tensor."""

        def compute() -> tuple[Tensor, Tensor]:
            rows = self.rows_for(inputs, gradients=True)
            structure = self._structure_for_gradient(inputs, layer)
            return _pairs(
                gradient_passes.layer_gradient(structure, part, part_targets, layer, of, self._booking)
                for part, part_targets in zip(inputs.split(rows), targets.split(rows), strict=True)
            )

        return self._cached(("layer", layer, of), inputs, targets, compute)

    def _fold(self, inputs: Images) -> FoldedNorms | None:
        """The network with folded normalisations, where that was asked for and is possible."""
        self._choose_convention(inputs)
        if self.folds_norms and (self._folded is None or not self._folded.stands_for(self.network)):
            self._folded = fold_norms(self.network, inputs[:1])
            self._folded_structure = None if self._folded is None else NetworkStructure(self._folded.network)
        return self._folded

    def _structure_for_gradient(self, inputs: Images, layer: str) -> NetworkStructure:
        folded = self._fold(inputs)
        if folded is None or self._folded_structure is None or layer in folded.convolutions:
            return self._structure
        return self._folded_structure

    def layer_features(self, inputs: Images, layer: str) -> Float[Tensor, "batch features rows columns"]:
        """The feature map of a layer, cached per tensor; a cached `layer_gradient` of any targets is used too."""
        cached = self._cache.find(("layer", layer), inputs)
        if cached is not None:
            (features, _), seconds = cached
            self.book_cached(Passes(forward=len(inputs)), seconds)
            return cast(Tensor, features)

        def compute() -> Tensor:
            parts = inputs.split(self.rows_for(inputs))
            return torch.cat([gradient_passes.layer_features(self._structure, part, layer, self._booking) for part in parts])

        return self._cached(("features", layer), inputs, inputs, compute)

    def layer_to_logits(
        self, inputs: Images, layer: str
    ) -> Callable[[Float[Tensor, "rows features down across"]], Float[Tensor, "rows classes"]] | None:
        """The part of the model after a layer, as a function from feature maps to logits, for images of this size.

        None if an operation after the layer also reads values from before it; `resume` works for such layers too.
        """
        rest = self._examine(inputs).layer_to_logits(inputs, layer)
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
        """Logits of the model with these activations as the output of a layer; gradients flow back to the activations.

        Only the part after the layer runs if possible; else the whole model does, and its passes are booked.

        Args:
            inputs: the images.
            layer: name of the layer.
            activations: feature maps of the layer.
            owners: index of the image in `inputs` that each row of `activations` belongs to.
        """
        rest = self.layer_to_logits(inputs, layer)
        with torch.enable_grad() if activations.requires_grad else torch.inference_mode():
            if rest is not None:
                return rest(activations)
            with self._booking(Passes(forward=len(owners))):
                return self._examine(inputs).logits_with_layer(inputs[owners], layer, activations).to(inputs.device)

    def resume_rows(self, inputs: Images, layer: str) -> int:
        """The number of rows that `resume` should get at once."""
        if self.layer_to_logits(inputs, layer) is None:
            return self.rows_for(inputs)
        return batches.resume_rows(*self.layer_shape(inputs, layer))

    def attentions(self, inputs: Images, fold: attention.Folding) -> Float[Tensor, "batch layers tokens tokens"]:
        """The weights of every attention of a pass in order, with the heads folded into one by `fold`."""
        fit = batches.attention_rows(self.attention_layout(inputs), inputs.element_size())
        parts = inputs.split(min(self.rows_for(inputs), fit))
        return torch.cat([gradient_passes.attention_weights(self.network, part, fold, self._booking) for part in parts])

    def attention_gradients(
        self, inputs: Images, targets: Targets, weigh: attention.Weighing, *, of: Output = "logit"
    ) -> Float[Tensor, "batch layers tokens tokens"]:
        """`weigh(weights, gradient)` of every attention of a pass; the gradient is that of the target's output."""
        fit = batches.attention_rows(self.attention_layout(inputs), inputs.element_size(), gradients=True)
        rows = min(self.rows_for(inputs, gradients=True), fit)
        return torch.cat(
            [
                gradient_passes.attention_gradients(self.network, part, part_targets, weigh, of, self._booking)
                for part, part_targets in zip(inputs.split(rows), targets.split(rows), strict=True)
            ]
        )

    # Structure: found once per image size, in passes that no ledger counts ---------------------------------------------

    def operations(self, inputs: Images, *, after: str | None = None) -> tuple[Operation, ...]:
        """All tensor operations of a pass in order, or only those after the layer named `after`."""
        return self._examine(inputs).operations(inputs, after)

    def layer_layouts(self, inputs: Images) -> tokens.LayerLayouts:
        """Which layers output a grid of features, and in which order of axes."""
        return self._examine(inputs).layer_layouts(inputs)

    def feature_layer(self, inputs: Images) -> str:
        """The default layer of class-activation methods: the last one with a grid, or the one before the last attention."""
        return self._examine(inputs).feature_layer(inputs)

    def layer_shape(self, inputs: Images, layer: str) -> tuple[int, int, int]:
        """Features, rows and columns of a layer."""
        return self._examine(inputs).layer_shape(inputs, layer)

    def attention_layout(self, inputs: Images, *, method: str = "a map of attention") -> attention.AttentionLayout:
        """Which tokens the attention connects and the head reads; other kinds of attention are refused for `method`."""
        return self._examine(inputs).attention_layout(inputs, method)

    def recording(
        self, layer: str, inputs: Images, *, leaf: bool = False
    ) -> contextlib.AbstractContextManager[list[Tensor]]:
        """Collects the feature map of a layer while the body runs; `leaf` makes it a leaf of the autograd graph."""
        return self._examine(inputs).recording(layer, inputs, leaf=leaf)

    def _examine(self, inputs: Images) -> NetworkStructure:
        self._choose_convention(inputs)
        return self._structure

    # Ledgers, variants, checks --------------------------------------------------------------------------------------

    def counting(self, on_pass: Callable[[Passes], None] | None = None) -> contextlib.AbstractContextManager[Ledger]:
        """Counts every pass that the body causes; such blocks may nest."""
        return self._ledgers.counting(on_pass)

    def book_cached(self, passes: Passes, seconds: float) -> None:
        """Books passes whose result was cached."""
        self._ledgers.book_cached(passes, seconds)

    def booking(self, passes: Passes) -> contextlib.AbstractContextManager[None]:
        """Counts these passes, made by the body outside this class, and its seconds."""
        return self._booking(passes)

    def count_passes_of(self, variant: Classifier) -> Classifier:
        """The variant, whose passes this classifier's ledgers count from now on; its engine follows that of this one."""
        variant._ledgers = self._ledgers
        variant.use_eager()
        if self._variant_engine is not None:
            variant._later = LaterEngine(self._variant_engine)
        return variant

    def variant(
        self, module: nn.Module | Callable[[Tensor], Any], name: str, *, copied: bool = False, key: str | None = None
    ) -> Classifier:
        """Another model with the inputs and settings of this classifier; this classifier's ledgers count its passes.

        Args:
            module: the other model.
            name: what is special about it; it follows the name of this classifier.
            copied: the module is a copy of this classifier's own that nobody else uses, so it is not copied again.
            key: says exactly what was changed in the copy, so that the fingerprint follows from it and no weights are read.
        """
        name = f"{self.name}, {name}"
        if copied and isinstance(module, nn.Module):
            variant = copy.copy(self)
            variant.network = self.network.variant(frozen(module, self.device), name)
            variant.fitted_state, variant.rows, variant.gradient_rows = {}, None, None
            if key is None:
                variant.fingerprint = fingerprint(module, self.mean, self.std, self.head.key)
            else:
                variant.fingerprint = hashlib.sha256(f"{self.fingerprint} {key}".encode()).hexdigest()[:16]
            variant._reset()
            return self.count_passes_of(variant)
        variant = Classifier(
            module,
            mean=self.mean.flatten().tolist(),
            std=self.std.flatten().tolist(),
            name=name,
            heads=self.head,
            geometry=self.geometry,
            channels=self.channels,
            device=self.device,
            precision=self.precision,
        )
        variant.outputs_stated, variant.target_name = self.outputs_stated, self.target_name
        variant.folds_norms = self.folds_norms
        return self.count_passes_of(variant)

    def with_target(self, target: FurtherTarget, name: str) -> Classifier:
        """The same classifier with one more target, whose column follows those of the classes; ledgers and caches are new.

        Args:
            target: what is explained, from the logits.
            name: the target in words.
        """
        changed = copy.copy(self)
        changed.network = replace(self.network, head=WithTargets(self.head, (target,)))
        changed.fingerprint = hashlib.sha256(f"{self.fingerprint} {target.text}".encode()).hexdigest()[:16]
        changed.target_name = name
        changed._reset()
        return changed

    def with_folded_norms(self) -> Classifier:
        """The same classifier, whose plain gradients come from a copy with batch normalisations folded into convolutions.

        Passes without gradients, and methods with rules for single operations, use the model as it is.
        """
        changed = copy.copy(self)
        changed.folds_norms = True
        changed._reset()
        return changed

    def check_folded_norms(self, inputs: Images) -> None:
        """Raises a SnellenError where normalisations are to be folded and none can be."""
        if self.folds_norms and self._fold(inputs) is None:
            raise SnellenError(
                "--fold-norms folds batch normalisation into the convolution before it, but "
                f"'{self.name}' has none that can be folded with the same outputs; leave it out"
            )

    def check(self, inputs: Images, labels: Sequence[int | None] = ()) -> int:
        """The number of classes, from a pass of these inputs; raises a SnellenError if the model cannot be used."""
        self._choose_convention(inputs)
        with torch.inference_mode(), self._booking(Passes(forward=len(inputs))):
            try:
                raw = self.network.raw(inputs)
            except SnellenError:
                raise
            except Exception as problem:
                shape = "×".join(map(str, inputs.shape))
                remedy = "; state how many it takes with --channels" if " channels, but got " in str(problem) else ""
                raise SnellenError(
                    f"'{self.name}' cannot take inputs of shape {shape}: {first_line(problem)}{remedy}"
                ) from problem
        probes.check_outputs(raw, len(inputs), self.name, self.head)
        self.check_output_range(probes.OutputRange.of(raw), inputs)
        self.head.predicted(self.network.as_logits(raw))  # refuses a number of outputs that does not fit the head
        count = self.head.columns(raw.shape[1])
        if self.classes is not None and len(self.classes) != count:
            raise SnellenError(f"'{self.name}' has {count} outputs, but {len(self.classes)} class names were given")
        for label in labels:
            if label is not None and not 0 <= label < count:
                raise SnellenError(f"label {label} is out of range: '{self.name}' has classes 0 to {count - 1}")
        if "gradients" in self.network.offers:
            leaf = self.network.place(inputs[:1])
            self.no_gradient_reason = probes.no_gradient_reason(lambda leaf: self.network(leaf).sum(), leaf)
        return count

    def check_output_range(self, output_range: probes.OutputRange, inputs: Images) -> str | None:
        """A warning, or a SnellenError, if outputs in this range cannot be what they are taken for (see `probes`)."""
        sigmoid = output_range.within_one and "layer" in self.offers and self._examine(inputs).ends_in_sigmoid(inputs)
        return probes.check_output_range(output_range, self.name, self.head, stated=self.outputs_stated, sigmoid=sigmoid)

    # Rows, engine, passes -------------------------------------------------------------------------------------------

    def rows_for(self, inputs: Images, *, gradients: bool = False) -> int:
        """The number of rows of this shape per pass, from the memory that a pass takes; found once."""
        self._choose_convention(inputs)
        if self.rows is None or self.gradient_rows is None:
            self.rows, self.gradient_rows = batches.rows(self.network, inputs)
        return self.gradient_rows if gradients else self.rows

    def copies(self, inputs: Images) -> int:
        """The number of copies of this batch that fill one pass."""
        return max(1, self.rows_for(inputs) // len(inputs))

    def lay_out(self, images: Images) -> Images:
        """The images in the memory layout of forward-only passes, so that what is made of them need not be rearranged."""
        self._choose_convention(images)
        is_graph = self._engine is not None and self._engine.name == "onnxruntime"
        return images.contiguous() if is_graph else self.network.convention.lay_out(images)

    def choose_engine(self, pictures: Images, passes: int, processes: int = 1) -> list[Trial]:
        """The engines as tried for so many forward-only passes of such pictures, the fastest first; see `engines.trial`.

        Args:
            pictures: some inputs that are to be explained.
            passes: how many passes of one image are planned.
            processes: among how many processes they are divided.
        """
        batch = full_pass(pictures, self.rows_for(pictures))
        trials = choose(self.network, batch, -(-passes // processes))
        self._trials |= {self._trial_key(trial.name, pictures): trial for trial in trials if trial.engine is not None}
        return trials

    def try_engine(self, name: EngineName, pictures: Images) -> Trial:
        """The engine prepared for such pictures, compared with eager outputs and measured."""
        trial = try_engine(name, self.network, full_pass(pictures, self.rows_for(pictures)), timed=True)
        self._trials[self._trial_key(name, pictures)] = trial
        return trial

    def use_engine(self, name: EngineName, pictures: Images, *, variant_rows: int | None = None) -> Trial:
        """Computes forward-only passes of such pictures by this engine from now on, or eagerly where it cannot be used.

        The engine is prepared once per shape of image, and its outputs are compared with eager ones.

        Args:
            name: of the engine.
            pictures: some inputs that are to be explained.
            variant_rows: the rows that each variant computes eagerly before the engine is prepared for it; None for all.
        """
        self.use_eager()
        key = self._trial_key(name, pictures)
        if key not in self._trials:
            batch = full_pass(pictures, self.rows_for(pictures))
            self._trials[key] = try_engine(name, self.network, batch) if name != "eager" else Trial(name=name)
        self._engine = self._trials[key].engine
        if self._engine is not None and variant_rows is not None:
            self._variant_engine = VariantEngine(name, variant_rows)
        return self._trials[key]

    def use_eager(self) -> None:
        """Computes all passes by the module itself from now on."""
        self._engine = self._variant_engine = self._later = None

    def _trial_key(self, name: EngineName, pictures: Images) -> tuple[Any, ...]:
        return (name, *pictures.shape[1:])

    def _choose_convention(self, inputs: Images) -> None:
        """Decides how the model is called with images of this shape; this must come before any hook is set."""
        self.network.choose_convention(inputs, self.rows)

    def _forward(self, inputs: Tensor, through: Handler | None = None) -> Tensor:
        if self._later is not None and through is None and self._later.is_due(len(inputs)):
            self.use_engine(self._later.engine.name, inputs)
        if through is not None:  # no inference mode: the handler may use tensors of this pass in one with gradients
            with torch.no_grad(), self._booking(Passes(forward=len(inputs))), intercepting(self.module, through):
                return self.network(inputs).to(inputs.device)
        with torch.inference_mode(), self._booking(Passes(forward=len(inputs))):
            if self._engine is not None and self._engine.fits(inputs):
                return self._engine.logits(inputs)
            return self.network(inputs).to(inputs.device)

    def _booking(self, passes: Passes) -> contextlib.AbstractContextManager[None]:
        return self._ledgers.booking(passes, self.device)

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key not in _NOT_PICKLED}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._reset()


_NOT_PICKLED = {
    "_ledgers",
    "_cache",
    "_structure",
    "_trials",
    "_engine",
    "_variant_engine",
    "_later",
    "_folded",
    "_folded_structure",
}


def _pairs(parts: Iterable[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    first, second = zip(*parts, strict=True)
    return (first[0], second[0]) if len(first) == 1 else (torch.cat(first), torch.cat(second))


def _per_channel(values: float | Sequence[float]) -> Tensor:
    return torch.as_tensor(values, dtype=torch.float32).reshape(1, -1, 1, 1)
