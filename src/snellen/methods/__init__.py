"""One file per saliency method or group of controls. All modules are imported, so a new file registers its methods."""

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
