"""EasyScale: greedy grants to elastic workers on GPUs of several types."""
