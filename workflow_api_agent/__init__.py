"""Types for authors of agents, and `run_agent`, which runs an agent in a unit test; standard library only.

```python
from workflow_api_agent import Context

def run(context: Context) -> dict[str, int]:
    return {"words": len((context.input_text or "").split())}
```
"""

from workflow_api_agent.context import Connector, Context
from workflow_api_agent.testing import AgentRun, Event, run_agent

__all__ = ["AgentRun", "Connector", "Context", "Event", "run_agent"]
