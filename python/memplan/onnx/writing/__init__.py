"""Split graphs of ONNX models as models of their own."""
