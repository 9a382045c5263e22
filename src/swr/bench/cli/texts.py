"""What `--help` says about each command, apart from its options."""

ABOUT = """Soft Weight Rescaling: the paper's experiments, and yours.

Examples:
  swr quickstart                       the idea in about a minute, no download
  swr run generalization --columns mnist-mlp --dry-run
                                       what would run, and for how long
  swr run generalization --columns mnist-mlp
                                       a table of the paper; after Ctrl-C, give
                                       the same command again to continue
  swr status                           what is done, running, failed
  swr report                           tables, charts and runs as one web page
  swr compare swr l2 --experiment warm-start --column mnist-mlp
                                       the paired difference of two methods
  swr methods                          what SWR can be compared with
  swr leaderboard --dry-run            all of them, tuned fairly, in one table
  swr explain mymodels:make --input 1x3x32x32
                                       how SWR would rescale your own model
  swr diagnose mymodels:make --checkpoint model.pt --data new.pt
                                       has your network lost plasticity?

`swr COMMAND --help` says more; `swr --version` prints the version."""

QUICKSTART = """See what SWR is for: warm start on digits with 30 % noisy labels, about a minute on two cores.

Networks train on half of the data, then on all of it, some of its labels wrong. Prints the final test accuracy without
any method, with L2, S&P and SWR, and the gap to a network that is trained from scratch on all the data ("cold start").

Examples:
  swr quickstart"""
RUN = """Run an experiment of the paper with its best hyper-parameters, one of ours, or a stream of many short tasks.

What is finished is never run again: the same command continues after Ctrl-C, a crash or a power failure,
and can run several times at once. More methods, columns or seeds only add what is missing.

{lists}

Examples:
  swr run warm-start
  swr run generalization --columns mnist-mlp cifar10-cnn --seeds 2
  swr run warm-start --columns mnist-mlp --methods cold vanilla swr
  swr run generalization --columns cifar100-cnnbn --methods swr \\
      --hyper features=1e-1 classifier=1e-4
  swr run lr-decay --columns folder:my/images-cnn
                               your own images in train/CLASS/*, test/CLASS/*
  swr run permuted-pixels --columns digits-mlp --seeds 1 --epochs-scale 0.1
                               loss of plasticity in minutes, no download
  swr run generalization --columns cifar10-cnn --examples 4000 --seeds 100-104
                               a part of the data, other seeds
  swr run warm-start --engine ray --address auto
                               on all machines of a Ray cluster
  nohup swr run warm-start &   goes on when the terminal closes; `kill PID`
                               stops it in order"""
SWEEP = """Run a grid of hyper-parameters for one method, by default the paper's, and print the best.

Selects on a tenth of the training data that is held out; `--select test` trains on everything and selects on
the test set, as the paper does. A stream holds nothing out: its own metric decides, so tune on other seeds than
those you report.

Examples:
  swr sweep warm-start --column mnist-mlp --method swr --seeds 1
  swr sweep generalization --column cifar10-cnn --method l2 --select test
  swr sweep permuted-pixels --column digits-mlp --method redo --grid threshold=0,0.1 --grid every=100,1000 --seeds 100-102"""
LEADERBOARD = """Compare every method, tuned fairly: how much of the lost plasticity does each recover?

Each method has at most five configurations. The best one on the tuning seed, by average online accuracy or by held-out data,
runs on other seeds and is reported once. The score is (method - vanilla) / (fresh network - vanilla) over the last
tenth of the tasks. Stream by stream, and what is finished is never run again: the same command continues.

Streams: permuted-pixels, random-labels, label-permutation (digits, the default), warm-start, limited (MNIST's first
6,000 images).

Examples:
  swr leaderboard --dry-run    how many runs, how many hours of a core
  swr leaderboard --streams permuted-pixels --methods l2-init swr-budget
  swr leaderboard --report     write docs/leaderboard.md and leaderboard.html
                               from what is done, and run nothing
  swr import results && swr leaderboard --report
                               the published page again"""
