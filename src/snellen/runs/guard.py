"""Guard: notices a plug-in that changes shared tensors or the model, raises an error with its name, and restores them.

All methods and metrics of a shard work on the same tensors and the same model. A plug-in that writes into them would
silently change the scores of all others.
"""

from __future__ import annotations

import contextlib
import copy
import ctypes
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from snellen.classifier import Classifier


class ChangedError(Exception):
    """A plug-in changed shared objects. They are restored; what it computed does not count."""


class Guard:
    """Copies of everything that plug-ins share, to compare with after each call and to restore from.

    Args:
        classifiers: By the name that an error message uses.
        tensors: By the name that an error message uses.
    """

    def __init__(self, classifiers: Mapping[str, Classifier], tensors: Mapping[str, Tensor | None] | None = None) -> None:
        self._classifiers = {name: (classifier, _copy_of(classifier)) for name, classifier in classifiers.items()}
        self._tensors = {name: _TensorCopy(tensor) for name, tensor in (tensors or {}).items() if tensor is not None}

    def add(self, name: str, tensor: Tensor) -> None:
        """Guards another tensor."""
        self._tensors[name] = _TensorCopy(tensor)

    @contextmanager
    def watching(self, plugin: str, error: type[Exception] = ChangedError) -> Iterator[None]:
        """Restores whatever the body changes, and raises `error` for it unless the body raised already.

        Args:
            plugin: Its name, for the error message.
            error: The type of the exception.
        """
        changed: list[str] = []
        try:
            with _restoring_settings():
                yield
        finally:
            changed = self._restore()
        if changed:
            more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
            raise error(f"{plugin} changed {changed[0]}{more}, which all methods and metrics share; let it work on a copy")

    def _restore(self) -> list[str]:
        """Restores everything; returns what had been changed, in words."""
        changed = [name for name, tensor in self._tensors.items() if tensor.restore()]
        suspect = bool(changed)
        for name, (_, clean) in self._classifiers.items():
            suspect |= clean.was_written()
            differences = clean.differences()
            if differences:
                clean.restore()
                differences = clean.without_own_changes(differences, self._tensors.get("the inputs"))
            clean.drop_gradients()
            changed += [f"{what} of {name}" for what in differences]
        if suspect or changed:  # outputs that were cached meanwhile may be wrong
            for classifier, _ in self._classifiers.values():
                classifier.clear_cache()
        return changed


def _memcmp() -> Callable[[int, int, int], int]:
    """The C library's comparison of memory, which is 0 for equal bytes; where there is none, nothing counts as equal."""
    with contextlib.suppress(OSError, AttributeError, TypeError):
        compare = ctypes.CDLL(None).memcmp
        compare.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
        return compare
    return lambda first, second, size: 1


_MEMCMP = _memcmp()


