"""Networks that follow a rule: architectures, training, proof, and the seven that come along."""
