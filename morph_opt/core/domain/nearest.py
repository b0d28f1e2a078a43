"""Messages about unknown names, with suggestions."""

from __future__ import annotations

from collections.abc import Iterable


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that was probably meant; None if none is similar.

    Case does not matter, and underlines equal dashes. A name that begins with the given one or has
    the same letters is similar too.

    >>> nearest("naiv", ["naive", "base"])
    'naive'
    >>> nearest("H100", ["A800-80GB", "H100-80GB"])
    'H100-80GB'
    >>> nearest("--policies", ["--prices", "--policy"])
    '--policy'
    >>> nearest("jtc", ["fifo", "jct"])
    'jct'
    >>> nearest("nope", ["naive", "base"]) is None
    True
    """
    import difflib

    by_word = {_plain(one): one for one in reversed(tuple(known))}
    word = _plain(name)
    if not word:
        return None
    if word in by_word:
        return by_word[word]
    begun = [
        one
        for one in by_word
        if len(word) > 1 and (one.startswith(word) or sorted(one) == sorted(word))
    ]
    found = difflib.get_close_matches(word, begun or by_word, 3, 0.0 if begun else 0.7)
    # Prefer the name with the same beginning: first letters are rarely mistyped.
    found.sort(key=lambda one: [a != b for a, b in zip(word, one, strict=False)])
    return by_word[found[0]] if found else None


def _plain(name: str) -> str:
    return name.lower().replace("_", "-").removeprefix("--")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return `` (did you mean 'naive'?)`` if a known name is similar, else ""."""
    found = nearest(name, known)
    return "" if found is None else f" (did you mean {found!r}?)"


def unknown(what: str, name: str, known: Iterable[str], more: str = "") -> str:
    """Return the message about an unknown name, with a suggestion and the known names.

    >>> unknown("trace", "naiv", ["naive", "base"], "or give a file")
    "unknown trace 'naiv' (did you mean 'naive'?); known are naive, base, or give a file"

    Parameters
    ----------
    what
        Kind of name.
    name
        Name as it was given.
    known
        All known names.
    more
        Words for other accepted values.
    """
    names = tuple(known)
    listed = ", ".join((*names, *filter(None, [more]))) or "none"
    return f"unknown {what} {name!r}{did_you_mean(name, names)}; known are {listed}"
