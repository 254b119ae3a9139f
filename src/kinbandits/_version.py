"""The version, read by the build and by saved files."""

__version__ = "0.1.0"
