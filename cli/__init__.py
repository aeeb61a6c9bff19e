"""The xopt command."""
