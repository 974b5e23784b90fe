"""Cases where the method explains a slightly changed image again."""

from __future__ import annotations

from torch import Tensor, nn

from snellen.conformance.fixtures import (
    Fixture,
    LinearModel,
    constant,
    fake_cam,
    fixture,
    fixture_batch,
    gradient,
    input_x_gradient,
    nervous,
    noise,
)
from snellen.conformance.reference_cases import ReferenceCase, batch_independent, better, order_independent, same, value

_CLEAN = 0.25 + noise(4, 4, seed=12) / 2
_WEIGHTS = noise(4, 4, seed=10)
_LINEAR = LinearModel(_WEIGHTS)


def _change_marker(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """Fake-CAM, with -1 in place of the 0 when anything in the image has changed."""
    maps = fake_cam(model, inputs, targets)
    maps[:, 0, 0] -= (inputs != _CLEAN).flatten(1).any(dim=1).float()
    return maps


def _tenfold(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    return 10 * _change_marker(model, inputs, targets)


def _nervous(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    return 1 + nervous(model, inputs, targets)


def _several() -> Fixture:
    return fixture_batch(_LINEAR, noise(4, 1, 4, 4, seed=11), gradient)


def _of_each(metric: str) -> tuple[ReferenceCase, ...]:
    settings = {"samples": 10, "radius": 0.2}
    return (
        value(f"{metric}/constant", metric, "A method that always returns ones.", fixture(_LINEAR, _CLEAN, constant), 0.0,
              "the same method, run again, gives the same map", kind="re-explaining", settings=settings),
        value(f"{metric}/fake-cam", metric, "Fake-CAM, run again by the same method.", fixture(_LINEAR, _CLEAN, fake_cam),
              0.0,
              "the map does not depend on the image; a published table that explained again by another method has 0.96",
              kind="fake-cam",
              settings=settings),
        value(f"{metric}/linear", metric, "The gradient of a linear model.", fixture(_LINEAR, _CLEAN, gradient), 0.0,
              "its gradient is the same everywhere", settings=settings),
        value(f"{metric}/value", metric, "Fifteen ones and a 0, which becomes -1 when the image changes at all.",
              fixture(_LINEAR, _CLEAN, _change_marker), 15**-0.5, "every draw moves it by 1; its norm is √15",
              settings=settings),
        same(f"{metric}/scaling", metric, "scaling", "A method, and ten times it.", fixture(_LINEAR, _CLEAN, _change_marker),
             fixture(_LINEAR, _CLEAN, _tenfold), "the change is relative to the map", settings=settings),
        better(f"{metric}/direction", metric,
               "The image as map, against a map that changes completely with every pixel value.",
               fixture(_LINEAR, _CLEAN, input_x_gradient), fixture(_LINEAR, _CLEAN, _nervous),
               "the first moves by the noise, the second by its whole size", settings=settings),
        same(f"{metric}/channels", metric, "channels", "A grey image, and the same in three channels.",
             fixture(_LINEAR, _CLEAN, _change_marker), fixture(_LINEAR, _CLEAN, _change_marker, channels=3),
             "a map has no channels",
             settings=settings),
        batch_independent(f"{metric}/batch", metric, _several(), settings=settings),
        order_independent(f"{metric}/order", metric, _several(), settings=settings),
    )  # fmt: skip


_LIPSCHITZ = {"samples": 10, "radius": 0.2, "relative": False}

_ROBUST = (
    value("robustness/value", "robustness", "f = Σx, mapped by input times gradient.",
          fixture(LinearModel(), _CLEAN, input_x_gradient), 1.0, "the map moves exactly as far as the image",
          settings=_LIPSCHITZ),
    value("robustness/double", "robustness", "f = 2 Σx, mapped by input times gradient.",
          fixture(LinearModel(2.0), _CLEAN, input_x_gradient), 2.0, "the map moves twice as far as the image",
          kind="scaling",
          settings=_LIPSCHITZ),
    value("robustness/linear", "robustness", "The gradient of a linear model.", fixture(_LINEAR, _CLEAN, gradient), 0.0,
          "its gradient is the same everywhere", settings=_LIPSCHITZ),
    value("robustness/fake-cam", "robustness", "Fake-CAM, run again.", fixture(_LINEAR, _CLEAN, fake_cam), 0.0,
          "the map does not depend on the image", kind="re-explaining", settings=_LIPSCHITZ),
    better("robustness/direction", "robustness", "The image as map, against one that changes completely with every value.",
           fixture(_LINEAR, _CLEAN, input_x_gradient), fixture(_LINEAR, _CLEAN, _nervous),
           "the first moves with the noise, the second by its whole size", settings=_LIPSCHITZ),
    batch_independent("robustness/batch", "robustness", fixture_batch(LinearModel(), noise(4, 1, 4, 4, seed=11),
              input_x_gradient),
              settings=_LIPSCHITZ),
)  # fmt: skip

CASES = (*_of_each("max-sensitivity"), *_of_each("avg-sensitivity"), *_ROBUST)
