"""Classifier: a model with its outputs, gradients and layers, as methods and metrics use it."""

from snellen.classifier.classifier import Classifier as Classifier
