"""What fits through the door: commands for each kind of model, head, image and map, and how they ended."""