STATUS = """Show what is in a store: runs by status, those that are running, those that failed and why.

Examples:
  swr status
  swr status generalization    with its table of results
  swr status --errors          with the whole traceback of every failure"""
DATA = """The datasets: which there are, where they are, downloads.

Official files are looked for in --data, in SWR_DATA, and in the user's cache.

Examples:
  swr data list
  swr data download mnist cifar10 --data datasets
  swr data check mnist"""
REPORT = """Write one web page on everything in a store: tables next to the paper's, charts, runs.

It opens from disk, in any browser, without a network. `swr run`, `swr sweep` and `swr quickstart` write it too.

Examples:
  swr report                   swr.html, from swr.sqlite
  swr report --watch           serve it while `swr run` works, and keep it up to
                               date
  swr report -o results.html --svg figures --pdf figures
  swr report --png figures --markdown results.md"""
COMPARE = """Compare two methods, or two stores: the paired difference over the seeds, its interval, every seed, a chart.

Examples:
  swr compare swr l2 --experiment warm-start --column mnist-mlp
  swr compare mine.sqlite theirs.sqlite --experiment warm-start --column mnist-mlp"""
EXPORT = """Write a store as plain CSV files: runs.csv, metrics.csv, norms.csv, measures.csv.

One row per run, one per run and epoch; every digit is kept, and `swr import` reads them back. Exporting again only changes
the rows of what was run since, so the folder can be kept under version control. Runs that are not finished are left out.
A folder with runs that the store lacks, or with files of another program, is not changed.

Examples:
  swr export -o results/mine
  swr export -o results/leaderboard --last --store leaderboard.sqlite
                               many runs of which only the end is asked for
  python -c "import pandas; print(pandas.read_csv('results/mine/runs.csv'))"
  duckdb -c "SELECT method, avg(test_accuracy) FROM 'results/mine/runs.csv'
             GROUP BY method\""""
IMPORT = """Add the runs of another store, of a folder that `swr export` wrote, or of several such folders in one.

The same run has the same id everywhere, so nothing is added twice: a finished run replaces an unfinished one, otherwise
the run in this store is kept. Either everything is added or, if an epoch is missing or a number impossible, nothing.

Examples:
  swr import from-the-cluster/swr.sqlite
  swr import results/leaderboard && swr leaderboard --report
  swr import results --store all.sqlite
                               all folders in it"""
REMOVE = """Remove runs from a store: failed ones, or any that are not wanted, with their epochs and checkpoints.

Conditions that are given together must all hold. Either all of these runs are removed or none; one that a process executes
now is kept. A folder that was exported before keeps its runs: export into another one, or delete it first.

Examples:
  swr remove --failed --dry-run
                               which runs that would be
  swr remove --experiment warm-start --methods redo
  swr remove 3b1f0c52a4de9876
                               ids are in `swr status --errors`,
                               `swr run … --dry-run` and runs.csv"""
METHODS = """List the methods, with a sentence each; or print the whole description of one.

Examples:
  swr methods
  swr methods redo"""
EXPLAIN = """Print the scale plan of your own model: what SWR may rescale, what is coupled or held, and why.

The factory is called without arguments; modules in the current folder are found.

Examples:
  swr explain mymodels.nets:make --input 1x3x32x32
  swr explain mymodels.text:Transformer --input int:2x16 --input 2x16x8"""

DIAGNOSE = """Find out whether your trained network has lost plasticity, in which layer, and what to try.

Copies of it and fresh networks train on the same batches, and their losses are compared. Give batches of a task that is new
to the network; if it knows them already, their classes are relabelled. The checkpoint is only read.

Examples:
  swr diagnose mymodels:make --checkpoint model.pt --data mymodels:new_batches
  swr diagnose mymodels:make --checkpoint model.pt --data new.pt -o diagnose.html
  swr diagnose mymodels:make --checkpoint model.pt --input 128x3x32x32     without data: noise with random labels"""
