"""Comments that do not silence anything."""
import time

A = time.time()  # reenact: ignore[RN203]  # expect: RN002 RN203
B = time.time()  # reenact: ignore  # expect: RN002 RN203
C = time.time()  # reenact: ignore[RN999] there is no such rule  # expect: RN003 RN203
D = 1  # reenact: ignore[RN203] nothing here  # expect: RN004
E = time.time()  # reenact: ignore[RN201] the wrong rule  # expect: RN004 RN203
