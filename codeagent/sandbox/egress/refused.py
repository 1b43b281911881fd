"""A request that is not passed on."""


class Refused(Exception):
    """The text is why, as a phrase for the model; `status` is the HTTP answer to it, 0 where one has begun already."""

    def __init__(self, reason: str, status: int = 403) -> None:
        super().__init__(reason)
        self.status = status
