"""The command that came with this package."""

import os
import shutil
import subprocess
import sysconfig
from typing import Iterator, Sequence


class WirelapseError(Exception):
    """The command failed: its message, and its exit status in `status` (2 is wrong use or bad input)."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


def command() -> str:
    """The path of the command: the one of this package, else the one on PATH.

    Raises FileNotFoundError where there is neither.
    """
    schemes = [None, "posix_prefix", "posix_user"]
    folders = [sysconfig.get_path("scripts") if scheme is None else sysconfig.get_path("scripts", scheme) for scheme in schemes]
    for folder in folders:
        program = os.path.join(folder, "wirelapse")
        if os.access(program, os.X_OK):
            return program
    found = shutil.which("wirelapse")
    if found is None:
        raise FileNotFoundError("there is no program `wirelapse` beside this Python nor on PATH")
    return found


def lines(words: Sequence[str]) -> Iterator[bytes]:
    """The lines that the command prints with these words.

    Raises WirelapseError where it fails, after the lines that it had printed.
    """
    # Its errors go to a pipe that is read at the end alone: they are short.
    with subprocess.Popen([command(), *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        yield from process.stdout
        errors = process.stderr.read().decode(errors="replace").strip()
    if process.returncode != 0:
        raise WirelapseError(errors.removeprefix("error: "), process.returncode)
