"""PyTorch's own operator database as the judge of the algebra."""
