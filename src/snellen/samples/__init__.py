"""Pictures from folders, datasets and arrays, as Samples; every way a picture can be broken is met here."""
