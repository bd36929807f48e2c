"""Where to compute: what a user may write, and a clear word where there is no such thing."""

import torch

from formwright.errors import InputError


def device_of_text(text: torch.device | str) -> torch.device:
    """The device called ``text``, if it can be used here: cpu, cuda, cuda:1, ..."""
    try:
        device = torch.device(text)
    except RuntimeError:
        raise InputError(f"{text!r} is no device; write cpu, cuda or cuda:1.") from None
    if device.type == "meta":
        raise InputError("The device meta holds no numbers; write cpu, cuda or cuda:1.")
    try:
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError):  # torch says either, whichever way it was built
        raise InputError(f"There is no {str(device)!r} on this machine; {_usable()}.") from None
    return device


def _usable() -> str:
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if count:
        return f"use cpu or cuda:0 to cuda:{count - 1}" if count > 1 else "use cpu or cuda"
    return "torch finds no CUDA device, so use cpu"
