"""The web console for administrators and approvers: an HTTP application on its own port that calls the services."""
