"""Files: atomic writing, checked reading, checksums and seals."""
