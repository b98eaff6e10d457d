"""Model adapters behind `llm_invoke`: one request in, one reply out, whoever answers.

`messages` has the request and the reply in no provider's words; an adapter (Anthropic, OpenAI, a stub) translates them,
with the provider's own SDK and its retries off; `connection` is the HTTP client that the SDK is given. Begin with
`messages`, then `adapters`.
"""
