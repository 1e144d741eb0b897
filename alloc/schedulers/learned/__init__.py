"""Learned policies as schedulers: observations, policy files, ONNX Runtime."""
