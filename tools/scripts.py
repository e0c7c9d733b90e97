"""For scripts of this folder that use each other's functions; most of them have no suffix."""
import importlib.machinery
import importlib.util
from pathlib import Path

TOOLS = Path(__file__).resolve().parent


def load(name):
    """The script as a module."""
    loader = importlib.machinery.SourceFileLoader(name.replace("-", "_"), str(TOOLS / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module
