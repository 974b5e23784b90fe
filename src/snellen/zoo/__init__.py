"""Ready-made classifiers and images, and loading of models by name."""

from snellen.zoo.digit_networks import digits_recipe as digits_recipe
from snellen.zoo.digits import digit_samples as digit_samples
from snellen.zoo.digits import training_digits as training_digits
from snellen.zoo.digits_many import many_digit_samples as many_digit_samples
from snellen.zoo.efficientnet_lite0 import class_names as class_names
from snellen.zoo.models import DIGITS as DIGITS
from snellen.zoo.models import DIGITS_MANY as DIGITS_MANY
from snellen.zoo.models import EMBEDDED as EMBEDDED
from snellen.zoo.models import MODELS as MODELS
from snellen.zoo.models import load_classifier as load_classifier
from snellen.zoo.photographs import PHOTOGRAPHS as PHOTOGRAPHS
from snellen.zoo.photographs import photographs as photographs
