"""Reading of submitted forms, with and without files, and the problems of their fields."""
