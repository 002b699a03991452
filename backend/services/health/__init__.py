"""The health of the deployment, for its operators."""
