"""Seven photographs in scikit-image and scikit-learn, with labels and boxes made for Snellen."""

from __future__ import annotations

import hashlib
import importlib.util
from dataclasses import dataclass
from pathlib import Path

from snellen.errors import SnellenError
from snellen.images import Entry, Samples, from_entries
from snellen.images.geometry import Box, Geometry
from snellen.zoo.efficientnet_lite0 import GEOMETRY

_SKIMAGE = "scikit-image"
_SKLEARN = "scikit-learn"
_FOLDERS = {_SKIMAGE: ("skimage", "data"), _SKLEARN: ("sklearn", "datasets/images")}


@dataclass(frozen=True)
class Photograph:
    """A photograph in an installed package."""

    name: str
    """Name of the photograph."""
    package: str
    """The package that holds it."""
    file: str
    """Its path in that package."""
    sha256: str
    """Checksum of the file."""
    credit: str
    """Who took it."""
    licence: str
    """Under which licence it may be used."""
    sensible: tuple[int, ...]
    """ImageNet classes that a person would accept for it, the best first."""
    box: Box
    """Drawn by hand around the object of the first class, in pixels of the file."""

    def path(self) -> Path:
        """Path of the file; a SnellenError if it is missing or has another checksum."""
        module, folder = _FOLDERS[self.package]
        # Not imported, because that takes seconds.
        package = importlib.util.find_spec(module)
        if package is None or package.origin is None:
            raise SnellenError(f"the photograph '{self.name}' comes with {self.package}: pip install 'snellen[demo]'")
        path = Path(package.origin).parent / folder / self.file
        if not path.is_file():
            raise SnellenError(f"the photograph '{self.name}' is missing from {self.package}: there is no file '{path}'")
        if hashlib.sha256(path.read_bytes()).hexdigest() != self.sha256:
            raise SnellenError(f"'{path}' is not the photograph that Snellen expects; install {self.package} again")
        return path


PHOTOGRAPHS = (
    Photograph(
        name="chelsea", package=_SKIMAGE, file="chelsea.png",
        sha256="596aa1e7cb875eb79f437e310381d26b338a81c2da23439704a73c4651e8c4bb",
        credit="Stefan van der Walt", licence="CC0-1.0", sensible=(281, 282, 285), box=(0, 0, 395, 300),
    ),
    Photograph(
        name="coffee", package=_SKIMAGE, file="coffee.png",
        sha256="cc02f8ca188b167c775a7101b5d767d1e71792cf762c33d6fa15a4599b5a8de7",
        credit="Rachel Michetti, courtesy of Pikolo Espresso Bar", licence="CC0-1.0", sensible=(967, 968, 504),
        box=(172, 17, 412, 308),
    ),
    Photograph(
        name="camera", package=_SKIMAGE, file="camera.png",
        sha256="b0793d2adda0fa6ae899c03989482bff9a42d3d5690fc7e3648f2795d730c23a",
        credit="Lav Varshney", licence="CC0-1.0", sensible=(872, 759), box=(230, 185, 410, 512),
    ),
    Photograph(
        name="rocket", package=_SKIMAGE, file="rocket.jpg",
        sha256="c2dd0de7c538df8d111e479619b129464d0269d0ae5fd18ca91d33a7fdfea95c",
        credit="SpaceX", licence="public domain", sensible=(657, 744, 812), box=(306, 126, 338, 408),
    ),
    Photograph(
        name="motorcycle", package=_SKIMAGE, file="motorcycle_left.png",
        sha256="db18e9c4157617403c3537a6ba355dfeafe9a7eabb6b9b94cb33f6525dd49179",
        credit="Middlebury 2014 stereo benchmark, Scharstein et al.",
        licence="distributed with scikit-image (BSD-3-Clause)", sensible=(665, 670),
        box=(97, 75, 686, 452),
    ),
    Photograph(
        name="china", package=_SKLEARN, file="china.jpg",
        sha256="8378025ad2519d649d02e32bd98990db4ab572357d9f09841c2fbfbb4fefad29",
        credit="danielbuechele on Flickr", licence="CC-BY-2.0", sensible=(698, 663, 442, 832), box=(62, 28, 372, 420),
    ),
    Photograph(
        name="flower", package=_SKLEARN, file="flower.jpg",
        sha256="a77f6ec41e353afdf8bdff2ea981b2955535d8d83294f8cfa49cf4e423dd5638",
        credit="vultilion on Flickr", licence="CC-BY-2.0", sensible=(985,), box=(168, 85, 446, 358),
    ),
)  # fmt: skip


def photographs(geometry: Geometry = GEOMETRY, channels: int = 3) -> Samples:
    """All seven photographs, each labelled with its best class and with a box as truth.

    The cat fills its image, so that pointing at it is easy. The flower is a dahlia, for which ImageNet has no class; its
    label is daisy.
    """
    entries = [Entry(photo.name, str(photo.path()), photo.sensible[0], boxes=(photo.box,)) for photo in PHOTOGRAPHS]
    return from_entries(entries, "scikit-image and scikit-learn", geometry=geometry, channels=channels)
