"""EasyScale: steps of elastic workers, rounds on pools, and its published simulator."""
