"""How scale flows through a network: trace it, follow the factors, solve the equations once."""
