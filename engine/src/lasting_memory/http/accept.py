"""The `Accept` header: whether a client would rather have a page for people than JSON."""

import re

MAX_RANGES = 50
_HTML, _JSON = (
    ("text/html", "text/*", "*/*"),
    ("application/json", "application/*", "*/*"),
)  # the most exact first
_WEIGHT = re.compile(r"0(\.[0-9]{0,3})?|1(\.0{0,3})?")


def prefers_html(accept: str) -> bool:
    """Whether the header weighs HTML above JSON, by the most exact range that names each, as RFC
    9110 has it.

    A browser's does. One that takes anything alike (`*/*`, as curl's), or an empty one, does not.
    """
    weights = _weights(accept)
    return _weight_of(_HTML, weights) > _weight_of(_JSON, weights)


def _weight_of(ranges: tuple[str, ...], weights: dict[str, float]) -> float:
    return next((weights[name] for name in ranges if name in weights), 0.0)


def _weights(accept: str) -> dict[str, float]:
    """The weight of each range of media types; one with a weight that is none counts for nothing."""
    weights = dict[str, float]()
    for entry in accept.split(",")[:MAX_RANGES]:
        name, *parameters = (part.strip().lower() for part in entry.split(";"))
        given = [
            value.strip()
            for key, _, value in (part.partition("=") for part in parameters)
            if key.strip() == "q"
        ]
        weight = given[0] if given else "1"
        # "text/html;level=1" is of HTML, too: of several, what is liked best.
        if _WEIGHT.fullmatch(weight):
            weights[name] = max(float(weight), weights.get(name, 0.0))
    return weights
