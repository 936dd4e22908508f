"""Static verifier of programs: what is proven of a `.npu` for every legal timing, from its bytes alone.

It shares no code with lowering, scheduling and emission: it reads the manual's tables and nothing else.
"""

from npuc.verify.verdict import Finding, Verdict
from npuc.verify.verifier import verify_program

__all__ = ["Finding", "Verdict", "verify_program"]
