"""Six published designs side by side with Gatehouse, on the same store, reranker, models and loopback web.

One file per design; `desk.py` is what each of them is given, `compare.py` asks all of them the same questions.
"""
