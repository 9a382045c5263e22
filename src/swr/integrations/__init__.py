"""Callbacks for training frameworks, one module each. A framework is imported only with its module."""