class _TensorCopy:
    """A tensor and a copy of its values."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor
        self._values = tensor.detach().clone()
        self._needs_gradient = tensor.requires_grad
        values = self._values
        self._bytes = values.nbytes if values.is_cpu and values.untyped_storage().nbytes() == values.nbytes else None

    def differs(self) -> bool:
        """Whether the tensor has other values now."""
        now, before = self.tensor, self._values
        if now.shape != before.shape or now.dtype != before.dtype or now.device != before.device:
            return True
        # The bytes of memory are compared first: equal ones mean equal values, at a quarter of the time.
        if (
            self._bytes is not None
            and now.stride() == before.stride()
            and not _MEMCMP(now.data_ptr(), before.data_ptr(), self._bytes)
        ):
            return False
        now = now.detach()
        return not torch.equal(now, before) and not bool(((now == before) | (now.isnan() & before.isnan())).all())

    def drop_gradients(self) -> None:
        """Removes a gradient, and resets `requires_grad`: neither counts as a change of values."""
        if self.tensor.is_leaf and self.tensor.requires_grad != self._needs_gradient:
            self.tensor.requires_grad_(self._needs_gradient)
        if self.tensor.is_leaf and self.tensor.grad is not None:
            self.tensor.grad = None

    def restore(self) -> bool:
        """Writes the values back, in place where possible, because there may be views; whether that was needed."""
        self.drop_gradients()
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


class _ClassifierCopy:
    """A copy of a classifier, to compare with and restore from: tensors, mode, hooks and parts of each module.

    `own_changes` names what the model changes in its own passes, such as a counter; that is not compared.

    """

    def __init__(self, classifier: Classifier, own_changes: set[str]) -> None:
        self.own_changes = own_changes
        self._classifier = weakref.ref(classifier)
        run = classifier.network.run
        modules = list(run.named_modules()) if isinstance(run, nn.Module) else []
        self._modules = [
            (name, module, {key: _shallow_copy(value) for key, value in vars(module).items()}) for name, module in modules
        ]
        self._tensors = {name: _TensorCopy(tensor) for name, tensor in _tensors(classifier).items()}
        self._fitted = {name: dict(state) for name, state in classifier.fitted_state.items()}
        self._marks = self._versions()

    def current(self) -> bool:
        """Whether the classifier is still the one that was copied."""
        classifier = self._classifier()
        if classifier is None or self._fitted.keys() != classifier.fitted_state.keys():
            return False
        tensors = _tensors(classifier)
        same = tensors.keys() - self.own_changes == self._tensors.keys() - self.own_changes
        return same and all(tensors[name] is self._tensors[name].tensor for name in tensors if name not in self.own_changes)

    def was_written(self) -> bool:
        """Whether its tensors were written to since the last call, also with the same values."""
        before, self._marks = self._marks, self._versions()
        return before != self._marks

    def differences(self) -> list[str]:
        """What differs from the copy, in words."""
        changed = [
            _in_words(name) for name, tensor in self._tensors.items() if name not in self.own_changes and tensor.differs()
        ]
        for name, module, held in self._modules:
            if not _same_attributes(vars(module), held):
                changed += [
                    _in_words(name, what) for what in _changes(module, held) if _in_words(name, what) not in self.own_changes
                ]
        classifier = self._classifier()
        if classifier is not None and classifier.fitted_state.keys() != self._fitted.keys():
            changed.append("the fitted states")
        return list(dict.fromkeys(changed))

    def without_own_changes(self, differences: list[str], inputs: _TensorCopy | None) -> list[str]:
        """The differences that the model does not make by itself in its own passes, which are tried on the inputs."""
        classifier = self._classifier()
        if classifier is None or inputs is None:
            return differences
        for batch in (inputs.tensor[:1], inputs.tensor, inputs.tensor.repeat(2, 1, 1, 1)):
            with torch.no_grad():
                classifier.logits(batch)
        own = self.differences()
        self.own_changes |= {*own, *(name for name in self._tensors if _in_words(name) in own)}
        return [what for what in differences if what not in own]

    def drop_gradients(self) -> None:
        """Removes gradients from all tensors."""
        for tensor in self._tensors.values():
            tensor.drop_gradients()
        self._marks = self._versions()

    def restore(self) -> None:
        """Restores the classifier."""
        for _, module, held in self._modules:
            now = vars(module)
            for key in now.keys() - held.keys():
                del now[key]
            for key, value in held.items():
                if isinstance(value, dict) and isinstance(now.get(key), dict):  # handles of hooks refer to the dictionary
                    now[key].clear()
                    now[key].update(value)
                else:
                    now[key] = _shallow_copy(value)
        for name, tensor in self._tensors.items():
            if name not in self.own_changes:
                tensor.restore()
        classifier = self._classifier()
        if classifier is not None:
            classifier.fitted_state = {name: dict(state) for name, state in self._fitted.items()}

    def _versions(self) -> list[int]:
        return [-1 if tensor.tensor.is_inference() else tensor.tensor._version for tensor in self._tensors.values()]


_COPIES: weakref.WeakKeyDictionary[Classifier, _ClassifierCopy] = weakref.WeakKeyDictionary()


def _copy_of(classifier: Classifier) -> _ClassifierCopy:
    """The cached copy of a classifier; a new one where its owner changed the classifier between two calls."""
    clean = _COPIES.get(classifier)
    if clean is None or not clean.current() or clean.differences():
        clean = _COPIES[classifier] = _ClassifierCopy(classifier, clean.own_changes if clean else set())
    return clean


def _tensors(classifier: Classifier) -> dict[str, Tensor]:
    """All tensors of a classifier by name: those of its module, its normalisation, and fitted states."""
    run = classifier.network.run
    every: dict[str, Tensor] = {"mean": classifier.mean, "std": classifier.std}
    if isinstance(run, nn.Module):
        every |= dict(run.named_parameters()) | dict(run.named_buffers())
    for state, tensors in classifier.fitted_state.items():
        every |= {f"{state}: {name}": tensor for name, tensor in tensors.items()}
    return every


def _same_attributes(now: Mapping[str, Any], held: Mapping[str, Any]) -> bool:
    """Whether all attributes of a module are as they were; False where they cannot be compared at once."""
    try:
        # Python compares objects by identity before it asks them, so no tensor or module is asked unless it was replaced.
        return bool(now == held)
    except Exception:  # what an attribute of the user's own raises when it is compared
        return False


def _changes(module: nn.Module, held: Mapping[str, Any]) -> Iterator[str]:
    """What differs in a module itself; attributes that a forward pass may write are not compared."""
    now = vars(module)
    if now.get("training") != held.get("training"):
        yield "the mode (train or eval)"
    if now.get("forward") is not held.get("forward"):
        yield "the forward function"
    if not all(_same_objects(now.get(key, {}), held.get(key, {})) for key in _HOOKS):
        yield "the hooks"
    if not all(_same_objects(now.get(key, {}), held.get(key, {})) for key in _PARTS):
        yield "the parts"
    own = {} if not type(module).__module__.startswith("torch.nn.") else held  # these never write to their own settings
    if any(isinstance(value, _PLAIN) and key != "training" and now.get(key) != value for key, value in own.items()):
        yield "the settings"


def _same_objects(now: Any, held: Any) -> bool:
    """Whether two dictionaries hold the same objects; a scripted module has none."""
    if not held or not isinstance(held, dict):
        return not now or not isinstance(now, dict)
    return len(now) == len(held) and all(now.get(key) is value for key, value in held.items())


def _in_words(name: str, what: str = "") -> str:
    return f"{what} of '{name}'" if what and name else what or f"'{name}'"


def _shallow_copy(value: Any) -> Any:
    return copy.copy(value) if isinstance(value, dict | list | set) else value


_SETTINGS: dict[Callable[[], Any], Callable[[Any], Any]] = {
    torch.get_default_dtype: torch.set_default_dtype,
    torch.get_num_threads: torch.set_num_threads,
    torch.get_float32_matmul_precision: torch.set_float32_matmul_precision,
    torch.are_deterministic_algorithms_enabled: torch.use_deterministic_algorithms,
    torch.is_grad_enabled: torch.set_grad_enabled,
}
"""Settings of torch for the whole process: the function that reads each, and the one that writes it."""


@contextmanager
def _restoring_settings() -> Iterator[None]:
    """Restores the settings of torch for the whole process afterwards."""
    before = {write: (read, read()) for read, write in _SETTINGS.items()}
    try:
        yield
    finally:
        for write, (read, value) in before.items():
            if read() != value:
                write(value)
