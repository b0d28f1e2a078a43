"""One round from a file: snapshots of a cluster in, decisions out."""
