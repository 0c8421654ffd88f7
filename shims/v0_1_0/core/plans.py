"""For processes of version 0.1.0 that live on after an upgrade: they load this name late.

It goes with the next version; see "Upgrading" in docs/design.md.
"""

from headgate.core.admission.candidates import Candidate, Plan, Verdict

__all__ = ["Candidate", "Plan", "Verdict"]
