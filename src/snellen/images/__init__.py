"""Samples from folders, files, arrays and datasets; and conditions, which change the images of a run."""

from snellen.images.any_source import as_samples as as_samples
from snellen.images.any_source import from_path as from_path
from snellen.images.arrays import from_arrays as from_arrays
from snellen.images.conditions import apply_condition as apply_condition
from snellen.images.dataset import from_dataset as from_dataset
from snellen.images.entries import Entry as Entry
from snellen.images.files import from_entries as from_entries
from snellen.images.files import from_files as from_files
from snellen.images.folder import from_folder as from_folder
from snellen.images.reading import Reading as Reading
from snellen.images.reading import colours as colours
from snellen.images.samples import Samples as Samples
from snellen.images.samples import digest as digest
from snellen.images.samples import from_list as from_list
