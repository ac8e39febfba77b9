"""The version of the library, for the package and for the files it writes."""

__version__ = "0.1.0"
