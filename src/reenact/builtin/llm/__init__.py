"""Model adapters behind `llm_invoke`: one request in, one reply out, whoever answers.

`messages` has the request and the reply; an adapter (Anthropic, OpenAI, a stub) sends them with the provider's own SDK
and its retries off, in the provider's form (`translation`, `structured`); `connection` is the HTTP client that the SDK
is given. Begin with `messages`, then `adapters`.
"""
