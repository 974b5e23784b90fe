"""A model as methods and metrics may ask it: outputs, gradients, layers, targets."""

from snellen.classifier.classifier import Classifier as Classifier
