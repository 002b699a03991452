"""Messages to operators by e-mail, Slack and Teams."""
