"""The one error that calibration raises."""


class CalibrationError(Exception):
    """Data, a table or a setting that cannot be used for calibration.

    `str(error)` is one line that starts with the file or tensor at fault and gives the value found and what is allowed.
    `hint` says in the imperative what to change; it is empty when the message already does.
    """

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint
