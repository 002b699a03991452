"""The health of the deployment, for people who look after it."""
