"""What a process counts of itself: plain numbers, for every part, without any library."""

from telemetry.kinds import Counter, Described, Family, Gauge, Histogram, Level, Sample, Timed

__all__ = ["Counter", "Described", "Family", "Gauge", "Histogram", "Level", "Sample", "Timed"]
