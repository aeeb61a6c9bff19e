"""The façade of a graph under the name of the seed documents: `xoptim.builder.GraphBuilder`."""

from xoptim.optimizing.builder import GraphBuilder as GraphBuilder
