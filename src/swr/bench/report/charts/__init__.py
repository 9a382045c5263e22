"""The charts of a report, and their files."""
