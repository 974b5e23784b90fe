"""Guard: notices a plug-in that changes what it was lent, fails it by name, and makes good what it changed.

All methods and metrics of a shard work on the same tensors and the same model, so that one which writes into them would
change the numbers of all others without a word.
"""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from snellen.classifier import Classifier


class ChangedError(Exception):
    """A plug-in changed what it was lent; that is made good, but what it computed does not count."""


class Guard:
    """Clean copies of all that plug-ins are lent, to compare with after each call and to restore from.

    `classifiers` and `tensors` have the names that a sentence about a change calls them by.
    """

    def __init__(self, classifiers: Mapping[str, Classifier], tensors: Mapping[str, Tensor | None] | None = None) -> None:
        self._classifiers = {name: (classifier, _clean(classifier)) for name, classifier in classifiers.items()}
        self._tensors = {name: _Copy(tensor) for name, tensor in (tensors or {}).items() if tensor is not None}

    def lend(self, name: str, tensor: Tensor) -> None:
        """Guards one more tensor."""
        self._tensors[name] = _Copy(tensor)

    @contextmanager
    def watching(self, who: str, error: type[Exception] = ChangedError) -> Iterator[None]:
        """Lends everything to the body; what it changed is restored, and is an error unless it failed anyway."""
        changed: list[str] = []
        try:
            with _same_settings():
                yield
        finally:
            changed = self._restored()
        if changed:
            more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
            raise error(f"{who} changed {changed[0]}{more}, which all methods and metrics share; let it work on a copy")

    def _restored(self) -> list[str]:
        """What had been changed, in words; it is as before now."""
        changed = [name for name, tensor in self._tensors.items() if tensor.restore()]
        suspect = bool(changed)
        for name, (_, clean) in self._classifiers.items():
            suspect |= clean.was_written()
            found = clean.differences()
            if found:
                clean.restore()
                found = clean.without_habits(found, self._tensors.get("the inputs"))
            clean.settle()
            changed += [f"{what} of {name}" for what in found]
        if suspect or changed:  # answers that were cached meanwhile may be about something else
            for classifier, _ in self._classifiers.values():
                classifier.clear_cache()
        return changed


