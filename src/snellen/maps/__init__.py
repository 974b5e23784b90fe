"""What is done with maps and their images: folding channels, filling removed pixels, superpixels, similarity."""
