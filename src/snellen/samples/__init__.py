"""Pictures from folders, datasets and arrays, as Samples; every way a picture can be broken is met here."""

from snellen.samples.anything import as_samples as as_samples
from snellen.samples.arrays import from_arrays as from_arrays
from snellen.samples.conditions import under as under
from snellen.samples.dataset import from_dataset as from_dataset
from snellen.samples.files import Entry as Entry
from snellen.samples.files import from_entries as from_entries
from snellen.samples.files import from_files as from_files
from snellen.samples.folder import from_folder as from_folder
from snellen.samples.samples import Samples as Samples
from snellen.samples.samples import digest as digest
from snellen.samples.samples import from_list as from_list
