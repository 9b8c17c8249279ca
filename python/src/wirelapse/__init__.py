"""Where the time of TCP and UDP traffic goes on Linux: what the command `wirelapse` measures and writes, in Python.

`analyze` gives the verdicts on a capture as objects, `read` the tables of a run, and `wirelapse.timestamping` the timestamps of a socket. `command` is the path of
the command that came with this package.
"""

from importlib.metadata import version

from .command import WirelapseError, command
from .captures import Analysis, analyze
from .runs import Run, read

__version__ = version("wirelapse")
__all__ = ["Analysis", "Run", "WirelapseError", "analyze", "command", "read"]
