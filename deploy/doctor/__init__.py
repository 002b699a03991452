"""Checks of what a part of the service needs: settings, files, database, objects and the other parts. No change."""
