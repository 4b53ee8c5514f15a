"""eqkir: an equality-saturation optimizer for numeric kernels."""
