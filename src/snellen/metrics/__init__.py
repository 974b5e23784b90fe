"""Metrics, one file per metric or group of related metrics. Every module here is imported, so a new file is enough."""

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
