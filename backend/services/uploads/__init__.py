"""Files that people give runs: staged until a start takes them, else removed."""
