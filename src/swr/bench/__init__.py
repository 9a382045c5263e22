"""The experiments: datasets, models, training, results and reports (needs the ``[bench]`` extra).

The packages import each other in one direction only: data, experiments, training, store, running, report, cli. What they all
use is in :mod:`swr.bench.files` and :mod:`swr.bench.words`.
"""
