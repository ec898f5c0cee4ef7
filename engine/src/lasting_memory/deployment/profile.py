"""What memory holds of a person as they describe themselves."""

from pydantic import BaseModel, ConfigDict, Field

PROFILE_PATH = "/memories/profile.json"


class Profile(BaseModel):
    """A person as they describe themselves. A missing field keeps its old value.

    A fork's own has this one's fields and its own, each with a default and a description, which the
    model is shown.
    """

    model_config = ConfigDict(extra="forbid")

    name: str | None = Field(None, max_length=200, description="What to call the person.")
    role: str | None = Field(
        None, max_length=200, description="What they do, e.g. 'backend engineer at a bank'."
    )
    language: str | None = Field(
        None, max_length=50, description="The language they want answers in, e.g. 'German'."
    )
    timezone: str | None = Field(
        None, max_length=50, description="IANA name, e.g. 'Europe/Berlin'."
    )
    units: str | None = Field(
        None, max_length=50, description="Units of measurement they prefer, e.g. 'metric'."
    )
