"""The experiments: datasets, models, scenarios, training and reports (needs the ``[bench]`` extra)."""