class _Copy:
    """A tensor and the values that it held."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor
        self._values = tensor.detach().clone()
        self._needs_gradient = tensor.requires_grad

    def differs(self) -> bool:
        """Whether it holds other values now."""
        now, before = self.tensor.detach(), self._values
        if now.shape != before.shape or now.dtype != before.dtype or now.device != before.device:
            return True
        return not torch.equal(now, before) and not bool(((now == before) | (now.isnan() & before.isnan())).all())

    def settle(self) -> None:
        """Takes away a gradient that was left, and the wish for one: neither is a change of values."""
        if self.tensor.is_leaf and self.tensor.requires_grad != self._needs_gradient:
            self.tensor.requires_grad_(self._needs_gradient)
        if self.tensor.is_leaf and self.tensor.grad is not None:
            self.tensor.grad = None

    def restore(self) -> bool:
        """Writes the values back, and says whether that was needed; in place where it can be, because others hold views."""
        self.settle()
        if not self.differs():
            return False
        if self.tensor.shape == self._values.shape:
            with torch.inference_mode():
                self.tensor.detach().copy_(self._values)
        else:
            self.tensor.data = self._values.clone()
        return True


_HOOKS = tuple(name for name, value in vars(nn.Module()).items() if "hooks" in name and isinstance(value, dict))
_PARTS = ("_parameters", "_buffers", "_modules")
_PLAIN = (bool, int, float, str, tuple, type(None))


class _Clean:
    """A classifier as it was: the values of its tensors, and the mode, hooks and parts of each of its modules."""

    def __init__(self, classifier: Classifier, habits: set[str]) -> None:
        self.habits = habits
        self._classifier = weakref.ref(classifier)
        run = classifier.network.run
        modules = list(run.named_modules()) if isinstance(run, nn.Module) else []
        self._modules = [(name, one, {key: _shallow(value) for key, value in vars(one).items()}) for name, one in modules]
        self._tensors = {name: _Copy(tensor) for name, tensor in _tensors(classifier).items()}
        self._learned = {name: dict(one) for name, one in classifier.fitted_state.items()}
        self._marks = self._versions()

    def current(self) -> bool:
        """Whether the classifier is still the one that was copied."""
        classifier = self._classifier()
        if classifier is None or self._learned.keys() != classifier.fitted_state.keys():
            return False
        known = _tensors(classifier)
        same = known.keys() - self.habits == self._tensors.keys() - self.habits
        return same and all(known[name] is self._tensors[name].tensor for name in known if name not in self.habits)

    def was_written(self) -> bool:
        """Whether somebody wrote to its tensors since the last time, be it the same values again."""
        before, self._marks = self._marks, self._versions()
        return before != self._marks

    def differences(self) -> list[str]:
        """What is not as it was, in words."""
        found = [_named(name) for name, tensor in self._tensors.items() if name not in self.habits and tensor.differs()]
        for name, module, held in self._modules:
            found += [_named(name, what) for what in _changes(module, held) if _named(name, what) not in self.habits]
        classifier = self._classifier()
        if classifier is not None and classifier.fitted_state.keys() != self._learned.keys():
            found.append("what methods learnt")
        return list(dict.fromkeys(found))

    def without_habits(self, found: list[str], inputs: _Copy | None) -> list[str]:
        """Those of these differences that the model does not make by itself in passes of its own."""
        classifier = self._classifier()
        if classifier is None or inputs is None:
            return found
        for batch in (inputs.tensor[:1], inputs.tensor, inputs.tensor.repeat(2, 1, 1, 1)):
            with torch.no_grad():
                classifier.logits(batch)
        own = self.differences()
        self.habits |= {*own, *(name for name in self._tensors if _named(name) in own)}
        return [one for one in found if one not in own]

    def settle(self) -> None:
        """Takes away gradients that were left."""
        for tensor in self._tensors.values():
            tensor.settle()
        self._marks = self._versions()

    def restore(self) -> None:
        """Makes the classifier what it was."""
        for _, module, held in self._modules:
            now = vars(module)
            for key in now.keys() - held.keys():
                del now[key]
            for key, value in held.items():
                if isinstance(value, dict) and isinstance(now.get(key), dict):  # handles of hooks know their dictionary
                    now[key].clear()
                    now[key].update(value)
                else:
                    now[key] = _shallow(value)
        for name, tensor in self._tensors.items():
            if name not in self.habits:
                tensor.restore()
        classifier = self._classifier()
        if classifier is not None:
            classifier.fitted_state = {name: dict(one) for name, one in self._learned.items()}

    def _versions(self) -> list[int]:
        return [-1 if tensor.tensor.is_inference() else tensor.tensor._version for tensor in self._tensors.values()]


_CLEAN: weakref.WeakKeyDictionary[Classifier, _Clean] = weakref.WeakKeyDictionary()


def _clean(classifier: Classifier) -> _Clean:
    """The clean copy of a classifier; another one where its owner changed it between two calls."""
    known = _CLEAN.get(classifier)
    if known is None or not known.current() or known.differences():
        known = _CLEAN[classifier] = _Clean(classifier, known.habits if known else set())
    return known


def _tensors(classifier: Classifier) -> dict[str, Tensor]:
    """All tensors of a classifier by name: those of its module, its normalisation, and what methods learnt."""
    run = classifier.network.run
    found: dict[str, Tensor] = {"mean": classifier.mean, "std": classifier.std}
    if isinstance(run, nn.Module):
        found |= dict(run.named_parameters()) | dict(run.named_buffers())
    for lesson, tensors in classifier.fitted_state.items():
        found |= {f"{lesson}: {name}": tensor for name, tensor in tensors.items()}
    return found


def _changes(module: nn.Module, held: Mapping[str, Any]) -> Iterator[str]:
    """What of a module itself is not as it was; what a forward pass may write beside it is left to the model."""
    now = vars(module)
    if now.get("training") != held.get("training"):
        yield "the mode (train or eval)"
    if now.get("forward") is not held.get("forward"):
        yield "the forward function"
    if not all(_same(now.get(key, {}), held.get(key, {})) for key in _HOOKS):
        yield "the hooks"
    if not all(_same(now.get(key, {}), held.get(key, {})) for key in _PARTS):
        yield "the parts"
    own = {} if not type(module).__module__.startswith("torch.nn.") else held  # these never write to their own settings
    if any(isinstance(value, _PLAIN) and key != "training" and now.get(key) != value for key, value in own.items()):
        yield "the settings"


def _same(now: Any, held: Any) -> bool:
    """Whether two dictionaries hold the very same objects; a scripted module has none."""
    if not held or not isinstance(held, dict):
        return not now or not isinstance(now, dict)
    return len(now) == len(held) and all(now.get(key) is value for key, value in held.items())


def _named(name: str, what: str = "") -> str:
    return f"{what} of '{name}'" if what and name else what or f"'{name}'"


def _shallow(value: Any) -> Any:
    return copy.copy(value) if isinstance(value, dict | list | set) else value


_SETTINGS: dict[Callable[[], Any], Callable[[Any], Any]] = {
    torch.get_default_dtype: torch.set_default_dtype,
    torch.get_num_threads: torch.set_num_threads,
    torch.get_float32_matmul_precision: torch.set_float32_matmul_precision,
    torch.are_deterministic_algorithms_enabled: torch.use_deterministic_algorithms,
    torch.is_grad_enabled: torch.set_grad_enabled,
}
"""What a plug-in may set for the whole process: how it is read, and how it is set."""


@contextmanager
def _same_settings() -> Iterator[None]:
    """Afterwards the settings of torch that would change others' numbers are as before."""
    before = {write: (read, read()) for read, write in _SETTINGS.items()}
    try:
        yield
    finally:
        for write, (read, value) in before.items():
            if read() != value:
                write(value)
