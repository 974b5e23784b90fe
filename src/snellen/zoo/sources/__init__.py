"""One file per source of models; a package of your own adds one with `@source` (entry-point group `snellen.plugins`)."""

# The order is that of `snellen list models`, and in which sources without a prefix are asked.
from snellen.zoo.sources import efficientnet_lite0, digits, digits_many, timm, torchvision, hf, onnx, onnx2torch  # noqa: F401, I001
from snellen.zoo.sources import graph_file, function, lightning  # noqa: F401
from snellen.zoo.sources.source import LoadedModel as LoadedModel
from snellen.zoo.sources.source import ModelRequest as ModelRequest
from snellen.zoo.sources.source import source as source
