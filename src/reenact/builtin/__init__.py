"""Built-in skills: HTTP, models, JSON, mail, webhooks, files, shell, key-value.

Each module with a skill's name holds that skill: parameters in, a typed result or a `SkillError` out. They share the
guarded HTTP client in `net/`, the model adapters in `llm/`, the operations in `transform/`, the folder of `workspace`
and the rate `limiter`. `catalogue` lists them all. Begin with `http_call`.
"""
