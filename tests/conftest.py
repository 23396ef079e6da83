"""What holds for all tests: none depends on how fast the machine is, and CI tries the same examples every time."""

import os
import signal

from hypothesis import HealthCheck, settings

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell's background job ignores it, and all that the tests start would inherit that; CI may be such a job.
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile(
    "steady",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize="CI" in os.environ,
)
settings.load_profile("steady")
