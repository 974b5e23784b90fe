"""Every example in a docstring is run."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import snellen
from snellen.conformance.adapters import NEIGHBOURS

STRANGERS = {f"snellen.conformance.adapters.{name}" for name in NEIGHBOURS.values()}
"""Modules that import somebody else's package, which need not be installed."""

MODULES = [module.name for module in pkgutil.walk_packages(snellen.__path__, "snellen.") if module.name not in STRANGERS]


@pytest.mark.parametrize("name", MODULES)
def test_examples_hold(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_there_are_examples():
    modules = [importlib.import_module(name) for name in MODULES]
    assert sum(len(test.examples) for module in modules for test in doctest.DocTestFinder().find(module)) >= 10
