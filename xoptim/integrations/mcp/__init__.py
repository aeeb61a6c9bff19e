"""A server of the Model Context Protocol, with which agents optimize and compare models."""

from typing import TYPE_CHECKING

from xoptim.facts.lazy import on_demand

if TYPE_CHECKING:
    from xoptim.integrations.mcp.files import McpError as McpError
    from xoptim.integrations.mcp.serving import (
        ARGUMENTS as ARGUMENTS,
        SKILL as SKILL,
        ToolAnswer as ToolAnswer,
        Tools as Tools,
        serve as serve,
        server as server,
    )
else:
    __getattr__ = on_demand(__name__)
