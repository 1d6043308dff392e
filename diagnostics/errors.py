"""The base of all errors that fxport raises by design."""


class FxportError(Exception):
    """Base of the documented errors: `except fxport.FxportError` catches each of them.

    An error that is a ValueError, TypeError or ImportError by its meaning has that as its second base. Any other
    exception is a defect of fxport, or comes from the user's own code.
    """
