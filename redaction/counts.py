"""Counts of findings of sweeps, without any values."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Counts:
    """Counts of one or several sweeps; `add` is associative, so counts can be summed in any order."""

    categories: Counter[str] = field(default_factory=Counter)
    files: int = 0
    binary_files: int = 0
    withheld_files: int = 0
    # Files released without a full search, which happens in mode `detect` only.
    unsearched_files: int = 0
    # Unreadable parts of tables, replaced by null.
    emptied_values: int = 0
    model_calls: int = 0
    # Texts searched without the model because its calls were used up.
    model_skipped: int = 0

    def add(self, other: "Counts") -> None:
        """Adds the counts of another sweep."""
        self.categories.update(other.categories)
        self.files += other.files
        self.binary_files += other.binary_files
        self.withheld_files += other.withheld_files
        self.unsearched_files += other.unsearched_files
        self.emptied_values += other.emptied_values
        self.model_calls += other.model_calls
        self.model_skipped += other.model_skipped

    def add_unswept(self, *, binary: bool, redacts: bool) -> None:
        """Counts a file that cannot be swept, which is withheld if `redacts`, and else released."""
        self.binary_files += binary
        self.withheld_files += redacts
        self.unsearched_files += not redacts

    @property
    def values(self) -> int:
        """Number of values found."""
        return self.categories.total()

    def as_dict(self) -> dict[str, Any]:
        """Returns the counts as JSON, categories in the order of their names."""
        return {
            "categories": dict(sorted(self.categories.items())),
            "values": self.values,
            "files": self.files,
            "binary_files": self.binary_files,
            "withheld_files": self.withheld_files,
            "unsearched_files": self.unsearched_files,
            "emptied_values": self.emptied_values,
            "model_calls": self.model_calls,
            "model_skipped": self.model_skipped,
        }

    @classmethod
    def from_dict(cls, counts: Mapping[str, Any]) -> "Counts":
        """Reads the counts that `as_dict` returned."""
        numbers = {name: count for name, count in counts.items() if name not in {"categories", "values"}}
        return cls(categories=Counter(counts["categories"]), **numbers)
