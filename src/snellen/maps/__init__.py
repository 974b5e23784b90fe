"""Operations on maps and images: folding channels, filling removed pixels, superpixels, similarity, explaining again."""
