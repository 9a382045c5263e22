"""From the arguments of `swr` to an exit code."""

import difflib
import os
import shlex
import sys
from collections.abc import Sequence

from swr._version import __version__
from swr.bench.cli.narrow import narrow_help
from swr.errors import OptionError, SWRError

EXTRA = ("tyro", "rich", "numpy", "PIL", "pooch", "sklearn", "scipy", "altair", "vl_convert", "jinja2", "markupsafe")
"""of the [bench] extra, by the names they are imported with"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Execute the command line, and exit: 0 success, 1 runs failed, 2 wrong usage, 130 interrupted."""
    arguments = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal that cannot show λ still shows the rest
    if arguments in (["--version"], ["-V"]):
        print(f"swr {__version__}")
        sys.exit(0)
    try:
        code = _perform(arguments)
        sys.stdout.flush()
    except SWRError as error:
        print(f"swr: {error}", file=sys.stderr)
        code = 2
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in EXTRA:
            raise
        fix = "pip install 'soft-weight-rescaling[bench]'"
        print(f"swr: the command line needs {package}, which is not installed: {fix}", file=sys.stderr)
        code = 2
    except KeyboardInterrupt:
        print("swr: interrupted", file=sys.stderr)
        code = 130
    except BrokenPipeError:  # the reader, such as `head`, has ended; Python must not try to flush once more
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 141
    sys.exit(code)


def _perform(arguments: list[str]) -> int:
    import tyro

    from swr.bench.cli import options, texts

    if not arguments[0].startswith("-") and arguments[0] not in options.COMMANDS:
        guess = difflib.get_close_matches(arguments[0], options.COMMANDS, n=1)
        hint = f"did you mean {guess[0]}? " if guess else ""
        raise OptionError(f"there is no command {arguments[0]!r}: {hint}known are {', '.join(options.COMMANDS)}.")
    with narrow_help():
        command: options.Command = tyro.cli(
            options.named() if arguments[0].startswith("-") else options.explained(),
            prog="swr",
            description=texts.ABOUT,
            args=arguments,
            config=(tyro.conf.OmitSubcommandPrefixes,),
        )
    from swr.bench.cli import commands  # torch and all the rest; parsing does not need them

    return commands.perform(command, again=shlex.join(["swr", *arguments]))
