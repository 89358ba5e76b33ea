"""BoringSSL's own DTLS tests (its BoGo runner) against our DTLS.

python -m interop.bogo ─▶ build: the runner, from the package registries, kept in a cache folder
                       └▶ runner.test ─ a process for each test ─▶ launcher ─▶ zygote ─ fork ─▶ shim
                              ▲                                                                 │
                              └────── TCP: datagrams, and a clock that the runner turns ────────┘

expectations.toml says which tests are run, and why each of the others is not.
"""
