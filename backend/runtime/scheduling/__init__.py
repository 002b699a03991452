"""Decides what happens next in the deployment: hands queued segments over, ends what must end, retains and purges."""
