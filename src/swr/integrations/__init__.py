"""Callbacks for training frameworks, one module each; nothing is imported until a module is asked for."""
