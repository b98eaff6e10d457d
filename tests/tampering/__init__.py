"""Every named kind of tampering, what finds it, and that no check of the verifier is decoration.

In come bundles and stores that are whole (`evidence`, `stores`); `kinds/` changes each in a named way and says what
must be found, `judging` holds the verifier against it, `switching_off` takes its checks away one at a time. Begin with
`kinds/kind.py`. `python -m tests.tampering` is the long form.
"""
