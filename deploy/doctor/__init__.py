"""Checks of the requirements of a part: settings, files, database, objects and other parts; changes nothing."""
