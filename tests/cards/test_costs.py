from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from tests.cards.planted_loaded_run import small_bench

from snellen.cards.costs import REPEATS, MapCost, agnosticism, efficiency, measure_cost
from snellen.plugins.registry import METHODS
from snellen.types import Passes

MACHINE = {"processor": "abacus", "cores": 1, "threads": 2, "gpu": None}


@dataclass(frozen=True)
class Sleeping:
    """Takes as long as it is told; `naps` notes each map."""

    naps: list[float]
    seconds: float

    def __call__(self, classifier: Any, inputs: Any, targets: Any, *, rng: Any) -> torch.Tensor:
        self.naps.append(self.seconds)
        time.sleep(self.seconds)
        classifier.logits(inputs.repeat(5, 1, 1, 1))
        return inputs[:, 0]

    def passes(self, size: tuple[int, int], classifier: Any) -> Passes:
        return Passes(5)


def test_seconds_and_passes_are_of_one_image_alone() -> None:
    naps: list[float] = []
    cost = measure_cost(Sleeping(naps, 0.02), small_bench())
    assert 0.02 <= cost.seconds < 1
    assert (cost.forward, cost.backward, cost.repeats) == (5, 0, REPEATS)
    assert len(naps) == REPEATS + 2  # one to warm up, one for the memory


def test_a_slow_method_is_not_repeated_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"QUICK": 0.01, "PATIENCE": 0.1, "SLOW": 0.15}.items():
        monkeypatch.setattr(f"snellen.cards.costs.{name}", value)
    naps: list[float] = []
    assert measure_cost(Sleeping(naps, 0.04), small_bench()).repeats <= 2
    assert len(naps) <= 3
    naps.clear()
    assert measure_cost(Sleeping(naps, 0.2), small_bench()).repeats == 1
    assert len(naps) == 1


def test_passes_that_could_be_shared_are_counted_all_the_same() -> None:
    cost = measure_cost(METHODS.build("integrated-gradients", {"steps": 6}), small_bench())
    assert (cost.forward, cost.backward) == (6, 6)


ALLOCATIONS = """
import torch
from snellen.cards.costs import Memory

held = torch.ones(64, 2**18)  # 64 MiB
memory = Memory(torch.device("cpu"))
for _ in range(4):
    torch.ones(96, 2**18).sum()
print(memory.peak(), Memory(torch.device("cpu")).peak(), float(held.sum()))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere memory is not measured")
def test_memory_is_the_peak_above_what_was_held() -> None:
    # In a process of its own: a test that ran units here has told the allocator to keep what is freed.
    done = subprocess.run([sys.executable, "-c", ALLOCATIONS], capture_output=True, text=True, check=True, timeout=120)
    peak, again, _ = map(float, done.stdout.split())
    assert 90 < peak < 240  # not the sum of all four; one that was freed may be handed back late
    assert again < 10


@pytest.mark.parametrize(
    ("seconds", "order", "share"), [(0.05, -2, 1.0), (0.1, -1, 1.0), (1.0, 0, 0.75), (50.0, 1, 0.3253), (5e3, 3, 0.0)]
)
def test_the_order_of_magnitude_is_the_word_and_a_tenth_of_a_second_is_instant(
    seconds: float, order: int, share: float
) -> None:
    finding = efficiency(
        MapCost(seconds=seconds, repeats=7, forward=32, backward=16, memory_mib=84.6),
        METHODS.build("gradient"),
        small_bench(),
        MACHINE,
    )
    assert (finding.word, finding.numbers["order"]) == (f"1e{order}", order)
    assert finding.share == pytest.approx(share, abs=1e-3)
    assert {"seconds", "forward", "backward", "memory_mib", "order"} <= set(finding.numbers)


def test_the_sentence_of_costs_names_numbers_n_and_machine() -> None:
    finding = efficiency(
        MapCost(seconds=0.43, repeats=7, forward=32, backward=16, memory_mib=84.6),
        METHODS.build("gradient"),
        small_bench(),
        MACHINE,
    )
    assert finding.sentence == (
        "430 ms for one image of 24×24 alone (order 1e-1; median of 7 images; passes: 32 forward, 16 backward; "
        "85 MiB more at the peak) on abacus, 2 threads."
    )
    other = efficiency(
        MapCost(seconds=0.0043, repeats=1, forward=1, backward=0, memory_mib=None),
        METHODS.build("deepshap"),
        small_bench(),
        MACHINE,
    )
    assert other.sentence.startswith("4.30 ms for one image of 24×24 alone, after fitting to 3 images (order 1e-3; 1 image;")
    assert "memory not measured" in other.sentence


@pytest.mark.parametrize(
    ("needs", "word", "share", "words"),
    [
        ((), "black box", 1.0, "It needs only the model's outputs"),
        (("training-data",), "black box", 1.0, "outputs, and images to be fitted to"),
        (("gradients",), "gradients", 0.5, "It needs the model's gradients;"),
        (("gradients", "layer"), "white box", 0.25, "It needs the model's gradients and layers;"),
        (("gradients", "relu"), "white box", 0.25, "It needs the model's gradients and rectifiers;"),
        (("layer",), "white box", 0.25, "It needs the model's layers;"),
    ],
)
def test_needs_are_the_word(needs: tuple[str, ...], word: str, share: float, words: str) -> None:
    finding = agnosticism(needs, 64, None)
    assert (finding.word, finding.share) == (word, share)
    assert words in finding.sentence
    assert finding.sentence.endswith("on this model it explained all 64 images.")


def test_what_failed_on_this_model_is_refused() -> None:
    finding = agnosticism(("gradients",), 64, "RuntimeError: no")
    assert (finding.word, finding.share) == ("refused", 0.0)
    assert finding.sentence.endswith("on this model it failed: RuntimeError: no.")
