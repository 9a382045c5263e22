"""The report on a store: tables beside the paper's, charts, one self-contained web page."""
