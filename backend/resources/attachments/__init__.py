"""Files that agents attach to the prompt of a model: their types, and their examination in confined processes."""
