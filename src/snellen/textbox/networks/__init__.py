"""Networks that follow a rule: architectures, training, verification, and the seven that come with Snellen."""
