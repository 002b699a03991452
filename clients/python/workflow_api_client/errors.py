"""All exceptions of the client: `ApiError` has a subclass for each error code of the service."""

from workflow_api_client.failures import *  # noqa: F403 # see __all__ there
from workflow_api_client.generated.errors import *  # noqa: F403
