"""The report on a store: tables next to the paper's, charts, one self-contained web page.

Nothing is imported here: the libraries for charts take a second to import, and tables alone do not need them.
"""
