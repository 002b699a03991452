"""Root file systems with the system libraries of environments, unpacked by the operator from images."""
