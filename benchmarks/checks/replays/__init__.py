"""An independent reader of run folders: recomputes every figure from the log and its documents.

Written from docs/metrics.md, docs/replay.md and docs/round.md. It imports nothing of the project (a
test holds that), so that a slip in the engine or in its figures is not repeated here.
"""
