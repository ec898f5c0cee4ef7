"""The `Accept` header: whether a client would rather have a page for people than JSON."""

import re

MAX_RANGES = 50
# The ranges that name a media type, the most exact first.
_HTML = ("text/html", "text/*", "*/*")
_JSON = ("application/json", "application/*", "*/*")
_WEIGHT = re.compile(r"0(\.[0-9]{0,3})?|1(\.0{0,3})?")


def prefers_html(header: str) -> bool:
    """Whether the header weighs HTML above JSON, each by the most exact range (RFC 9110).

    A browser's does. One that takes anything alike (`*/*`, as curl's), or an empty one, does not.
    """
    weights = _weights(header)
    return _weight_of(_HTML, weights) > _weight_of(_JSON, weights)


def _weight_of(ranges: tuple[str, ...], weights: dict[str, float]) -> float:
    """The weight of the first of these ranges that the header names; 0 if it names none."""
    for name in ranges:
        if name in weights:
            return weights[name]
    return 0.0


def _weights(header: str) -> dict[str, float]:
    """The weight of each range of media types. One whose weight makes no sense counts for nothing."""
    weights = dict[str, float]()
    for entry in header.split(",")[:MAX_RANGES]:
        name, *parameters = entry.split(";")
        name = name.strip().lower()
        weight_text = _weight_in(parameters)
        # "text/html;level=1" is of HTML, too: of several, what is liked best.
        if _WEIGHT.fullmatch(weight_text):
            weight = float(weight_text)
            earlier_weight = weights.get(name, 0.0)
            weights[name] = max(weight, earlier_weight)
    return weights


def _weight_in(parameters: list[str]) -> str:
    """The weight that the parameters of a range give it, as it is written."""
    for parameter in parameters:
        text = parameter.strip().lower()
        key, _, value = text.partition("=")
        if key.strip() == "q":
            return value.strip()
    return "1"
