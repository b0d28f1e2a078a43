"""Documents that no reader may believe, and a fence of memory around those who read them."""
