"""Changes of the network itself, made once, before a method is built."""
