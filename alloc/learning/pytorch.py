"""PyTorch for the modules that train; without it and its exporter, one sentence on how to get them.

They import it from here, so that each of them can be named without PyTorch and none ends in the
traceback of an import.
"""

from importlib.util import find_spec

from alloc.errors import missing_extra

try:
    # PyTorch exports through it, at the end of a training: too late to find that it is missing.
    if find_spec("onnxscript") is None:
        raise ImportError("No module named 'onnxscript'")
    import torch as torch
    from torch import Tensor as Tensor
    from torch import nn as nn
    from torch.nn import functional as functional
except ImportError as _error:
    raise missing_extra(
        "training and exporting policies need PyTorch and onnxscript", "learn", _error
    ) from None
