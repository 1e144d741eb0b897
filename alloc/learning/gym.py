"""Gymnasium for the environments; without it, one sentence that says how to get it."""

from alloc.errors import missing_extra

try:
    from gymnasium import Env as Env
    from gymnasium.spaces import Box as Box
    from gymnasium.spaces import Discrete as Discrete
    from gymnasium.vector import AutoresetMode as AutoresetMode
    from gymnasium.vector import VectorEnv as VectorEnv
    from gymnasium.vector.utils import batch_space as batch_space
except ImportError as _error:
    raise missing_extra("the environments need Gymnasium", "gym", _error) from None
