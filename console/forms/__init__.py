"""Forms as browsers send them, with and without files, and what is wrong with their fields."""
