"""What several methods share: layers, fresh values, spectral norms, recycling, gradients, the optimizer's state."""
