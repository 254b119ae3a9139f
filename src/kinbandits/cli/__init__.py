"""The command line: parse, call one function, print.

Modules in `MODULES` have a function ``register(app)``, and import nothing heavy at their head: help is quick.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from kinbandits._version import __version__
from kinbandits.errors import KinbanditsError

__all__ = ["main", "make_app", "run_app"]

MODULES = ("demo", "experiment", "data", "logs", "serve", "log", "doctor")
"""Modules of `kinbandits.cli` that add commands, in the order in which help lists them."""


def _version(asked: bool) -> None:
    if asked:
        print(f"kinbandits {__version__}")
        raise typer.Exit


def _start(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error (anywhere).")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Contextual bandits whose arms share data.

    \b
    Examples:
      kinbandits demo              see what it is for, in a minute
      kinbandits data              the data sets of the paper, and which are here
      kinbandits doctor            is everything in order on this machine?
      kinbandits COMMAND --help    every command has examples

    Exit status: 0 done, 1 failed, 2 wrong call, 3 refused by evaluate --gate, 130 stopped.
    """


def make_app() -> typer.Typer:
    """The application with all commands."""
    app = typer.Typer(name="kinbandits", rich_markup_mode=None, no_args_is_help=True, pretty_exceptions_enable=False)
    app.callback()(_start)
    for module in MODULES:
        importlib.import_module(f"kinbandits.cli.{module}").register(app)
    return app


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and exit: 0 well, 1 failed, 2 wrongly called, 130 stopped by the user."""
    run_app(None, arguments, "kinbandits")


def run_app(app: typer.Typer | None, arguments: Sequence[str] | None, name: str) -> None:
    """Run an application (ours, if None) as `main` does: errors in plain words, a traceback with ``--debug``."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in given or bool(os.environ.get("KINBANDITS_DEBUG"))
    try:
        code = (app or make_app())([g for g in given if g != "--debug"], prog_name=name, standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):
        code = _say("Stopped.", 130)
    except BrokenPipeError:  # the reader of our output has gone, as in `kinbandits ... | head`
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 (kept until the end, so that exit does not complain)
        code = 141
    except Exception as error:
        if hasattr(error, "show") and hasattr(error, "exit_code"):  # wrongly called; it knows how to say so
            error.show()
            code = error.exit_code
        elif debug:
            raise
        elif isinstance(error, KinbanditsError):
            code = _say(f"Error: {error}", 1)
        elif isinstance(error, OSError):
            code = _say(f"Error: {error}. Check the path, its permissions and the space left on the disk.", 1)
        else:
            code = _say(
                f"Error: {type(error).__name__}: {error}\nThis should not happen. Run the command again with "
                "--debug for the traceback, and report it with the output of: kinbandits doctor",
                1,
            )
    raise SystemExit(code or 0)


def _say(text: str, code: int) -> int:
    print(text, file=sys.stderr)
    return code
