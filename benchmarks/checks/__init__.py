"""Campaigns that check the product from outside: hours long, and not part of `make test`."""
