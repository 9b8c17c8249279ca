"""Runs on disk, as Arrow tables."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, Iterator, Mapping, Union

if TYPE_CHECKING:
    import pyarrow

# The newest layout of a run that this package reads (docs/runs.md).
SCHEMA = 3


class Run(Mapping[str, "pyarrow.Table"]):
    """A run: `run.info` is its run.json, and `run["sends"]` one of its tables.

    A table is read when it is asked for, and only then. One that has no rows has no columns either: nothing says what they would be.
    """

    def __init__(self, path: Union[str, os.PathLike[str]]) -> None:
        self.path = Path(path)
        self.info: Dict[str, Any] = json.loads((self.path / "run.json").read_text(encoding="utf-8"))
        schema = self.info.get("schema")
        if not isinstance(schema, int):
            raise ValueError(f"{self.path}: run.json names no schema, so this is not a run of Wirelapse")
        if schema > SCHEMA:
            raise ValueError(f"{self.path}: its schema is {schema}, and this package reads up to {SCHEMA}: install a newer one")

    @property
    def kind(self) -> str:
        """What it is a run of: `trace`, `study`, `workload`, `capture`, …"""
        return str(self.info.get("kind", "trace"))

    @property
    def finished(self) -> bool:
        """Whether it came to its end. One whose writer was killed is whole but for its last seconds."""
        return self.info.get("state") != "unfinished"

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(folder.name[: -len(".parquet")] for folder in self.path.glob("*.parquet") if folder.is_dir()))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in set(self)

    def __getitem__(self, name: str) -> pyarrow.Table:
        if name not in self:
            raise KeyError(f"{self.path} has no table {name!r}; it has {', '.join(self)}")
        import pyarrow
        import pyarrow.dataset

        # A part has a hidden name until it is complete, and those are left out.
        parts = sorted(part for part in (self.path / f"{name}.parquet").glob("*.parquet") if not part.name.startswith("."))
        if not parts:
            return pyarrow.table({})
        return pyarrow.dataset.dataset([str(part) for part in parts], format="parquet").to_table()

    def __repr__(self) -> str:
        return f"<Run {self.path}: {self.kind}, {', '.join(self)}>"


def read(run: Union[str, os.PathLike[str]]) -> Run:
    """Opens a run that `wirelapse … -o RUN` wrote.

    Raises OSError where there is none, and ValueError where it is of a newer version than this package or no run at all.
    """
    return Run(run)
