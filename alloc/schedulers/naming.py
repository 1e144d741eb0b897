"""How files of learned policies are named; known without opening one."""

SUFFIX = ".onnx"
"""How names of policy files end."""
