"""Text for people: names that cannot command the terminal, times by their distance, bytes that are text."""

from __future__ import annotations

import base64
import codecs

STATE_STYLES = {
    "waiting": "cyan",
    "delayed": "blue",
    "rate_limited": "yellow",
    "waiting_children": "blue",
    "active": "green",
    "suspended": "magenta",
    "completed": "green",
    "failed": "red",
    "cancelled": "yellow",
    "expired": "red",
    "skipped": "bright_black",
    # lanes, workers, attempts, scanners
    "paused": "yellow",
    "draining": "yellow",
    "disabled": "red",
    "live": "green",
    "lapsed": "red",
    "started": "green",
    "ended_success": "green",
    "ended_failure": "red",
    "ended_cancelled": "yellow",
    "interrupted_reclaimed": "yellow",
    "error": "red",
    # findings
    "ok": "green",
    "notice": "cyan",
    "warning": "yellow",
    "critical": "bold red",
}

_UNITS = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000))
_PREVIEW_BYTES = 2000


def plain(value: object, *, keep: str = "") -> str:
    """The value as text in which whatever is not printable is shown as an escape.

    Names, reasons and payloads come from elsewhere: an escape sequence in one of them must not move the
    cursor, nor a bidirectional mark turn an id around.

    Args:
        value: What to show.
        keep: Characters to let through all the same, such as line ends in a text of several lines.
    """
    text = str(value)
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or char in keep else char.encode("unicode_escape").decode()
        for char in text
    )


def span(ms: int) -> str:
    """A duration, rounded down to its two largest units."""
    if ms < 1000:
        return f"{ms}ms"
    parts: list[str] = []
    rest = ms
    for name, size in _UNITS:
        count, rest = divmod(rest, size)
        if count or parts:
            parts.append(f"{count}{name}")
    return " ".join(part for part in parts[:2] if not part.startswith("0"))


def relative(at_ms: int, now_ms: int) -> str:
    """An instant by its distance from now."""
    distance = now_ms - at_ms
    if abs(distance) < 1000:
        return "now"
    return f"{span(distance)} ago" if distance > 0 else f"in {span(-distance)}"


def readable(data: bytes) -> str | dict[str, str]:
    """Bytes as JSON can hold them: the text that they are, else an object with their base64 form."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def preview(data: bytes) -> str:
    """The beginning of some bytes, on one line."""
    is_whole = len(data) <= _PREVIEW_BYTES
    try:
        # An incremental decoder forgives a character that the end of the preview cuts in two.
        text = codecs.getincrementaldecoder("utf-8")().decode(data[:_PREVIEW_BYTES], final=is_whole)
    except UnicodeDecodeError:
        return f"{len(data)} bytes that are no text"
    return plain(text) if is_whole else f"{plain(text)} ... ({len(data)} bytes)"
