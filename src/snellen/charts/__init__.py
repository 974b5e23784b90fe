"""The one chart layer: accessible SVG parts, colours, numbers, pictures and the frame of every page."""
