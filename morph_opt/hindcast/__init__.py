"""Statement on how well a site's own scheduler, replayed, reproduces the waits of its log."""
